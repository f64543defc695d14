/// A compiled schema: the program, and copies of its tables that are read without reference counting and bounds checks.
///
/// `tables` is `nonisolated(unsafe)`, because only the initializer writes the memory.
final class CompiledSchema: Sendable {
    let program: SchemaProgram
    nonisolated(unsafe) let tables: UnsafePointer<RuleTables>
    /// The URIs of the documents. `SchemaLocation.document` is an index of this array.
    let documents: [String]

    init(_ program: SchemaProgram, documents: [String]) {
        self.program = program
        self.documents = documents
        let tables = UnsafeMutablePointer<RuleTables>.allocate(capacity: 1)
        tables.initialize(to: RuleTables(ReferenceShortcuts.apply(to: program)))
        self.tables = UnsafePointer(tables)
    }

    deinit {
        tables.pointee.free()
        tables.deallocate()
    }

    /// Returns the location of a subschema as text, or of the keyword in it if `keyword` is not empty.
    func text(_ location: SchemaLocation, _ keyword: String = "") -> String {
        let document = location.document == 0 ? "" : documents[location.document]
        return document + "#" + location.pointer + (keyword.isEmpty ? "" : "/" + keyword)
    }
}

/// Copies of the arrays of a program that the validation reads for each value.
struct RuleTables {
    let nodes: UnsafePointer<SchemaNode>
    let objects: UnsafePointer<ObjectRule>
    let arrays: UnsafePointer<ArrayRule>
    let strings: UnsafePointer<StringRule>
    let numbers: UnsafePointer<NumberRule>
    let values: UnsafePointer<ValueRule>
    let applicators: UnsafePointer<Applicator>
    let indexes: UnsafePointer<Int32>
    let patternRules: UnsafePointer<PatternRule>
    let dependencies: UnsafePointer<DependencyRule>
    fileprivate let slots: UnsafePointer<UInt32>
    fileprivate let entries: UnsafePointer<NameSet.Entry>
    fileprivate let names: UnsafePointer<NameText>
    fileprivate let nameBytes: UnsafePointer<UInt8>

    fileprivate init(_ program: SchemaProgram) {
        nodes = Self.copy(program.nodes)
        objects = Self.copy(program.objects)
        arrays = Self.copy(program.arrays)
        strings = Self.copy(program.strings)
        numbers = Self.copy(program.numbers)
        values = Self.copy(program.values)
        applicators = Self.copy(program.applicators)
        indexes = Self.copy(program.indexes)
        patternRules = Self.copy(program.patternRules)
        dependencies = Self.copy(program.dependencies)
        slots = Self.copy(program.slots)
        entries = Self.copy(program.entries)
        names = Self.copy(program.names)
        nameBytes = Self.copy(program.nameBytes)
    }

    private static func copy<Element: BitwiseCopyable>(_ elements: [Element]) -> UnsafePointer<Element> {
        let memory = UnsafeMutableBufferPointer<Element>.allocate(capacity: max(elements.count, 1))
        _ = memory.initialize(fromContentsOf: elements)
        return UnsafePointer(memory.baseAddress!)
    }

    fileprivate func free() {
        nodes.deallocate()
        objects.deallocate()
        arrays.deallocate()
        strings.deallocate()
        numbers.deallocate()
        values.deallocate()
        applicators.deallocate()
        indexes.deallocate()
        patternRules.deallocate()
        dependencies.deallocate()
        slots.deallocate()
        entries.deallocate()
        names.deallocate()
        nameBytes.deallocate()
    }
}

// The methods extend the pointer, because methods of `RuleTables` would copy the structure.
extension UnsafePointer<RuleTables> {
    @inline(__always)
    func nodes(_ range: PoolRange) -> UnsafeBufferPointer<Int32> {
        UnsafeBufferPointer(start: pointee.indexes + Int(range.start), count: Int(range.count))
    }

    /// Returns the UTF-8 text of the name with an index in `names`.
    @inline(__always)
    func name(_ index: Int32) -> UnsafeBufferPointer<UInt8> {
        let text = pointee.names[Int(index)]
        return UnsafeBufferPointer(start: pointee.nameBytes + Int(text.start), count: Int(text.count))
    }

    /// Returns the entry for a name. `hash` is the hash of the name; nil if the set does not contain the name.
    @inline(__always)
    func entry(
        _ set: NameSet, hash: UInt32, _ name: UnsafeBufferPointer<UInt8>
    ) -> UnsafePointer<NameSet.Entry>? {
        guard set.count > 0 else { return nil }
        var slot = hash & set.mask
        while true {
            let position = pointee.slots[Int(set.slots &+ slot)]
            if position == 0 { return nil }
            let entry = pointee.entries + Int(set.entries &+ position &- 1)
            if entry.pointee.hash == hash, self.name(entry.pointee.name).equals(name) { return entry }
            slot = (slot &+ 1) & set.mask
        }
    }
}
