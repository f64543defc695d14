/// Reads a text from its start. Each function consumes what it accepts and returns false at the first invalid byte.
struct FormatReader {
    let text: UnsafeBufferPointer<UInt8>
    var index = 0

    init(_ text: UnsafeBufferPointer<UInt8>) { self.text = text }

    var isAtEnd: Bool { index == text.count }
    var next: UInt8? { index < text.count ? text[index] : nil }

    /// Consumes the given character if it is next. Otherwise returns false.
    mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    /// Consumes one ASCII letter, in upper or lower case.
    mutating func skip(letter: Unicode.Scalar) -> Bool {
        guard let next, next | 0x20 == UInt8(ascii: letter) else { return false }
        index += 1
        return true
    }

    /// Consumes bytes while `condition` holds. Returns their number.
    mutating func skip(while condition: (UInt8) -> Bool) -> Int {
        let start = index
        while let next, condition(next) { index += 1 }
        return index - start
    }

    /// Reads a number of exactly `count` digits.
    mutating func number(digits count: Int) -> Int? {
        var result = 0
        for _ in 0..<count {
            guard let next, Self.isDigit(next) else { return nil }
            result = result * 10 + Int(next & 15)
            index += 1
        }
        return result
    }

    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }
    static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- 0x61 < 26 }
    static func isHexadecimal(_ byte: UInt8) -> Bool { isDigit(byte) || (byte | 0x20) &- 0x61 < 6 }
}
