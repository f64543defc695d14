/// A program, and its tables in memory that can be read without reference counting and bounds checks.
final class CompiledSchema: Sendable {
    let program: SchemaProgram
    let tables: RuleTables
    /// The URIs of the documents, in the order of `SchemaLocation.document`.
    let documents: [String]

    init(_ program: SchemaProgram, documents: [String]) {
        self.program = program
        self.documents = documents
        tables = RuleTables(program)
    }

    deinit { tables.free() }

    /// The location of a subschema or of one of its keywords as text.
    func text(_ location: SchemaLocation, _ keyword: String = "") -> String {
        let document = location.document == 0 ? "" : documents[location.document]
        return document + "#" + location.pointer + (keyword.isEmpty ? "" : "/" + keyword)
    }
}

/// Copies of the arrays of a program that the validation reads for each value.
///
/// `@unchecked Sendable`, because the memory is written only by the initializer and freed by the only owner.
struct RuleTables: @unchecked Sendable {
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
    private let slots: UnsafePointer<UInt32>
    private let entries: UnsafePointer<NameSet.Entry>
    private let names: UnsafePointer<NameText>
    private let nameBytes: UnsafePointer<UInt8>

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

    @inline(__always)
    func nodes(_ range: PoolRange) -> UnsafeBufferPointer<Int32> {
        UnsafeBufferPointer(start: indexes + Int(range.start), count: Int(range.count))
    }

    /// The text of a name by its index.
    @inline(__always)
    func name(_ index: Int32) -> UnsafeBufferPointer<UInt8> {
        let text = names[Int(index)]
        return UnsafeBufferPointer(start: nameBytes + Int(text.start), count: Int(text.count))
    }

    /// The entry for a name with the given hash; nil if the set does not contain it.
    @inline(__always)
    func entry(
        _ set: NameSet, hash: UInt32, _ name: UnsafeBufferPointer<UInt8>
    ) -> UnsafePointer<NameSet.Entry>? {
        guard set.count > 0 else { return nil }
        var slot = hash & set.mask
        while true {
            let position = slots[Int(set.slots &+ slot)]
            if position == 0 { return nil }
            let entry = entries + Int(set.entries &+ position &- 1)
            if entry.pointee.hash == hash, self.name(entry.pointee.name).equals(name) { return entry }
            slot = (slot &+ 1) & set.mask
        }
    }
}
