import LarderJSON

/// A dialect of JSON Schema: a draft and its vocabularies.
struct Dialect: Sendable, Equatable {
    enum Version: Sendable { case draft202012, draft7 }

    struct Vocabularies: OptionSet, Sendable {
        let rawValue: UInt8

        static let applicator = Vocabularies(rawValue: 1 << 0)
        static let unevaluated = Vocabularies(rawValue: 1 << 1)
        static let validation = Vocabularies(rawValue: 1 << 2)
        static let formatAssertion = Vocabularies(rawValue: 1 << 3)
    }

    var version: Version
    var vocabularies: Vocabularies

    static let draft202012 = Dialect(version: .draft202012, vocabularies: [.applicator, .unevaluated, .validation])
    static let draft7 = Dialect(version: .draft7, vocabularies: [.applicator, .validation])

    /// The identifiers of the supported dialects.
    static let identifiers = [
        "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#",
    ]

    /// Returns the dialect that a value of `$schema` names; nil if the value is not the URI of a supported draft.
    static func named(_ uri: String) -> Dialect? {
        var name = uri[...]
        if name.hasSuffix("#") { name.removeLast() }
        for scheme in ["https://", "http://"] where name.hasPrefix(scheme) { name.removeFirst(scheme.count) }
        switch name {
        case "json-schema.org/draft/2020-12/schema": return .draft202012
        case "json-schema.org/draft-07/schema": return .draft7
        default: return nil
        }
    }

    /// Returns the dialect that `$vocabulary` in a metaschema of draft 2020-12 describes.
    ///
    /// - Returns: the standard dialect if `$vocabulary` is missing; nil, with the name of the vocabulary, if the
    ///   metaschema requires an unknown vocabulary
    static func custom(_ vocabulary: JSONValue?) -> (dialect: Dialect?, unknown: String?) {
        guard let vocabulary, vocabulary.kind == .object else { return (draft202012, nil) }
        var result = Dialect(version: .draft202012, vocabularies: [])
        for (name, required) in vocabulary.members {
            let prefix = "https://json-schema.org/draft/2020-12/vocab/"
            switch name.hasPrefix(prefix) ? String(name.dropFirst(prefix.count)) : "" {
            case "core", "meta-data", "content", "format-annotation": break
            case "applicator": result.vocabularies.insert(.applicator)
            case "unevaluated": result.vocabularies.insert(.unevaluated)
            case "validation": result.vocabularies.insert(.validation)
            case "format-assertion": result.vocabularies.insert(.formatAssertion)
            default: if required.bool != false { return (nil, name) }
            }
        }
        return (result, nil)
    }
}

/// The keywords that a validation evaluates.
enum Keyword: String, Sendable {
    case reference = "$ref", dynamicReference = "$dynamicRef"
    case allOf, anyOf, oneOf, not, `if`, then, `else`, dependentSchemas, dependencies
    case properties, patternProperties, additionalProperties, propertyNames, minProperties, maxProperties, required
    case dependentRequired
    case prefixItems, items, additionalItems, contains, minContains, maxContains, minItems, maxItems, uniqueItems
    case unevaluatedProperties, unevaluatedItems
    case type, `enum`, const
    case minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf
    case minLength, maxLength, pattern, format
}

/// How the value of a keyword contains subschemas: as one schema, an array of schemas or an object of schemas.
enum SubschemaPosition {
    case schema, list, map
    /// `items` of draft-07.
    case schemaOrList
    /// The value of `dependencies`: an object whose members are schemas or arrays of names.
    case dependencyMap

    static func of(_ keyword: String, _ dialect: Dialect) -> SubschemaPosition? {
        let isDraft7 = dialect.version == .draft7
        switch keyword {
        case "$defs": return isDraft7 ? nil : .map
        case "definitions": return .map
        default: break
        }
        guard dialect.vocabularies.contains(.applicator) else { return nil }
        switch keyword {
        case "allOf", "anyOf", "oneOf": return .list
        case "not", "if", "then", "else", "additionalProperties", "propertyNames", "contains": return .schema
        case "properties", "patternProperties": return .map
        case "dependencies": return .dependencyMap
        case "items": return isDraft7 ? .schemaOrList : .schema
        case "additionalItems": return isDraft7 ? .schema : nil
        case "prefixItems": return isDraft7 ? nil : .list
        case "dependentSchemas": return isDraft7 ? nil : .map
        case "unevaluatedProperties", "unevaluatedItems":
            return dialect.vocabularies.contains(.unevaluated) ? .schema : nil
        case "contentSchema": return isDraft7 ? nil : .schema
        default: return nil
        }
    }
}
