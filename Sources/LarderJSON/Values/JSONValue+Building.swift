extension JSONValue {
    /// Builds a value from the calls of a writer.
    ///
    /// - Precondition: the calls write exactly one JSON value (each `begin` has its `end`, each name a value)
    package static func building(_ body: (inout JSONWriter) -> Void) -> JSONValue {
        var writer = JSONWriter()
        body(&writer)
        return writer.bytes.withUnsafeBytes { bytes in
            switch parse(bytes, .max) {
            case .success(let value): return value
            case .failure(let error): preconditionFailure("the calls did not write a JSON value: \(error)")
            }
        }
    }

    /// The value `null`.
    public static let null: JSONValue = building { $0.null() }
    /// The empty object.
    public static let emptyObject: JSONValue = building { writer in
        writer.beginObject()
        writer.endObject()
    }
    /// The value `null` in place of a number that JSON cannot represent.
    private static let notFinite: JSONValue = {
        let value = building { $0.null() }
        value.markAsNotFinite()
        return value
    }()

    private static let yes: JSONValue = building { $0.bool(true) }
    private static let no: JSONValue = building { $0.bool(false) }

    /// A string.
    public static func string(_ text: String) -> JSONValue { building { $0.string(text) } }
    /// A number that is an integer.
    public static func int(_ number: Int) -> JSONValue { building { $0.int(number) } }
    /// A number in its shortest form; `null` for infinities and NaN, which JSON cannot represent.
    /// Calls that send a value refuse this `null`, also in an array or object.
    public static func double(_ number: Double) -> JSONValue {
        number.isFinite ? building { $0.double(number) } : notFinite
    }
    /// `true` or `false`.
    public static func bool(_ truth: Bool) -> JSONValue { truth ? yes : no }

    /// An array.
    public static func array(_ elements: [JSONValue]) -> JSONValue {
        let array = building { writer in
            writer.beginArray()
            for element in elements { writer.value(element) }
            writer.endArray()
        }
        if elements.contains(where: \.isNotFinite) { array.copyMarks(from: Array(zip(array.elements, elements))) }
        return array
    }

    /// An object. If several members have the same name, the last one counts.
    public static func object(_ members: [(String, JSONValue)]) -> JSONValue {
        let object = building { writer in
            writer.beginObject()
            for (name, value) in members {
                writer.name(name)
                writer.value(value)
            }
            writer.endObject()
        }
        if members.contains(where: \.1.isNotFinite) {
            let last = Dictionary(members.map { (Array($0.0.utf8), $0.1) }, uniquingKeysWith: { $1 })
            if last.values.contains(where: \.isNotFinite) {
                object.copyMarks(
                    from: object.members.compactMap { name, copy in last[Array(name.utf8)].map { (copy, $0) } })
            }
        }
        return object
    }

    /// Copies the value, in compact form, into a document of its own. Use it to keep a small part of a large document.
    public func detached() -> JSONValue {
        let entry = entry
        guard entry.has(Node.Flag.clean) else { return JSONValue.building { $0.value(self) } }
        // The text is compact, so the tape can be copied too. Parsing the text again would produce the same tape.
        var builder = TapeBuilder(textCapacity: Int(entry.length), nodeCapacity: Int(entry.span))
        builder.copy(document, node)
        return builder.finish()
    }
}

// JSON has no infinities and no NaN. A value that contains the null of such a number can be read and printed, but a
// program that sends it has made a mistake. The marks are in the tape and not in the text: a value that was parsed has
// none.
extension JSONValue {
    /// Whether the value is the `null` of an infinity or NaN, or an array or object that contains one.
    private var isNotFinite: Bool {
        let entry = entry
        switch entry.kind {
        case Node.Kind.null, Node.Kind.array, Node.Kind.object: return entry.has(Node.Flag.notFinite)
        default: return false
        }
    }

