import Glibc

/// Member names inside one object of a tape: comparing, finding, and settling duplicates.
///
/// Of names that are the same the first node speaks for all: it is `redirected` to the last one, whose value counts,
/// and every other one is marked `later` and passed over.
enum Names {
    /// The name node whose value is that of the member `name`: the last of its duplicates.
    @inline(__always)
    static func winner(_ nodes: UnsafePointer<Node>, _ name: Int) -> Int {
        nodes[name].has(Node.Flag.redirected) ? name &+ Int(nodes[name].span) : name
    }

    /// Whether a string or name node says exactly `bytes`.
    @inline(__always)
    static func matches(_ node: Node, text: UnsafePointer<UInt8>, _ bytes: UnsafeRawBufferPointer) -> Bool {
        if node.has(Node.Flag.escaped) { return EscapedString.says(inner(node, text: text), bytes) }
        guard Int(node.length) - 2 == bytes.count else { return false }
        guard let base = bytes.baseAddress else { return true }
        return memcmp(text + Int(node.offset) + 1, base, bytes.count) == 0
    }

    /// Whether two name nodes say the same.
    static func equal(
        _ left: Node, _ leftText: UnsafePointer<UInt8>, _ right: Node, _ rightText: UnsafePointer<UInt8>
    ) -> Bool {
        withBytes(right, text: rightText) { matches(left, text: leftText, $0) }
    }

    /// Hands over what a string or name node says, escapes resolved.
    @inline(__always)
    static func withBytes<R>(
        _ node: Node, text: UnsafePointer<UInt8>, _ body: (UnsafeRawBufferPointer) -> R
    ) -> R {
        let inner = inner(node, text: text)
        if node.has(Node.Flag.escaped) { return EscapedString.withDecoded(inner, body) }
        return body(UnsafeRawBufferPointer(inner))
    }

