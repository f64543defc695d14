import LarderJSON

/// A simple JSON value with merge patches and comparison: the reference for ``JSONValue`` and ``MergePatch``.
indirect enum PlainJSON: Equatable {
    case null
    case bool(Bool)
    /// The text of the number.
    case number([UInt8])
    /// UTF-8 with escapes resolved.
    case string([UInt8])
    case array([PlainJSON])
    /// Unique names. A duplicate name keeps the position of its first occurrence and the value of its last.
    case object([Member])

    struct Member: Equatable {
        var name: [UInt8]
        var value: PlainJSON
    }

    static func == (left: PlainJSON, right: PlainJSON) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.number(let a), .number(let b)), (.string(let a), .string(let b)): a == b
        case (.array(let a), .array(let b)): a == b
        case (.object(let a), .object(let b)): sorted(a) == sorted(b)
        default: false
        }
    }

    private static func sorted(_ members: [Member]) -> [Member] {
        members.sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    subscript(name: [UInt8]) -> PlainJSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    /// Whether a member of the object, or of an object nested in it, is null. Arrays are not searched.
    var hasNullMember: Bool {
        guard case .object(let members) = self else { return false }
        return members.contains { $0.value == .null || $0.value.hasNullMember }
    }
}

extension PlainJSON {
    /// Converts a parsed value through its accessors.
    init(_ value: JSONValue) {
        switch value.kind {
        case .null: self = .null
        case .bool: self = .bool(value.bool!)
        case .number: self = .number(Array(value.numberText!.utf8))
        case .string: self = .string(Array(value.string!.utf8))
        case .array: self = .array(value.elements.map { PlainJSON($0) })
        case .object:
            self = .object(value.members.map { Member(name: Array($0.name.utf8), value: PlainJSON($0.value)) })
        }
    }

    /// The function `MergePatch` of RFC 7396, section 2.
    func patched(_ patch: PlainJSON) -> PlainJSON {
        guard case .object(let changes) = patch else { return patch }
        var members: [Member] = []
        if case .object(let mine) = self { members = mine }
        for change in changes {
            let place = members.firstIndex { $0.name == change.name }
            if change.value == .null {
                if let place { members.remove(at: place) }
            } else if let place {
                members[place].value = members[place].value.patched(change.value)
            } else {
                members.append(Member(name: change.name, value: PlainJSON.null.patched(change.value)))
            }
        }
        return .object(members)
    }
}

/// A recursive parser that follows the grammar of RFC 8259.
struct PlainParser {
    private struct Fault: Error {}
    private let bytes: [UInt8]
    private var position = 0
    private let maximumDepth: Int

    /// Returns the value, or nil if the text is not valid JSON or is nested more deeply than `maximumDepth`.
    static func parse(_ bytes: [UInt8], maximumDepth: Int) -> PlainJSON? {
        var parser = PlainParser(bytes: bytes, maximumDepth: maximumDepth)
        return try? parser.document()
    }

    private init(bytes: [UInt8], maximumDepth: Int) {
        self.bytes = bytes
        self.maximumDepth = maximumDepth
    }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ text: StaticString) throws {
        for byte in text.description.utf8 { guard take(byte) else { throw Fault() } }
    }

    private mutating func space() {
        while let next, [0x20, 0x09, 0x0A, 0x0D].contains(next) { position += 1 }
    }

    private mutating func document() throws -> PlainJSON {
        let value = try value(0)
        guard position == bytes.count else { throw Fault() }
        return value
    }

    private mutating func value(_ depth: Int) throws -> PlainJSON {
        space()
        defer { space() }
        switch next.map({ UnicodeScalar($0) }) {
        case "n":
            try expect("null")
            return .null
        case "t":
            try expect("true")
            return .bool(true)
        case "f":
            try expect("false")
            return .bool(false)
        case "\"": return .string(try string())
        case "[": return .array(try list(depth, UInt8(ascii: "]")) { parser in try parser.value(depth + 1) })
        case "{":
            var members: [PlainJSON.Member] = []
            for member in try list(depth, UInt8(ascii: "}"), { parser in try parser.member(depth + 1) }) {
                if let place = members.firstIndex(where: { $0.name == member.name }) {
                    members[place].value = member.value
                } else {
                    members.append(member)
                }
            }
            return .object(members)
        default: return .number(try number())
        }
    }

    private mutating func list<T>(
        _ depth: Int, _ end: UInt8, _ element: (inout PlainParser) throws -> T
    ) throws -> [T] {
        guard depth < maximumDepth else { throw Fault() }
        position += 1
        space()
        if take(end) { return [] }
        var elements: [T] = []
        repeat { elements.append(try element(&self)) } while take(UInt8(ascii: ","))
        guard take(end) else { throw Fault() }
        return elements
    }

    private mutating func member(_ depth: Int) throws -> PlainJSON.Member {
        space()
        let name = try string()
        space()
        guard take(UInt8(ascii: ":")) else { throw Fault() }
        return PlainJSON.Member(name: name, value: try value(depth))
    }

    private mutating func number() throws -> [UInt8] {
        let start = position
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { try digits() }
        if take(UInt8(ascii: ".")) { try digits() }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        return Array(bytes[start..<position])
    }

    private mutating func digits() throws {
        let start = position
        while let next, (0x30...0x39).contains(next) { position += 1 }
        guard position > start else { throw Fault() }
    }

    private mutating func string() throws -> [UInt8] {
        guard take(UInt8(ascii: "\"")) else { throw Fault() }
        var text: [UInt8] = []
        while let byte = next, byte != UInt8(ascii: "\"") {
            position += 1
            guard byte >= 0x20 else { throw Fault() }
            if byte == UInt8(ascii: "\\") { try escape(&text) } else { text.append(byte) }
        }
        guard take(UInt8(ascii: "\"")), String(validating: text, as: UTF8.self) != nil else { throw Fault() }
        return text
    }

    private mutating func escape(_ text: inout [UInt8]) throws {
        guard let kind = next else { throw Fault() }
        position += 1
        switch UnicodeScalar(kind) {
        case "\"", "\\", "/": text.append(kind)
        case "b": text.append(0x08)
        case "f": text.append(0x0C)
        case "n": text.append(0x0A)
        case "r": text.append(0x0D)
        case "t": text.append(0x09)
        case "u":
            var code = try unit()
            if (0xD800..<0xDC00).contains(code) {
                try expect("\\u")
                let low = try unit()
                guard (0xDC00..<0xE000).contains(low) else { throw Fault() }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = UnicodeScalar(code) else { throw Fault() }
            text.append(contentsOf: String(scalar).utf8)
        default: throw Fault()
        }
    }

    private mutating func unit() throws -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard let next, let digit = Character(UnicodeScalar(next)).hexDigitValue, next < 0x80 else { throw Fault() }
            code = code << 4 | UInt32(digit)
            position += 1
        }
        return code
    }
}
