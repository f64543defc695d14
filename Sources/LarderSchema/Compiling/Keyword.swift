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