    /// The path of the first infinity or NaN that ``double(_:)`` has replaced in the value; nil if there is none.
    package var notFinitePath: JSONPath? {
        guard isNotFinite else { return nil }
        var (value, path) = (self, [String]())
        while true {
            if let (index, element) = value.elements.enumerated().first(where: { $0.element.isNotFinite }) {
                path.append(String(index))
                value = element
            } else if let (name, member) = value.members.first(where: { $0.value.isNotFinite }) {
                path.append(name)
                value = member
            } else {
                return JSONPath(path)
            }
        }
    }

    /// Marks the value, which no other task can have yet.
    private func markAsNotFinite() { document.storage.pointee.nodes[node].info |= Node.Flag.notFinite }

    /// Marks this value, and the infinities and NaN in its parts, which were copied as text.
    private func copyMarks(from parts: [(copy: JSONValue, original: JSONValue)]) {
        markAsNotFinite()
        // There is no recursion, so deep nesting cannot exhaust the stack.
        var pending = parts
        while let (copy, original) = pending.popLast() {
            guard original.isNotFinite else { continue }
            copy.markAsNotFinite()
            pending += zip(copy.elements, original.elements).map { ($0, $1) }
            pending += zip(copy.members, original.members).map { ($0.value, $1.value) }
        }
    }
}

// `JSONValue` is not expressible by a nil literal, on purpose. If it were, `found ? value : nil` would yield a JSON
// `null` instead of an absent value, because the compiler prefers the type that is not optional. Write `.null` for
// `null`.
extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int) { self = .int(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object. If several members have the same name, the last one counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements) }
}

extension JSONValue: CustomStringConvertible {
    /// ``compactText`` in UTF-8.
    package var compactBytes: [UInt8] {
        if isCompact { return withTextBytes { [UInt8]($0) } }
        var writer = JSONWriter(reservingCapacity: Int(entry.length))
        writer.value(self)
        return writer.bytes
    }

    /// The value as compact JSON: without whitespace between tokens and without duplicate members, of which the last
    /// one counts. Strings and numbers keep their original spelling.
    public var compactText: String {
        if isCompact { return withTextBytes { String(checked: $0) } }
        return String(decoding: compactBytes, as: UTF8.self)
    }

    /// The same as ``compactText``.
    public var description: String { compactText }
}

/// Coding with any encoder or decoder. Numbers pass through `Int` or `Double`, so a number that fits into neither loses
/// precision.
extension JSONValue: Codable {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        if let object = try? decoder.container(keyedBy: Name.self) {
            self = .object(
                try object.allKeys.map { ($0.stringValue, try object.decode(JSONValue.self, forKey: $0)) })
        } else if var array = try? decoder.unkeyedContainer() {
            var elements: [JSONValue] = []
            while !array.isAtEnd { elements.append(try array.decode(JSONValue.self)) }
            self = .array(elements)
        } else {
            self = try Self.scalar(from: decoder.singleValueContainer())
        }
    }

    private static func scalar(from container: any SingleValueDecodingContainer) throws -> JSONValue {
        if container.decodeNil() { return .null }
        if let bool = try? container.decode(Bool.self) { return .bool(bool) }
        if let int = try? container.decode(Int.self) { return .int(int) }
        if let double = try? container.decode(Double.self) { return .double(double) }
        return .string(try container.decode(String.self))
    }

    public func encode(to encoder: any Encoder) throws {
        switch kind {
        case .object:
            var object = encoder.container(keyedBy: Name.self)
            for (name, value) in members { try object.encode(value, forKey: Name(stringValue: name)) }
        case .array:
            var array = encoder.unkeyedContainer()
            for element in elements { try array.encode(element) }
        case .null, .bool, .number, .string:
            var single = encoder.singleValueContainer()
            if let bool { return try single.encode(bool) }
            if let string { return try single.encode(string) }
            if let int { return try single.encode(int) }
            if let double { return try single.encode(double) }
            // The encoder refuses the number with an error that has the path, or encodes it as its strategy says.
            if isNotFinite { return try single.encode(Double.nan) }
            try single.encodeNil()
        }
    }
}
