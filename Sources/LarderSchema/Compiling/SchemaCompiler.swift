import LarderJSON

/// Translates a schema, and the schemas that it refers to, into a ``SchemaProgram``.
struct SchemaCompiler {
    let registry: SchemaRegistry
    var program = SchemaProgram()
    private let assertsFormats: Bool?
    private var nodesByLocation: [SchemaLocation.Key: Int] = [:]
    /// The number of compiled nodes. The nodes after these are reserved for schemas that still have to be compiled.
    private var compiledNodes = 0
    /// The names of the anchors to which dynamic references refer, in the order of `SchemaProgram.dynamicTargets`.
    private var dynamicNames: [String] = []
    private var dynamicTables: [ExactText: Int] = [:]
    private var patterns: [ExactText: Int] = [:]

    private static let maxNodes = 1_000_000

    /// - Parameter assertsFormats: whether a violation of `format` makes a value invalid; nil if the dialect decides
    init(registry: SchemaRegistry, assertsFormats: Bool?) {
        self.registry = registry
        self.assertsFormats = assertsFormats
    }

    /// Compiles the main document. The root is node 0.
    mutating func compile(_ document: JSONValue, uri: String) throws(SchemaError) -> SchemaProgram {
        _ = try node(try registry.add(document, uri: uri))
        try compilePending()
        try addDynamicTargets()
        try EndlessReferences.check(program, registry)
        return program
    }

    /// Returns the node of a schema, and reserves it if it is new. The node is compiled later, so that references may
    /// form cycles.
    mutating func node(_ location: SchemaLocation) throws(SchemaError) -> RuleIndex {
        let location = registry.entered(location)
        if let index = nodesByLocation[location.key] { return RuleIndex(index) }
        let index = program.nodes.count
        guard index < Self.maxNodes else {
            throw registry.error(location, "the schema has more than \(Self.maxNodes) subschemas")
        }
        program.nodes.append(SchemaNode())
        program.locations.append(location)
        nodesByLocation[location.key] = index
        return RuleIndex(index)
    }

    private mutating func compilePending() throws(SchemaError) {
        while compiledNodes < program.nodes.count {
            let index = compiledNodes
            compiledNodes += 1
            let location = program.locations[index]
            switch location.value.kind {
            case .bool: program.nodes[index].isFalse = location.value.bool == false
            case .object: program.nodes[index] = try schema(location)
            default:
                throw registry.error(
                    location, "a schema must be an object or a boolean, not \(location.value.kind.article)")
            }
            program.nodes[index].resource = Int32(location.resource)
            program.nodes[index].finish()
        }
    }

    private mutating func schema(_ location: SchemaLocation) throws(SchemaError) -> SchemaNode {
        var node = SchemaNode()
        let keywords = KeywordReader(schema: location, registry: registry)
        let dialect = registry.dialect(of: location)
        if dialect.version == .draft7, let reference = try keywords.string("$ref") {
            node.applicators = Self.add([try self.reference(reference, keywords)], to: &program.applicators)
            return node
        }
        try checkIdentifiers(keywords)
        if dialect.vocabularies.contains(.validation) {
            node.types = try keywords.types()
            node.values = try values(keywords)
            node.number = try number(keywords)
        }
        let hasApplicators = dialect.vocabularies.contains(.applicator)
        node.string = try string(keywords, dialect)
        node.object = try object(keywords, dialect)
        node.array = try array(keywords, dialect)
        node.applicators = Self.add(try applicators(keywords, dialect, hasApplicators), to: &program.applicators)
        if dialect.vocabularies.contains(.unevaluated) {
            if let value = keywords["unevaluatedProperties"] {
                node.unevaluatedProperties = try self.node(keywords.location("unevaluatedProperties", value))
            }
            if let value = keywords["unevaluatedItems"] {
                node.unevaluatedItems = try self.node(keywords.location("unevaluatedItems", value))
            }
        }
        try compileUnused(location, dialect)
        return node
    }

    /// Compiles all subschemas of a schema, including those that are not used, such as definitions without a reference.
    /// This finds the errors in them.
    private mutating func compileUnused(_ location: SchemaLocation, _ dialect: Dialect) throws(SchemaError) {
        for (name, value) in location.value.members {
            guard let position = SubschemaPosition.of(name, dialect) else { continue }
            for subschema in SchemaRegistry.subschemas(of: position, location.appending(name, value)) {
                _ = try node(subschema)
            }
        }
    }

    /// Checks the types of the values of `$comment`, `title`, `description` and the keywords for definitions.
    private func checkIdentifiers(_ keywords: KeywordReader) throws(SchemaError) {
        for name in ["$comment", "title", "description"] { _ = try keywords.string(name) }
        for name in ["$defs", "definitions"] {
            if let value = keywords[name], value.kind != .object {
                throw keywords.error(name, "must be an object of schemas")
            }
        }
    }

