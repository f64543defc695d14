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
