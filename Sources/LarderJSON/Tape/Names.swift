import Glibc

/// Compares and finds member names within an object, and resolves duplicates.
///
/// If several members have the same name, the first name node represents them all. It is `redirected` to the last name
/// node, which has the effective value. All nodes but the first are marked as `later` and skipped.
enum Names {
    /// The name node that precedes the effective value of a member: the last node with the same name, or `name` itself
    /// if the name occurs once. `name` is the first node with the name.
    @inline(__always)
    static func winner(_ nodes: UnsafePointer<Node>, _ name: Int) -> Int {
        nodes[name].has(Node.Flag.redirected) ? name &+ Int(nodes[name].span) : name
    }

    /// Whether the content of a string or name node equals `bytes`.
    @inline(__always)
    static func matches(_ node: Node, text: UnsafePointer<UInt8>, _ bytes: UnsafeRawBufferPointer) -> Bool {
        // The base address of an empty name may be nil.
        let start = bytes.baseAddress ?? UnsafeRawPointer(text)
        return equals(node, text, start.assumingMemoryBound(to: UInt8.self), bytes.count)
    }

    /// Whether two name nodes have the same content.
    static func equal(
        _ left: Node, _ leftText: UnsafePointer<UInt8>, _ right: Node, _ rightText: UnsafePointer<UInt8>
    ) -> Bool {
        withBytes(right, text: rightText) { matches(left, text: leftText, $0) }
    }

    /// Calls `body` with the content of a string or name node, with escapes resolved.
    @inline(__always)
    static func withBytes<R>(
        _ node: Node, text: UnsafePointer<UInt8>, _ body: (UnsafeRawBufferPointer) -> R
    ) -> R {
        let inner = inner(node, text: text)
        if node.has(Node.Flag.escaped) { return EscapedString.withDecoded(inner, body) }
        return body(UnsafeRawBufferPointer(inner))
    }

    /// The text of a string or name node, without its quotation marks.
    @inline(__always)
    private static func inner(_ node: Node, text: UnsafePointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: text + Int(node.offset) + 1, count: Int(node.length) - 2)
    }

    /// The value node of the member called `name`; nil if there is no such member or `object` is not the node of an
    /// object.
    @inline(__always)
    static func find(
        _ document: UnsafePointer<Document.Storage>, object: Int, _ name: UnsafeRawBufferPointer
    ) -> Int? {
        // The base address of an empty name may be nil.
        let start = name.baseAddress ?? UnsafeRawPointer(document)
        return find(document, object: object, start.assumingMemoryBound(to: UInt8.self), name.count)
    }

    /// The value node of the member with a name of `count` bytes.
    ///
    /// Takes the memory of the document instead of a reference to it, to avoid reference counting. The caller keeps the
    /// document alive.
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
            if equals(node.pointee, text, name, count) { break }
            node += 1 &+ Int(node[1].span)
        }
        if node >= end { return nil }
        // The search finds the first of several equal names, so the node is not marked as `later`.
        let distance = node.pointee.has(Node.Flag.redirected) ? Int(node.pointee.span) : 0
        return object &+ (node - first) &+ distance &+ 1
    }

    /// Whether the content of a name node equals `name`.
    @inline(__always)
    static func equals(
        _ node: Node, _ text: UnsafePointer<UInt8>, _ name: UnsafePointer<UInt8>, _ count: Int
    ) -> Bool {
        if node.has(Node.Flag.escaped) { return equalsEscaped(node, text, name, count) }
        // Most names differ in length or in the last byte. For an empty name, that byte would be the opening quotation
        // mark, so it is not compared.
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
    private static func equalsEscaped(
        _ node: Node, _ text: UnsafePointer<UInt8>, _ name: UnsafePointer<UInt8>, _ count: Int
    ) -> Bool {
        EscapedString.equals(inner(node, text: text), UnsafeRawBufferPointer(start: name, count: count))
    }

    /// The value node of the member of `object` whose name equals that of the name node `name` in `other`; nil if there
    /// is no such member.
    static func find(_ document: Document, object: Int, like name: Int, of other: Document) -> Int? {
        withBytes(other.nodes[name], text: other.text) { find(document.storage, object: object, $0) }
    }

    /// Searches an open object for an earlier name equal to the one at `name`, and resolves the duplicate. Returns
    /// whether there was an earlier name.
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

    /// Makes the name node at `first` refer to the value of the name node at `last`.
    static func redirect(_ nodes: UnsafeMutablePointer<Node>, from first: Int, to last: Int) {
        nodes[first].info |= Node.Flag.redirected
        nodes[first].span = UInt32(truncatingIfNeeded: last - first)
        nodes[last].info |= Node.Flag.later
    }

    /// Completes an object that has duplicates or many members, all of which are on the tape. Returns the number of
    /// distinct names.
    @inline(never)
    static func close(_ document: Document, object: Int, members: UInt32) -> UInt32 {
        let nodes = document.storage.pointee.nodes
        // The flag `duplicates` has a meaning only during parsing, so clear it in the complete object.
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

/// A fast 32-bit hash of a name's content. Each name node stores it, so that most names can be distinguished without
/// reading the text. It depends only on the length and on at most sixteen bytes, so collisions are easy to construct.
/// Therefore it is only a filter, and large objects use the keyed hash of ``NameTable``.
enum NameHash {
    /// The hash of a name of `count` bytes. Up to eight bytes after its end must be readable.
    @inline(__always)
    static func padded(_ name: UnsafePointer<UInt8>, _ count: Int) -> UInt32 {
        // There is no branch for names shorter than eight bytes, because the processor cannot predict it well.
        let mask = Word.lowBytes(min(count, 8))
        return mix(Word.load(name) & mask, Word.load(name + max(count - 8, 0)) & mask, count)
    }

    /// The same hash as ``padded(_:_:)``, for bytes that must not be read past their end.
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
