/// Reads bytes in memory from front to back. Each read takes a step of a ``StepBudget``, even if it consumes no bytes,
/// so a loop that reads ends after a number of iterations that is proportional to the bytes.
struct ByteReader {
    /// The bytes end too early or declare an impossible value, or no step is left.
    struct Damage: Error {}

    /// The byte order of numbers.
    var isLittleEndian = false
    private(set) var budget = StepBudget()
    private let bytes: [UInt8]
    private var offset = 0
    /// The end of the bytes, or of the innermost box that is being read.
    private var end: Int

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        end = bytes.count
        budget.receive(bytes.count)
    }

    /// Parses bytes with `body`. Returns nil if they are damaged.
    static func parse<Value>(_ bytes: [UInt8], _ body: (inout ByteReader) throws(Damage) -> Value) -> Value? {
        var reader = ByteReader(bytes)
        do throws(Damage) { return try body(&reader) } catch { return nil }
    }

    /// Reads `length` bytes as a number; 0 if `length` is 0. Throws if the number is 2^63 or more.
    mutating func number(_ length: Int) throws(Damage) -> Int {
        let start = try advance(length)
        var value: UInt64 = 0
        for index in start..<offset {
            let byte = UInt64(bytes[index])
            value = isLittleEndian ? value | byte << (8 * (index - start)) : value << 8 | byte
        }
        guard let number = Int(exactly: value) else { throw Damage() }
        return number
    }

    mutating func skip(_ length: Int) throws(Damage) { _ = try advance(length) }

    /// Whether the next bytes are `text`. Reads nothing.
    func starts(with text: StaticString) -> Bool { bytes.span.extracting(offset..<end).has(text) }

    /// The number of bytes that have not been read.
    var remaining: Int { end - offset }

    private mutating func advance(_ length: Int) throws(Damage) -> Int {
        guard budget.take(), length >= 0, length <= end - offset else { throw Damage() }
        defer { offset += length }
        return offset
    }
}

/// The type of a box in ISO/IEC 14496-12: four characters.
struct BoxType: Equatable, ExpressibleByStringLiteral {
    private let code: Int

    init(_ code: Int) { self.code = code }

    init(stringLiteral text: StaticString) {
        code = text.withUTF8Buffer { $0.reduce(0) { $0 << 8 | Int($1) } }
    }
}

extension ByteReader {
    mutating func boxType() throws(Damage) -> BoxType { BoxType(try number(4)) }

    /// Reads all boxes up to the end. `parse` reads the contents of each one; what it leaves unread is skipped.
    mutating func boxes(_ parse: (BoxType, inout ByteReader) throws(Damage) -> Void) throws(Damage) {
        while offset < end {
            let start = offset
            let size = try number(4)
            let type = try boxType()
            guard size >= 8, size <= end - start else { throw Damage() }
            let outerEnd = end
            end = start + size
            try parse(type, &self)
            (offset, end) = (end, outerEnd)
        }
    }
}
