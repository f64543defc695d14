extension Sequence<UInt8> {
    /// The bytes as lowercase hexadecimal digits, two per byte.
    @inlinable
    package var hex: String {
        var text: [UInt8] = []
        text.reserveCapacity(64)
        for byte in self {
            text.append(HexDigit.text(byte >> 4))
            text.append(HexDigit.text(byte & 15))
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension [UInt8] {
    /// Parses lowercase hexadecimal digits, two per byte. Returns nil for any other text. Uppercase digits are
    /// rejected, because a value that names a file must have only one spelling.
    package init?(hex text: String) {
        self = []
        reserveCapacity(text.utf8.count / 2)
        var high: UInt8?
        for digit in text.utf8 {
            guard let value = HexDigit.value(digit) else { return nil }
            if let first = high {
                append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        if high != nil { return nil }
    }
}

@usableFromInline
enum HexDigit {
    /// The ASCII digit for a value below 16.
    @inlinable
    static func text(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") - 10 + value
    }

    /// The value of an ASCII digit; nil if it is not a lowercase hexadecimal digit.
    static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