    /// The text between the quotation marks.
    @inline(__always)
    private static func inner(_ node: Node, text: UnsafePointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: text + Int(node.offset) + 1, count: Int(node.length) - 2)
    }

    /// The value node of the member called `name`; nil if there is none, or if the node is not an object.
    @inline(__always)
    static func find(
        _ document: UnsafePointer<Document.Storage>, object: Int, _ name: UnsafeRawBufferPointer
    ) -> Int? {
        // An empty name may have no memory.
        let start = name.baseAddress ?? UnsafeRawPointer(document)
        return find(document, object: object, start.assumingMemoryBound(to: UInt8.self), name.count)
    }

    /// The value node of the member with a name of `count` bytes.
    ///
    /// It takes the memory of the document, which the caller keeps, because that needs no reference to be counted.
    static func find(
        _ document: UnsafePointer<Document.Storage>, object: Int, _ name: UnsafePointer<UInt8>, _ count: Int
    ) -> Int? {
        let first = document.pointee.nodes + object
        guard first.pointee.kind == Node.Kind.object else { return nil }
        if first.pointee.has(Node.Flag.indexed) { return findInTable(document, object: object, name, count) }
        let text = UnsafePointer(document.pointee.text)
        let end = first + Int(first.pointee.span)
        var node = first + 1
        while node < end {
            if says(node.pointee, text, name, count) { break }
            node += 1 &+ Int(node[1].span)
        }
        if node >= end { return nil }
        // It is not marked as a later one: of names that are the same the first is found.
        let distance = node.pointee.has(Node.Flag.redirected) ? Int(node.pointee.span) : 0
        return object &+ (node - first) &+ distance &+ 1
    }

    /// Whether a name node says exactly `name`.
    @inline(__always)
    static func says(
        _ node: Node, _ text: UnsafePointer<UInt8>, _ name: UnsafePointer<UInt8>, _ count: Int
    ) -> Bool {
        if node.has(Node.Flag.escaped) { return saysEscaped(node, text, name, count) }
        // Most names differ in their lengths or in their last bytes. The last byte of an empty one is its quotation mark.
        guard Int(node.length) == count &+ 2,
            count == 0 || text[Int(node.offset) &+ count] == name[count &- 1]
        else { return false }
        return memcmp(text + Int(node.offset) + 1, name, count) == 0
    }

    @inline(never)
    private static func findInTable(
        _ document: UnsafePointer<Document.Storage>, object: Int, _ name: UnsafePointer<UInt8>, _ count: Int
    ) -> Int? {
        NameTable.find(document, object: object, UnsafeRawBufferPointer(start: name, count: count))
            .map { winner(document.pointee.nodes, $0) + 1 }
    }

    @inline(never)
    private static func saysEscaped(
        _ node: Node, _ text: UnsafePointer<UInt8>, _ name: UnsafePointer<UInt8>, _ count: Int
    ) -> Bool {
        EscapedString.says(inner(node, text: text), UnsafeRawBufferPointer(start: name, count: count))
    }

    /// The value node of the member that is called as `name`, a name node of `other`, is; or nil.
    static func find(_ document: Document, object: Int, like name: Int, of other: Document) -> Int? {
        let wanted = other.nodes[name]
        return withBytes(wanted, text: other.text) { bytes in
            let nodes = document.nodes
            if wanted.has(Node.Flag.redirected) || nodes[object].has(Node.Flag.indexed) {
                return find(document.storage, object: object, bytes)
            }
            let text = document.text
            var node = object + 1
            let end = object + Int(nodes[object].span)
            while node < end {
                let entry = nodes[node]
                if !entry.has(Node.Flag.later), entry.span == wanted.span || entry.has(Node.Flag.redirected),
                    matches(entry, text: text, bytes)
                {
                    return winner(nodes, node) + 1
                }
                node += 1 + Int(nodes[node + 1].span)
            }
            return nil
        }
    }

    /// Looks for an earlier name equal to the one at `name` in an open object, and settles which one counts.
    @inline(never)
    static func resolveDuplicate(
        _ nodes: UnsafeMutablePointer<Node>, text: UnsafePointer<UInt8>, object: Int, name: Int
    ) -> Bool {
        withBytes(nodes[name], text: text) { bytes in
            var earlier = object + 1
            while earlier < name {
                let node = nodes[earlier]
                if !node.has(Node.Flag.later), node.has(Node.Flag.redirected) || node.span == nodes[name].span,
                    matches(node, text: text, bytes)
                {
                    redirect(nodes, from: earlier, to: name)
                    nodes[object].info |= Node.Flag.duplicates
                    return true
                }
                earlier += 1 + Int(nodes[earlier + 1].span)
            }
            return false
        }
    }

    /// Makes the name at `first` stand for the one at `last` as well.
    static func redirect(_ nodes: UnsafeMutablePointer<Node>, from first: Int, to last: Int) {
        nodes[first].info |= Node.Flag.redirected
        nodes[first].span = UInt32(truncatingIfNeeded: last - first)
        nodes[last].info |= Node.Flag.later
    }

    /// Finishes an object that has duplicates or many members; all its members are on the tape. Returns the number of
    /// distinct names.
    @inline(never)
    static func close(_ document: Document, object: Int, members: UInt32) -> UInt32 {
        let nodes = document.storage.pointee.nodes
        // While the object was open this bit meant something else than in a finished one.
        nodes[object].info &= ~Node.Flag.duplicates
        if members > TapeParser.smallObject {
            return NameTable.build(document, object: object, members: Int(members))
        }
        var distinct: UInt32 = 0
        var node = object + 1
        while node < document.storage.pointee.nodeCount {
            if !nodes[node].has(Node.Flag.later) { distinct += 1 }
            node += 1 + Int(nodes[node + 1].span)
        }
        return distinct
    }
}

/// A fast 32-bit hash of a name's bytes (after unescaping), kept in each name node to tell names apart without looking
/// at the text. It looks at the length and at no more than sixteen bytes, so it is easy to make collisions on purpose:
/// it only filters, and large objects are found by `NameTable`'s keyed hash.
enum NameHash {
    /// Hash of a name of `count` bytes that may be read up to eight bytes past its end.
    @inline(__always)
    static func padded(_ name: UnsafePointer<UInt8>, _ count: Int) -> UInt32 {
        // Without a branch: whether a name is shorter than a word is hard to predict.
        let mask = Word.lowBytes(min(count, 8))
        return mix(Word.load(name) & mask, Word.load(name + max(count - 8, 0)) & mask, count)
    }

    /// The same hash of bytes that must not be read past their end.
    static func exact(_ name: UnsafeRawBufferPointer) -> UInt32 {
        let head = Word.head(name)
        guard name.count >= 8 else { return mix(head, head, name.count) }
        let tail = name.loadUnaligned(fromByteOffset: name.count - 8, as: UInt64.self)
        return mix(head, UInt64(littleEndian: tail), name.count)
    }

    @inline(__always)
    private static func mix(_ head: UInt64, _ tail: UInt64, _ count: Int) -> UInt32 {
        var hash = (head ^ (tail << 31 | tail >> 33) ^ UInt64(truncatingIfNeeded: count)) &* 0x9E37_79B9_7F4A_7C15
        hash ^= hash >> 32
        hash = hash &* 0xD6E8_FEB8_6659_FD93
        return UInt32(truncatingIfNeeded: hash >> 32)
    }
}
