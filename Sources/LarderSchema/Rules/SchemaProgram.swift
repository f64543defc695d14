import LarderJSON

/// A compiled schema: flat arrays of rules that refer to each other by index.
struct SchemaProgram: Sendable {
    var nodes: [SchemaNode] = []
    var objects: [ObjectRule] = []
    var arrays: [ArrayRule] = []
    var strings: [StringRule] = []
    var numbers: [NumberRule] = []
    var values: [ValueRule] = []
    var applicators: [Applicator] = []

    /// Lists of indexes of nodes, names, decimals and constants, one list after the other. A ``PoolRange`` selects a
    /// list.
    var indexes: [Int32] = []
    var patternRules: [PatternRule] = []
    var dependencies: [DependencyRule] = []
    var slots: [UInt32] = []
    var entries: [NameSet.Entry] = []
    var names: [NameText] = []
    var nameBytes: [UInt8] = []

    var decimals: [DecimalNumber] = []
    var constants: [JSONValue] = []
    var patterns: [Pattern] = []
    var patternTexts: [String] = []

    /// For each anchor name in a dynamic reference: the node with this dynamic anchor in each schema resource, or a
    /// negative number if the resource has none.
    var dynamicTargets: [[Int32]] = []
    /// The schema and location of each node.
    var locations: [SchemaLocation] = []

    var hasDynamicReferences: Bool { !dynamicTargets.isEmpty }

    func name(_ index: Int) -> String {
        let text = names[index]
        return String(decoding: nameBytes[Int(text.start)..<Int(text.start + text.count)], as: UTF8.self)
    }

    func entries(of names: NameSet) -> ArraySlice<NameSet.Entry> {
        entries[Int(names.entries)..<Int(names.entries + names.count)]
    }

    func nodes(_ range: PoolRange) -> ArraySlice<Int32> { indexes[range.range] }
}

/// The place of a subschema.
struct SchemaLocation: Sendable {
    /// Identifies a subschema by the position of its text in a document.
    struct Key: Hashable, Sendable {
        var document: Int
        var offset: Int
    }

    var document: Int
    var value: JSONValue
    /// The JSON Pointer within the document.
    var pointer: String
    /// The schema resource that the subschema belongs to.
    var resource: Int

    var key: Key { Key(document: document, offset: value.textRange.lowerBound) }

    /// Returns the location of the member `name` of this subschema, which has the given value.
    func appending(_ name: String, _ value: JSONValue) -> SchemaLocation {
        var result = self
        result.value = value
        result.pointer += JSONPath([name]).pointer
        return result
    }

    func appending(_ name: String, _ member: String, _ value: JSONValue) -> SchemaLocation {
        appending(name, value).appending(member, value)
    }
}

/// Removes indirections: rules that refer to a node that consists of one `$ref` refer to the target of the `$ref`
/// instead.
///
/// This makes the validation of the schemas in contrib/benchmarks 10 to 16 % faster. Only the tables for the validation
/// are changed, because locations and annotations need the original nodes.
struct ReferenceShortcuts {
    private var program: SchemaProgram
    private var targets: [Int32] = []

    static func apply(to program: SchemaProgram) -> SchemaProgram {
        var shortcuts = ReferenceShortcuts(program: program)
        shortcuts.findTargets()
        shortcuts.replace()
        return shortcuts.program
    }

    private init(program: SchemaProgram) { self.program = program }

    /// The loops end, because schemas with endless references are rejected before.
    private mutating func findTargets() {
        let unknown: Int32 = -1
        targets = Array(repeating: unknown, count: program.nodes.count)
        for index in program.nodes.indices where targets[index] == unknown {
            var (target, chain) = (index, [index])
            while let next = next(target) {
                // The target of each node is found once, so that a chain of references is followed only once.
                if targets[next] != unknown {
                    target = Int(targets[next])
                    break
                }
                target = next
                chain.append(next)
            }
            for node in chain { targets[node] = Int32(target) }
        }
    }

    /// Returns the target of a node that consists of one `$ref`; nil for other nodes, and if the reference must be
    /// kept.
    private func next(_ index: Int) -> Int? {
        let node = program.nodes[index]
        guard node.applicators.count == 1, node.types == .all, node.values.isEmpty, node.object.isNone,
            node.array.isNone, node.string.isNone, node.number.isNone, node.unevaluatedProperties.isNone,
            node.unevaluatedItems.isNone, program.applicators[Int(node.applicators.start)].kind == .reference
        else { return nil }
        let target = Int(program.indexes[Int(program.applicators[Int(node.applicators.start)].nodes.start)])
        // A reference to another resource must be kept in a schema with dynamic references, because their targets
        // depend on the resources that the validation passes through.
        guard !program.hasDynamicReferences || program.nodes[target].resource == node.resource else { return nil }
        return target
    }

    private mutating func replace() {
        for index in program.nodes.indices {
            let node = program.nodes[index]
            program.nodes[index].unevaluatedProperties = target(of: node.unevaluatedProperties)
            program.nodes[index].unevaluatedItems = target(of: node.unevaluatedItems)
        }
        for index in program.objects.indices {
            let rule = program.objects[index]
            program.objects[index].additional = target(of: rule.additional)
            program.objects[index].propertyNames = target(of: rule.propertyNames)
        }
        for index in program.arrays.indices {
            let rule = program.arrays[index]
            program.arrays[index].items = target(of: rule.items)
            program.arrays[index].contains = target(of: rule.contains)
            replace(rule.prefix)
        }
        for index in program.entries.indices {
            program.entries[index].node = target(of: program.entries[index].node)
        }
        for index in program.patternRules.indices {
            program.patternRules[index].node = target(of: program.patternRules[index].node)
        }
        for index in program.dependencies.indices {
            program.dependencies[index].node = target(of: program.dependencies[index].node)
        }
        for index in program.applicators.indices { replace(program.applicators[index].nodes) }
    }

    /// The target is returned, because a method that changed a rule in place would need a copy of `self`. The change
    /// would then copy the whole array of the rule.
    private func target(of node: RuleIndex) -> RuleIndex {
        node.isNone ? node : RuleIndex(rawValue: targets[node.position])
    }

    private mutating func replace(_ nodes: PoolRange) {
        for position in nodes.range where program.indexes[position] >= 0 {
            program.indexes[position] = targets[Int(program.indexes[position])]
        }
    }
}
