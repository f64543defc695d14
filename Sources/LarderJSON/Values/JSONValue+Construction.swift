extension JSONValue {
    /// The value that a writer's calls say.
    ///
    /// - Precondition: the calls make exactly one JSON value (each `begin` has its `end`, each name a value).
    public static func building(_ body: (inout JSONWriter) -> Void) -> JSONValue {
        var writer = JSONWriter()
        body(&writer)
        return writer.bytes.withUnsafeBytes { bytes in
            switch parse(bytes, .max) {
            case .success(let value): return value
            case .failure(let error): preconditionFailure("the calls made no JSON value: \(error)")
            }
        }
    }

    public static let null: JSONValue = building { $0.null() }
    /// The object without members.
    public static let emptyObject: JSONValue = building { writer in
        writer.beginObject()
        writer.endObject()
    }
    private static let yes: JSONValue = building { $0.bool(true) }
    private static let no: JSONValue = building { $0.bool(false) }

    public static func string(_ text: String) -> JSONValue { building { $0.string(text) } }
    /// An integer.
    public static func int(_ number: Int) -> JSONValue { building { $0.int(number) } }
    /// A number in its shortest form; `null` for what JSON cannot say, infinities and NaN.
    public static func double(_ number: Double) -> JSONValue { building { $0.double(number) } }
    public static func bool(_ truth: Bool) -> JSONValue { truth ? yes : no }

    public static func array(_ elements: [JSONValue]) -> JSONValue {
        building { writer in
            writer.beginArray()
            for element in elements { writer.value(element) }
            writer.endArray()
        }
    }

    /// An object. Of members with the same name the last one counts.
    public static func object(_ members: [(String, JSONValue)]) -> JSONValue {
        building { writer in
            writer.beginObject()
            for (name, value) in members {
                writer.name(name)
                writer.value(value)
            }
            writer.endObject()
        }
    }

    /// The same value, compact, in a document of its own: for keeping a small part of a large document.
    public func detached() -> JSONValue {
        let entry = entry
        guard entry.has(Node.Flag.clean) else { return JSONValue.building { $0.value(self) } }
        // Its text is its compact form, and its part of the tape says all that parsing it again would find out.
        var builder = TapeBuilder(textCapacity: Int(entry.length), nodeCapacity: Int(entry.span))
        builder.copy(document, node)
        return builder.finish()
    }
}

// There is no nil literal on purpose: with it `found ? value : nil` would be a JSON `null` where an absent value is
// meant, because the compiler prefers the type that needs no optional. `null` is written `.null`.
extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int) { self = .int(value) }
    /// A number in its shortest form.
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object. Of members with the same name the last one counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements) }
}
