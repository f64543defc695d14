/// Builds a document from parts of other documents without parsing the parts again. It copies both the text and the
/// tape of each part. The parts must be compact and free of duplicate members, so that the result is as well.
struct TapeBuilder {
    private struct Open {
        var node: Int
        var count: UInt32
        var hasNulls: Bool
    }

    let document: Document
    private var open: [Open] = []
    /// Whether a comma must precede the next member.
    private var follows = false

    /// Creates a builder with the given initial capacity.
    init(textCapacity: Int, nodeCapacity: Int) {
        document = Document(textCapacity: textCapacity, nodeCapacity: nodeCapacity)
    }

    /// The finished value. Nothing may be added afterwards.
    func finish() -> JSONValue {
        document.sealText()
        document.trim()
        return JSONValue(document: document, node: 0)
    }

    /// Begins an object: the outermost one, or the value of the last name.
    mutating func beginObject() {
        let node = document.storage.pointee.nodeCount
        let offset = document.storage.pointee.textCount
        byte(UInt8(ascii: "{"))
        document.reserveNodes(node + 1)
        document.storage.pointee.nodes[node] = Node(
            offset: UInt32(truncatingIfNeeded: offset), length: 0, span: 0, info: Node.Kind.object)
        document.storage.pointee.nodeCount = node + 1
        open.append(Open(node: node, count: 0, hasNulls: false))
        follows = false
    }

    /// Ends the innermost object.
    mutating func endObject() {
        guard let last = open.popLast() else { return }
        byte(UInt8(ascii: "}"))
        if last.count > NameTable.smallObject {
            _ = NameTable.build(document, object: last.node, members: Int(last.count))
        }
        let nodes = document.storage.pointee.nodes
        let length = document.storage.pointee.textCount - Int(nodes[last.node].offset)
        nodes[last.node].length = UInt32(truncatingIfNeeded: length)
        nodes[last.node].span = UInt32(truncatingIfNeeded: document.storage.pointee.nodeCount - last.node)
        nodes[last.node].info |=
            min(last.count, Node.maxCount) << 8 | Node.Flag.clean | (last.hasNulls ? Node.Flag.nullMembers : 0)
        if last.hasNulls, let outer = open.indices.last { open[outer].hasNulls = true }
        follows = true
    }

    /// Adds the name of the next member, copied from another document.
    mutating func name(_ source: Document, _ name: Int) {
        separate()
        let entry = source.nodes[name]
        let length = Int(entry.length)
        let node = document.storage.pointee.nodeCount
        let offset = document.storage.pointee.textCount
        text(source.text + Int(entry.offset), length)
        byte(UInt8(ascii: ":"))
        document.reserveNodes(node + 1)
        document.storage.pointee.nodes[node] = Node(
            offset: UInt32(truncatingIfNeeded: offset), length: entry.length,
            span: entry.span, info: entry.info)
        document.storage.pointee.nodeCount = node + 1
        if let last = open.indices.last { open[last].count &+= 1 }
        follows = false
    }

    /// Adds a value copied from another document, as the value of the last name or as the whole result.
    mutating func copy(_ source: Document, _ node: Int) {
        let entry = source.nodes[node]
        if entry.kind == Node.Kind.null || entry.has(Node.Flag.nullMembers), let last = open.indices.last {
            open[last].hasNulls = true
        }
        let delta = document.storage.pointee.textCount - Int(entry.offset)
        text(source.text + Int(entry.offset), Int(entry.length))
        nodes(source, from: node, to: node + Int(entry.span), delta)
        follows = true
    }

    /// Adds members of another document's object, from the name node `first` up to but not including the node `end`.
    mutating func members(_ source: Document, from first: Int, to end: Int, hasNulls: Bool) {
        guard first < end else { return }
        separate()
        var count: UInt32 = 0
        var name = first
        var last = first
        while name < end {
            count &+= 1
            last = name + 1
            name = last + Int(source.nodes[last].span)
        }
        let start = Int(source.nodes[first].offset)
        let delta = document.storage.pointee.textCount - start
        text(source.text + start, Int(source.nodes[last].offset) + Int(source.nodes[last].length) - start)
        nodes(source, from: first, to: end, delta)
        if let innermost = open.indices.last {
            open[innermost].count &+= count
            if hasNulls { open[innermost].hasNulls = true }
        }
        follows = true
    }

    private func separate() {
        if follows { byte(UInt8(ascii: ",")) }
    }

    private func byte(_ byte: UInt8) {
        let count = document.storage.pointee.textCount
        document.reserveText(count + 1)
        document.storage.pointee.text[count] = byte
        document.storage.pointee.textCount = count + 1
    }

    private func text(_ bytes: UnsafePointer<UInt8>, _ length: Int) {
        let count = document.storage.pointee.textCount
        // Node offsets have 32 bits. Each part is within that limit, so only a merge of several gigabytes can exceed
        // it. The result of such a merge cannot be represented.
        precondition(count + length <= Document.maxTextCount, "a merged document is larger than 4 GiB")
        document.reserveText(count + length)
        (document.storage.pointee.text + count).update(from: bytes, count: length)
        document.storage.pointee.textCount = count + length
    }

    /// Copies nodes, and adds `delta` to their text offsets.
    private func nodes(_ source: Document, from first: Int, to end: Int, _ delta: Int) {
        let count = end - first
        let start = document.storage.pointee.nodeCount
        document.reserveNodes(start + count)
        let input = source.nodes + first
        let output = document.storage.pointee.nodes + start
        let shift = UInt32(truncatingIfNeeded: delta)
        document.storage.pointee.nodeCount = start + count
        for index in 0..<count {
            var node = input[index]
            if node.kind == Node.Kind.table {
                node.offset = UInt32(truncatingIfNeeded: slots(source, Int(node.offset), Int(node.length)))
            } else {
                node.offset &+= shift
            }
            output[index] = node
        }
    }

    /// Copies the slots of a name table. They contain distances within the object, which do not change.
    private func slots(_ source: Document, _ first: Int, _ count: Int) -> Int {
        let start = document.appendSlots(count)
        if let input = source.storage.pointee.slots, let output = document.storage.pointee.slots {
            (output + start).update(from: input + first, count: count)
        }
        return start
    }
}
