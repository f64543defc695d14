package import LarderJSON

/// Finds the subschemas that can apply to a value at a path, whether or not a document has such a value.
struct SubschemaSearch {
    /// A subschema, and whether it is one of several alternatives, such as a branch of `anyOf`.
    struct Node {
        var index: Int
        var isAlternative: Bool
    }

    private let program: SchemaProgram
    /// The outermost first.
    private(set) var nodes: [Node] = []

    /// Starts at the root.
    init(_ program: SchemaProgram) {
        self.program = program
        nodes = closure(of: [Node(index: 0, isAlternative: false)])
    }

    /// Continues with the member or element `segment` of the current value.
    mutating func descend(_ segment: String) {
        var found: [Node] = []
        var unevaluated: [Node] = []
        for node in nodes {
            let rule = program.nodes[node.index]
            var targets = members(segment, of: rule)
            if let index = Int(segment), index >= 0 { targets += elements(index, of: rule) }
            found += targets.map { Node(index: $0, isAlternative: node.isAlternative) }
            for rest in [rule.unevaluatedProperties, rule.unevaluatedItems] where !rest.isNone {
                unevaluated.append(Node(index: rest.position, isAlternative: node.isAlternative))
            }
        }
        nodes = closure(of: found.isEmpty ? unevaluated : found).filter { !program.nodes[$0.index].isFalse }
    }

    private func members(_ name: String, of node: SchemaNode) -> [Int] {
        guard !node.object.isNone else { return [] }
        let rule = program.objects[node.object.position]
        var targets: [Int] = []
        for entry in program.entries(of: rule.names)
        where !entry.node.isNone && program.name(Int(entry.name)).isSpelled(as: name) {
            targets.append(entry.node.position)
        }
        var matcher = PatternMatcher()
        var text = name
        for rule in program.patternRules[rule.patterns.range] {
            let pattern = program.patterns[Int(rule.pattern)]
            let outcome = text.withUTF8 { matcher.search($0, for: pattern) }
            if outcome == .matches { targets.append(rule.node.position) }
        }
        if targets.isEmpty, !rule.additional.isNone { targets.append(rule.additional.position) }
        return targets
    }

    private func elements(_ index: Int, of node: SchemaNode) -> [Int] {
        guard !node.array.isNone else { return [] }
        let rule = program.arrays[node.array.position]
        let prefix = Array(program.nodes(rule.prefix))
        if index < prefix.count { return [Int(prefix[index])] }
        return [rule.items, rule.contains].filter { !$0.isNone }.map(\.position)
    }

    /// Returns the given schemas, and all subschemas that they can apply to the same value.
    private func closure(of start: [Node]) -> [Node] {
        var result: [Node] = []
        var known: Set<Int> = []
        var pending = Array(start.reversed())
        while let node = pending.popLast() {
            guard known.insert(node.index).inserted else { continue }
            result.append(node)
            let rule = program.nodes[node.index]
            var targets: [Node] = []
            for applicator in program.applicators[rule.applicators.range] where applicator.kind != .not {
                let isAlternative =
                    switch applicator.kind {
                    case .anyOf, .oneOf: applicator.nodes.count > 1
                    case .conditional: true
                    default: false
                    }
                // `if` is skipped, because a value need not satisfy it.
                let indexes = program.nodes(applicator.nodes).dropFirst(applicator.kind == .conditional ? 1 : 0)
                targets += indexes.filter { $0 >= 0 }
                    .map { Node(index: Int($0), isAlternative: node.isAlternative || isAlternative) }
            }
            if !rule.object.isNone {
                let range = program.objects[rule.object.position].dependencies.range
                targets += program.dependencies[range].filter { !$0.node.isNone }
                    .map { Node(index: $0.node.position, isAlternative: true) }
            }
            pending += targets.reversed()
        }
        return result
    }

    var annotations: SchemaAnnotations {
        var result = SchemaAnnotations()
        var (types, alternativeTypes): (TypeSet?, TypeSet?)
        var (values, alternativeValues): ([JSONValue]?, [JSONValue]) = (nil, [])
        var knownValues: Set<ExactText> = []
        var knownNames: Set<ExactText> = []
        for node in nodes {
            let (schema, rule) = (program.locations[node.index].value, program.nodes[node.index])
            guard schema.kind == .object else { continue }
            result.title = result.title ?? schema["title"]?.string
            result.description = result.description ?? schema["description"]?.string
            result.defaultValue = result.defaultValue ?? schema["default"]
            if result.examples.isEmpty { result.examples = schema["examples"].map { Array($0.elements) } ?? [] }
            if schema["deprecated"]?.bool == true { result.isDeprecated = true }
            if !rule.types.isSuperset(of: .all) {
                if node.isAlternative {
                    alternativeTypes = (alternativeTypes ?? []).union(rule.types)
                } else {
                    types = types.map { $0.intersection(rule.types) } ?? rule.types
                }
            }
            if let permitted = schema["enum"].map({ Array($0.elements) }) ?? schema["const"].map({ [$0] }) {
                if node.isAlternative {
                    alternativeValues += permitted.filter { knownValues.insert(ExactText($0.compactText)).inserted }
                } else {
                    values = values ?? permitted
                }
            }
            if !rule.object.isNone {
                for entry in program.entries(of: program.objects[rule.object.position].names)
                where entry.node.isNone || !program.nodes[entry.node.position].isFalse {
                    let name = program.name(Int(entry.name))
                    if knownNames.insert(ExactText(name)).inserted { result.memberNames.append(name) }
                }
            }
        }
        let permitted = types ?? alternativeTypes ?? .all
        if permitted != .all {
            result.types = TypeSet.names.filter { permitted.contains($0.type) }.map(\.name)
        }
        result.values = values ?? alternativeValues
        if result.values.isEmpty, permitted == .boolean { result.values = [true, false] }
        return result
    }
}

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
