import LarderClientCore
import LarderJSON
import LarderSchema

/// The schema of a namespace, for the completion of paths and values.
///
/// Compiling a schema takes time for each of its members, at each press of Tab. Therefore the schema document itself is
/// searched if it uses only keywords that ``SchemaOutline`` knows.
enum CompletionSchema: Sendable {
    case outline(SchemaOutline)
    case compiled(JSONSchema)

    /// Fails if the schema must be compiled, and cannot be compiled here.
    init?(_ result: ConfigSchema.Result) {
        if let outline = SchemaOutline(result.schema) {
            self = .outline(outline)
        } else if let validation = try? DocumentValidation(result) {
            self = .compiled(validation.schema)
        } else {
            return nil
        }
    }

    /// The names of the members that the schema has for the value at a path.
    func memberNames(at path: JSONPath) -> [String] {
        switch self {
        case .outline(let outline): outline.memberNames(at: path)
        case .compiled(let schema): schema.annotations(at: path)?.memberNames ?? []
        }
    }

    /// The values that the schema permits at a path, if it lists them.
    func values(at path: JSONPath) -> [JSONValue] {
        switch self {
        case .outline(let outline): outline.values(at: path)
        case .compiled(let schema): schema.annotations(at: path)?.values ?? []
        }
    }
}

/// A schema document that is not compiled. Its results are those of the compiled schema (`SchemaAnnotations`).
struct SchemaOutline: Sendable {
    private let root: JSONValue

    /// A subschema that can apply to a value, and whether it is one of several alternatives.
    private struct Node {
        let schema: JSONValue
        let isAlternative: Bool
    }

    /// Keywords whose meaning depends on patterns, other documents or the results of other keywords.
    private static let unknownKeywords = [
        "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "$vocabulary", "id",
        "patternProperties", "unevaluatedProperties", "unevaluatedItems", "dependencies",
    ]

    /// Fails if the document has a keyword that requires the compiled schema, or another dialect than 2020-12. A member
    /// of the configuration with the name of such a keyword has the same effect.
    init?(_ document: JSONValue) {
        if let dialect = document["$schema"] {
            guard dialect.string == "https://json-schema.org/draft/2020-12/schema" else { return nil }
        }
        var pending = [document]
        while let value = pending.popLast() {
            if value.kind == .array { pending += value.elements }
            guard value.kind == .object else { continue }
            for (name, member) in value.members {
                if Self.unknownKeywords.contains(name) { return nil }
                if name == "$ref" {
                    guard let reference = member.string, reference.hasPrefix("#/"), !reference.contains("%") else {
                        return nil
                    }
                }
                if member.kind == .object || member.kind == .array { pending.append(member) }
            }
        }
        root = document
    }

    func memberNames(at path: JSONPath) -> [String] {
        var names: [String] = []
        var known: Set<ExactText> = []
        for node in nodes(at: path) {
            var (own, forbidden): ([String], Set<ExactText>) = ([], [])
            if let properties = node.schema["properties"], properties.kind == .object {
                for (name, property) in properties.members {
                    if property.bool == false { forbidden.insert(ExactText(name)) } else { own.append(name) }
                }
            }
            own += node.schema["required"]?.elements.compactMap(\.string) ?? []
            for name in own where !forbidden.contains(ExactText(name)) {
                if known.insert(ExactText(name)).inserted { names.append(name) }
            }
        }
        return names
    }

    func values(at path: JSONPath) -> [JSONValue] {
        var (values, alternatives): ([JSONValue]?, [JSONValue]) = (nil, [])
        var (types, alternativeTypes): (Set<String>?, Set<String>?)
        var known: Set<ExactText> = []
        for node in nodes(at: path) {
            if let type = node.schema["type"] {
                let named = Set(type.string.map { [$0] } ?? type.elements.compactMap(\.string))
                if node.isAlternative {
                    alternativeTypes = (alternativeTypes ?? []).union(named)
                } else {
                    types = types?.intersection(named) ?? named
                }
            }
            guard let permitted = node.schema["enum"].map({ Array($0.elements) }) ?? node.schema["const"].map({ [$0] })
            else { continue }
            if node.isAlternative {
                alternatives += permitted.filter { known.insert(ExactText($0.compactText)).inserted }
            } else {
                values = values ?? permitted
            }
        }
        let listed = values ?? alternatives
        return listed.isEmpty && (types ?? alternativeTypes) == ["boolean"] ? [true, false] : listed
    }

    /// The subschemas that can apply to the value at a path, the outermost first.
    private func nodes(at path: JSONPath) -> [Node] {
        var nodes = closure(of: [Node(schema: root, isAlternative: false)])
        for segment in path.segments {
            let targets = nodes.flatMap { node in
                members(segment, of: node.schema).map { Node(schema: $0, isAlternative: node.isAlternative) }
            }
            nodes = closure(of: targets)
        }
        return nodes
    }

    /// The subschemas for a member or element of a value.
    private func members(_ segment: String, of schema: JSONValue) -> [JSONValue] {
        var targets: [JSONValue] = []
        if let property = schema["properties"]?[segment] ?? schema["additionalProperties"] { targets.append(property) }
        if let index = Int(segment), index >= 0 {
            let prefix = schema["prefixItems"].map { Array($0.elements) } ?? []
            targets +=
                index < prefix.count ? [prefix[index]] : [schema["items"], schema["contains"]].compactMap(\.self)
        }
        return targets
    }

    /// The given schemas, and all subschemas that they can apply to the same value.
    private func closure(of start: [Node]) -> [Node] {
        var result: [Node] = []
        var followed: Set<ExactText> = []
        var pending = Array(start.reversed())
        while let node = pending.popLast() {
            guard node.schema.kind == .object else { continue }
            result.append(node)
            var targets: [Node] = []
            func add(_ schemas: [JSONValue], isAlternative: Bool) {
                targets += schemas.map { Node(schema: $0, isAlternative: node.isAlternative || isAlternative) }
            }
            for (name, member) in node.schema.members {
                switch name {
                case "$ref":
                    guard let reference = member.string, followed.insert(ExactText(reference)).inserted,
                        let path = try? JSONPath(parsing: String(reference.dropFirst())),
                        let target = root.value(at: path)
                    else { continue }
                    add([target], isAlternative: false)
                case "allOf": add(Array(member.elements), isAlternative: false)
                case "anyOf", "oneOf":
                    let branches = Array(member.elements)
                    add(branches, isAlternative: branches.count > 1)
                case "then", "else": add([member], isAlternative: true)
                case "dependentSchemas" where member.kind == .object:
                    add(member.members.map { $0.value }, isAlternative: true)
                default: break
                }
            }
            pending += targets.reversed()
        }
        return result
    }
}
