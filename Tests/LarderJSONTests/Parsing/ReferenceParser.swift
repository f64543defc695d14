/// A recursive-descent parser for RFC 8259 over a bounds-checked array. It is slow, but short enough to verify by
/// reading.
struct ReferenceParser {
    private struct Rejected: Error {}

    private let bytes: [UInt8]
    private let maximumDepth: Int
    private var at = 0

    /// The value of the JSON text `bytes`; nil if `bytes` are not valid JSON.
    static func parse(_ bytes: [UInt8], maximumDepth: Int = 128) -> Model? {
        var parser = ReferenceParser(bytes: bytes, maximumDepth: maximumDepth)
        do {
            let value = try parser.value(depth: 0)
            return parser.at == bytes.count ? value : nil
        } catch {
            return nil
        }
    }

    private init(bytes: [UInt8], maximumDepth: Int) {
        self.bytes = bytes
        self.maximumDepth = maximumDepth
    }

    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    private mutating func space() {
        while let byte = next, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { at += 1 }
    }

    private mutating func take(_ text: String) throws {
        let expected = Array(text.utf8)
        guard bytes[at...].starts(with: expected) else { throw Rejected() }
        at += expected.count
    }

    private mutating func takes(_ text: String) -> Bool {
        (try? take(text)) != nil
    }

    /// Reads a value and the whitespace around it.
    private mutating func value(depth: Int) throws -> Model {
        space()
        defer { space() }
        switch next {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try array(depth: depth + 1)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"):
            try take("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try take("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try take("null")
            return .null
        default: return .number(try number())
        }
    }

    private mutating func array(depth: Int) throws -> Model {
        guard depth <= maximumDepth else { throw Rejected() }
        try take("[")
        space()
        if takes("]") { return .array([]) }
        var elements: [Model] = []
        repeat { elements.append(try value(depth: depth)) } while takes(",")
        try take("]")
        return .array(elements)
    }

    private mutating func object(depth: Int) throws -> Model {
        guard depth <= maximumDepth else { throw Rejected() }
        try take("{")
        space()
        if takes("}") { return .object([]) }
        var members: [Model.Member] = []
        repeat {
            space()
            let name = try string()
            space()
            try take(":")
            let value = try value(depth: depth)
            if let place = members.firstIndex(where: { $0.name == name }) {
                members[place].value = value
            } else {
                members.append(Model.Member(name: name, value: value))
            }
        } while takes(",")
        try take("}")
        return .object(members)
    }

    private mutating func number() throws -> String {
        let start = at
        _ = takes("-")
        if !takes("0") { try digits() }
        if takes(".") { try digits() }
        if takes("e") || takes("E") {
            if !takes("+") { _ = takes("-") }
            try digits()
        }
        return String(decoding: bytes[start..<at], as: UTF8.self)
    }

    private mutating func digits() throws {
        let start = at
        while let byte = next, (0x30...0x39).contains(byte) { at += 1 }
        if at == start { throw Rejected() }
    }

    private mutating func string() throws -> [UInt8] {
        try take("\"")
        var result: [UInt8] = []
        var pending: [UInt8] = []
        while let byte = next {
            at += 1
            switch byte {
            case 0x22:
                guard String(validating: pending, as: UTF8.self) != nil else { throw Rejected() }
                return result + pending
            case 0x5C:
                guard String(validating: pending, as: UTF8.self) != nil else { throw Rejected() }
                result += pending
                pending = []
                result += Array(String(try escape()).utf8)
            case 0..<0x20: throw Rejected()
            default: pending.append(byte)
            }
        }
        throw Rejected()
    }

    private mutating func escape() throws -> Unicode.Scalar {
        guard let letter = next else { throw Rejected() }
        at += 1
        let plain: [UInt8: Unicode.Scalar] = [
            0x22: "\"", 0x5C: "\\", 0x2F: "/", 0x62: "\u{8}", 0x66: "\u{C}", 0x6E: "\n", 0x72: "\r", 0x74: "\t",
        ]
        if let scalar = plain[letter] { return scalar }
        guard letter == UInt8(ascii: "u") else { throw Rejected() }
        let high = try unit()
        if let scalar = Unicode.Scalar(high) { return scalar }
        try take("\\u")
        let low = try unit()
        guard (0xD800..<0xDC00).contains(high), (0xDC00..<0xE000).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00))
        else { throw Rejected() }
        return scalar
    }

    private mutating func unit() throws -> UInt32 {
        guard at + 4 <= bytes.count else { throw Rejected() }
        let text = String(decoding: bytes[at..<at + 4], as: UTF8.self)
        guard text.utf8.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }),
            let value = UInt32(text, radix: 16)
        else { throw Rejected() }
        at += 4
        return value
    }
}
