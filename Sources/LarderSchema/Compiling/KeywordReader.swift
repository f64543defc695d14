@_spi(LarderSchema) import LarderJSON

/// Reads the keywords of one schema and checks the kinds of their values.
struct KeywordReader {
    let schema: SchemaLocation
    let registry: SchemaRegistry

    subscript(name: String) -> JSONValue? { schema.value[name] }

    func location(_ name: String, _ value: JSONValue) -> SchemaLocation { schema.appending(name, value) }

    func location(_ name: String) -> SchemaLocation { schema.appending(name, self[name] ?? schema.value) }

    /// Returns the members of the object that is the value of a keyword; nil if the schema does not have the keyword.
    func members(_ name: String) throws(SchemaError) -> [(name: String, location: SchemaLocation)]? {
        guard let value = self[name] else { return nil }
        guard value.kind == .object else { throw error(name, "must be an object") }
        return value.members.map { ($0.name, schema.appending(name, $0.name, $0.value)) }
    }

    func error(_ name: String, _ requirement: String) -> SchemaError {
        let value = self[name].map { ", not \($0.shown)" } ?? ""
        return registry.error(location(name), "\"\(name)\" \(requirement)\(value)")
    }

    func string(_ name: String) throws(SchemaError) -> String? {
        guard let value = self[name] else { return nil }
        guard let string = value.string else { throw error(name, "must be a string") }
        return string
    }

    func bool(_ name: String) throws(SchemaError) -> Bool? {
        guard let value = self[name] else { return nil }
        guard let bool = value.bool else { throw error(name, "must be a boolean") }
        return bool
    }

    func number(_ name: String) throws(SchemaError) -> DecimalNumber? {
        guard let value = self[name] else { return nil }
        guard value.kind == .number else { throw error(name, "must be a number") }
        return value.withCursor { DecimalNumber($0.source) }
    }

    /// Returns the value of a keyword that must be an integer of at least 0. Integers above `Int.max` are read as
    /// `Int.max`.
    func count(_ name: String) throws(SchemaError) -> Int? {
        guard let number = try number(name) else { return nil }
        guard number.isInteger, !number.isNegative else { throw error(name, "must be an integer of at least 0") }
        return number.int ?? .max
    }

    /// Returns the value of a keyword that must be an array of different strings.
    func names(_ name: String) throws(SchemaError) -> [String]? {
        guard let value = self[name] else { return nil }
        guard let names = Self.names(value) else { throw error(name, "must be an array of different strings") }
        return names
    }

    static func names(_ value: JSONValue) -> [String]? {
        guard value.kind == .array, let names = value.elements.mapAll(\.string) else { return nil }
        let isUnique = value.withCursor { ValueComparison.firstDuplicate(in: $0) == nil }
        return isUnique ? names : nil
    }

    /// Returns the locations of the schemas in a keyword that must be a nonempty array.
    func schemas(_ name: String) throws(SchemaError) -> [SchemaLocation]? {
        guard let value = self[name] else { return nil }
        guard value.kind == .array, value.count > 0 else { throw error(name, "must be a nonempty array of schemas") }
        return SchemaRegistry.subschemas(of: .list, location(name, value))
    }

    func types() throws(SchemaError) -> TypeSet {
        guard let value = self["type"] else { return .all }
        let names = value.string.map { [$0] } ?? Self.names(value) ?? []
        var result: TypeSet = []
        for name in names.isEmpty ? [""] : names {
            guard let type = TypeSet.names.first(where: { $0.name == name })?.type else {
                let all = TypeSet.names.map { "\"\($0.name)\"" }.joined(separator: ", ")
                throw error("type", "must be one of \(all), or an array of them")
            }
            result.insert(type)
        }
        return result.isSuperset(of: [.null, .boolean, .number, .string, .array, .object]) ? .all : result
    }
}

extension JSONValue {
    /// A short form for messages: scalars as JSON, shortened to 60 characters, and containers by their size.
    var shown: String {
        switch kind {
        case .array: return count == 1 ? "an array with 1 element" : "an array with \(count) elements"
        case .object: return count == 1 ? "an object with 1 member" : "an object with \(count) members"
        default: return compactText.shortened(to: 60)
        }
    }
}

extension String {
    /// The first `limit` code points, followed by an ellipsis if there are more. A closing quotation mark is added if
    /// the text begins with one.
    func shortened(to limit: Int) -> String {
        guard utf8.count > limit, let end = unicodeScalars.index(startIndex, offsetBy: limit, limitedBy: endIndex),
            end < endIndex
        else { return self }
        return String(unicodeScalars[..<end]) + "…" + (hasPrefix("\"") ? "\"" : "")
    }
}