    private mutating func applicators(
        _ keywords: KeywordReader, _ dialect: Dialect, _ hasApplicators: Bool
    ) throws(SchemaError) -> [Applicator] {
        var result: [Applicator] = []
        if let text = try keywords.string("$ref") { result.append(try reference(text, keywords)) }
        if dialect.version != .draft7, let text = try keywords.string("$dynamicRef") {
            result.append(try dynamicReference(text, keywords))
        }
        guard hasApplicators else { return result }
        for (name, kind) in [("allOf", Applicator.Kind.allOf), ("anyOf", .anyOf), ("oneOf", .oneOf)] {
            if let list = try keywords.schemas(name) {
                result.append(Applicator(kind: kind, nodes: try pool(list)))
            }
        }
        if let value = keywords["not"] {
            result.append(Applicator(kind: .not, nodes: try pool([keywords.location("not", value)])))
        }
        if let condition = keywords["if"] {
            var nodes = [try node(keywords.location("if", condition)).rawValue]
            for name in ["then", "else"] {
                guard let value = keywords[name] else {
                    nodes.append(RuleIndex.none.rawValue)
                    continue
                }
                nodes.append(try node(keywords.location(name, value)).rawValue)
            }
            result.append(Applicator(kind: .conditional, nodes: pool(nodes)))
        }
        return result
    }

    private mutating func reference(_ text: String, _ keywords: KeywordReader) throws(SchemaError) -> Applicator {
        let target = try registry.resolve(text, at: keywords.location("$ref"))
        return Applicator(kind: .reference, nodes: pool([try node(target).rawValue]))
    }

    private mutating func dynamicReference(
        _ text: String, _ keywords: KeywordReader
    ) throws(SchemaError) -> Applicator {
        let target = try registry.resolve(text, at: keywords.location("$dynamicRef"))
        let nodes = pool([try node(target).rawValue])
        guard let name = registry.dynamicAnchor(text, target) else { return Applicator(kind: .reference, nodes: nodes) }
        let table = dynamicTables[ExactText(name), default: dynamicNames.count]
        if table == dynamicNames.count {
            dynamicNames.append(name)
            dynamicTables[ExactText(name)] = table
        }
        return Applicator(kind: .dynamicReference, nodes: nodes, table: RuleIndex(table))
    }

    /// Compiles the possible targets of dynamic references. Repeats this if these targets contain further dynamic
    /// references or load further resources.
    private mutating func addDynamicTargets() throws(SchemaError) {
        var known = (names: 0, resources: 0)
        while known != (dynamicNames.count, registry.resources.count) {
            known = (dynamicNames.count, registry.resources.count)
            guard known.names * known.resources <= Self.maxNodes else {
                throw registry.error(
                    program.locations[0],
                    "the schema has \(known.names) dynamic anchors in \(known.resources) resources, whose product is above \(Self.maxNodes); use fewer"
                )
            }
            program.dynamicTargets = []
            for name in dynamicNames {
                var targets: [Int32] = []
                for resource in registry.resources {
                    guard let anchor = resource.dynamicAnchors[ExactText(name)] else {
                        targets.append(RuleIndex.none.rawValue)
                        continue
                    }
                    targets.append(try node(anchor).rawValue)
                }
                program.dynamicTargets.append(targets)
            }
            try compilePending()
        }
    }

    // MARK: Pools

    mutating func pool(_ indexes: [Int32]) -> PoolRange {
        Self.add(indexes, to: &program.indexes)
    }

    /// Adds rules to one of the tables of the program.
    static func add<Rule>(_ rules: [Rule], to table: inout [Rule]) -> PoolRange {
        defer { table += rules }
        return PoolRange(table.count, rules.count)
    }

    mutating func pool(_ schemas: [SchemaLocation]) throws(SchemaError) -> PoolRange {
        var nodes: [Int32] = []
        for schema in schemas { nodes.append(try node(schema).rawValue) }
        return pool(nodes)
    }

    mutating func pattern(_ text: String, _ location: SchemaLocation) throws(SchemaError) -> Int {
        if let index = patterns[ExactText(text)] { return index }
        do throws(PatternError) {
            program.patterns.append(try Pattern(text))
        } catch {
            throw registry.error(location, "the pattern \"\(text)\" is invalid: \(error.reason)")
        }
        program.patternTexts.append(text)
        patterns[ExactText(text)] = program.patterns.count - 1
        return program.patterns.count - 1
    }

    /// Whether a violation of `format` makes a value invalid in a dialect.
    func assertsFormats(_ dialect: Dialect) -> Bool {
        assertsFormats ?? dialect.vocabularies.contains(.formatAssertion)
    }
}

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
                        program.locations[next],
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
