package import LarderJSON

/// The annotations of a value, for documentation and completion.
package struct SchemaAnnotations: Sendable, Equatable {
    package var title: String?
    package var description: String?
    package var defaultValue: JSONValue?
    package var examples: [JSONValue] = []
    package var isDeprecated = false
    /// The names of the permitted types; empty if all are.
    package var types: [String] = []
    /// The values of `enum` or `const`, or `true` and `false` if only booleans are permitted.
    package var values: [JSONValue] = []
    /// The names in `properties` for the members of the value, in the order of the schema.
    package var memberNames: [String] = []

    package init() {}
}

extension JSONSchema {
    /// The annotations of the value at a path, which need not exist; nil if the schema has no subschema for it.
    ///
    /// Every subschema that can apply is considered: also the branches of `anyOf`, `oneOf` and `if`. Of several titles,
    /// descriptions and defaults the outermost one counts.
    package func annotations(at path: JSONPath) -> SchemaAnnotations? {
        var search = SubschemaSearch(compiled.program)
        for segment in path.segments { search.descend(segment) }
        return search.nodes.isEmpty ? nil : search.annotations
    }
}
