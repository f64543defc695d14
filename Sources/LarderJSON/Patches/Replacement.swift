extension JSONValue {
    /// A new scalar, and the path of the old scalar that it replaces.
    package struct Replacement: Sendable {
        /// The member names that lead to the scalar, outermost first.
        package var path: [String]
        /// The new value: a number, string or boolean.
        package var value: JSONValue

        package init(at path: [String], by value: JSONValue) {
            self.path = path
            self.value = value
        }
    }

    /// Returns the document with some scalars replaced. Text and tape are copied in blocks, which takes a fraction of
    /// the time that building a new document would take. If several replacements have the same path, the last one
    /// counts.
    ///
    /// - Returns: nil if a path does not lead through objects to a scalar, if an old or new value is `null` or not a
    ///   scalar, or if this value is not a whole, compact document whose root is an object. ``MergePatch`` and
    ///   ``building(_:)`` make compact documents.
    package func replacing(_ replacements: [Replacement]) -> JSONValue? {
        guard node == 0, entry.has(Node.Flag.clean), entry.kind == Node.Kind.object else { return nil }
        var edits: [ScalarEdit] = []
        edits.reserveCapacity(replacements.count)
        for (order, replacement) in replacements.enumerated() {
            guard let edit = ScalarEdit(replacement, order: order, in: document) else { return nil }
            edits.append(edit)
        }
        if edits.count > 1 { edits = ScalarEdit.inOrder(edits) }
        let growth = edits.reduce(0) { $0 + $1.growth }
        guard document.storage.pointee.textCount + growth <= Document.maxTextCount else { return nil }
        return ScalarEdit.apply(edits, to: document, growth: growth)
    }
}

/// A scalar on a document's tape, and its replacement.
private struct ScalarEdit {
    let node: Int
    let value: JSONValue
    private let order: Int
    /// The containers of the scalar, outermost first.
    private let containers: [Int]
    /// The number of bytes that the text grows by; negative if it shrinks.
    let growth: Int

    init?(_ replacement: JSONValue.Replacement, order: Int, in document: Document) {
        let kind = replacement.value.entry.kind
        guard kind == Node.Kind.number || kind == Node.Kind.string || kind == Node.Kind.bool else { return nil }
        var containers: [Int] = []
        containers.reserveCapacity(replacement.path.count)
        var node = 0
        for name in replacement.path {
            guard document.nodes[node].kind == Node.Kind.object else { return nil }
            var name = name
            guard let found = name.withUTF8({ Names.find(document.storage, object: node, UnsafeRawBufferPointer($0)) })
            else {
                return nil
            }
            containers.append(node)
            node = found
        }
        let old = document.nodes[node]
        guard old.kind != Node.Kind.object, old.kind != Node.Kind.array, old.kind != Node.Kind.null else { return nil }
        self.node = node
        self.order = order
        value = replacement.value
        self.containers = containers
        growth = Int(value.entry.length) - Int(old.length)
    }

    /// Sorts edits in the order of the tape, which is the order of the text. Of several edits of one node the last one
    /// remains.
    static func inOrder(_ edits: [ScalarEdit]) -> [ScalarEdit] {
        let sorted = edits.sorted { ($0.node, $0.order) < ($1.node, $1.order) }
        let last = sorted.indices.filter { $0 + 1 == sorted.count || sorted[$0 + 1].node != sorted[$0].node }
        return last.map { sorted[$0] }
    }

    /// - Parameter edits: sorted by node, with one edit per node
    static func apply(_ edits: [ScalarEdit], to source: Document, growth: Int) -> JSONValue {
        let old = source.storage.pointee
        let result = Document(textCapacity: old.textCount + growth, nodeCapacity: old.nodeCount)
        let new = result.storage.pointee
        var (text, nodes) = (0, 0)
        var shift = 0
        for edit in edits {
            let before = old.nodes[edit.node]
            let start = Int(before.offset)
            (new.text + text + shift).update(from: old.text + text, count: start - text)
            copy(old, new, from: nodes, to: edit.node, shift: shift)
            edit.value.withTextBytes { bytes in
                UnsafeMutableRawPointer(new.text + start + shift).copyMemory(
                    from: bytes.baseAddress!, byteCount: bytes.count)
            }
            new.nodes[edit.node] = Node(
                offset: UInt32(truncatingIfNeeded: start + shift), length: edit.value.entry.length, span: 1,
                info: edit.value.entry.info)
            shift += edit.growth
            text = start + Int(before.length)
            nodes = edit.node + 1
        }
        (new.text + text + shift).update(from: old.text + text, count: old.textCount - text)
        copy(old, new, from: nodes, to: old.nodeCount, shift: shift)
        for edit in edits {
            for container in edit.containers {
                new.nodes[container].length &+= UInt32(truncatingIfNeeded: edit.growth)
            }
        }
        result.storage.pointee.textCount = old.textCount + growth
        result.storage.pointee.nodeCount = old.nodeCount
        // Name tables can be copied unchanged: slots contain distances from their objects, table nodes contain slot
        // indexes, and replacing scalars changes neither.
        if let slots = old.slots, old.slotCount > 0 {
            let first = result.appendSlots(old.slotCount)
            if let output = result.storage.pointee.slots { (output + first).update(from: slots, count: old.slotCount) }
        }
        result.sealText()
        return JSONValue(document: result, node: 0)
    }

    private static func copy(
        _ old: Document.Storage, _ new: Document.Storage, from first: Int, to end: Int, shift: Int
    ) {
        if shift == 0 { return (new.nodes + first).update(from: old.nodes + first, count: end - first) }
        let shift = UInt32(truncatingIfNeeded: shift)
        for index in first..<end {
            var node = old.nodes[index]
            if node.kind != Node.Kind.table { node.offset &+= shift }
            new.nodes[index] = node
        }
    }
}
