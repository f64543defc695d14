/// Finds schemas that apply themselves again to the value that they are applied to, such as `{"$ref": "#"}`.
///
/// Follows only the keywords whose subschemas are always evaluated. A cycle through `then`, `else`, a dependency or a
/// dynamic reference is stopped by the depth limit of the validation.
enum EndlessReferences {
    static func check(_ program: SchemaProgram, _ registry: SchemaRegistry) throws(SchemaError) {
        enum State { case new, open, done }
        var states = Array(repeating: State.new, count: program.nodes.count)
        for start in program.nodes.indices where states[start] == .new {
            var path: [(node: Int, targets: [Int])] = [(start, targets(start, program))]
            states[start] = .open
            while let (node, targets) = path.last {
                guard let next = targets.last else {
                    states[node] = .done
                    path.removeLast()
                    continue
                }
                path[path.count - 1].targets.removeLast()
                switch states[next] {
                case .done: continue
                case .new:
                    states[next] = .open
                    path.append((next, Self.targets(next, program)))
                case .open:
                    throw registry.error(
                        .endlessReference, program.locations[next],
                        "the schema applies itself to the same value, so validation would not end")
                }
            }
        }
    }

    private static func targets(_ node: Int, _ program: SchemaProgram) -> [Int] {
        program.applicators[program.nodes[node].applicators.range].flatMap { applicator -> [Int] in
            switch applicator.kind {
            case .dynamicReference: []
            case .conditional: program.nodes(applicator.nodes).prefix(1).map(Int.init)
            default: program.nodes(applicator.nodes).map(Int.init)
            }
        }
    }
}
