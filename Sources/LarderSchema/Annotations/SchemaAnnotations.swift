package import LarderJSON

/// The annotations of a value, for documentation and completion.
package struct SchemaAnnotations: Sendable, Equatable {
    package var title: String?
    package var description: String?
    package var defaultValue: JSONValue?
    package var examples: [JSONValue] = []
    package var isDeprecated = false
    /// The names of the permitted types; empty if all types are permitted.
    package var types: [String] = []
    /// The values of `enum` or `const`, or `true` and `false` if only booleans are permitted; otherwise empty.
    package var values: [JSONValue] = []
    /// The names in `properties` and `required` for the members of the value, in the order of the schema. Names whose
    /// subschema is `false` are left out.
    package var memberNames: [String] = []

    package init() {}
}

extension JSONSchema {
    /// Returns the annotations of the value at a path; nil if no subschema can apply to it. The value need not exist.
    ///
    /// Every subschema that can apply is considered: also the branches of `anyOf` and `oneOf`, `then`, `else` and the
    /// schemas of dependencies. Of several titles, descriptions and defaults the outermost one counts.
    package func annotations(at path: JSONPath) -> SchemaAnnotations? {
        var search = SubschemaSearch(compiled.program)
        for segment in path.segments { search.descend(segment) }
        return search.nodes.isEmpty ? nil : search.annotations
    }
}
