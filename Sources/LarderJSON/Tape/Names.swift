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
        return Word.equal(text + Int(node.offset) + 1, name, count)
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
        if members > NameTable.smallObject {
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
        return mix(Word.load(name) & mask, Word.load(name + max(count &- 8, 0)) & mask, count)
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

/// The hash table of an object with many members. It uses open addressing and ``KeyedHash``, so that clients cannot
/// choose names that collide.
///
/// The table is built when the object ends, so that reading it needs no lock. A `table` node at the end of the object
/// stores the position of the slots. A slot contains the distance from the object's node to a name node. An empty slot
/// contains 0.
enum NameTable {
    /// Objects with more members than this, including duplicates, get a table. Smaller ones are searched
    /// linearly.
    static let smallObject: UInt32 = 32

    /// Appends the table of an object whose members are all on the tape, marks the object as `indexed`, and resolves
    /// duplicates. Returns the number of distinct names.
    static func build(_ document: Document, object: Int, members: Int) -> UInt32 {
        var capacity = 64
        while capacity < members + members / 2 { capacity *= 2 }
        let start = document.appendSlots(capacity)
        let end = document.storage.pointee.nodeCount
        document.reserveNodes(end + 1)

        let nodes = document.storage.pointee.nodes
        let text = document.text
        guard let allSlots = document.storage.pointee.slots else { return 0 }
        let slots = allSlots + start
        let mask = capacity - 1
        let hash = KeyedHash.process
        var distinct: UInt32 = 0
        var name = object + 1
        var nextCheck = name + Document.nodesPerCheck
        while name < end {
            if name > nextCheck {
                document.checkCancellation()
                // The text of the names is gone.
                if document.storage.pointee.isCancelled { return distinct }
                nextCheck = name + Document.nodesPerCheck
            }
            let next = name + 1 + Int(nodes[name + 1].span)
            if !nodes[name].has(Node.Flag.later) {
                var slot = Int(truncatingIfNeeded: Names.withBytes(nodes[name], text: text) { hash($0) }) & mask
                while true {
                    let found = object + Int(slots[slot])
                    if found == object {
                        slots[slot] = UInt32(truncatingIfNeeded: name - object)
                        distinct += 1
                        break
                    }
                    if isSame(nodes, found, name, text: text) {
                        Names.redirect(nodes, from: found, to: name)
                        break
                    }
                    slot = (slot + 1) & mask
                }
            }
            name = next
        }
        nodes[end] = Node(
            offset: UInt32(truncatingIfNeeded: start), length: UInt32(truncatingIfNeeded: capacity), span: distinct,
            info: Node.Kind.table)
        nodes[object].info |= Node.Flag.indexed
        document.storage.pointee.nodeCount = end + 1
        return distinct
    }

    /// The first name node with the given name, in a complete object that has a table.
    static func find(
        _ document: UnsafePointer<Document.Storage>, object: Int, _ name: UnsafeRawBufferPointer
    ) -> Int? {
        let nodes = UnsafePointer(document.pointee.nodes)
        let table = nodes[object + Int(nodes[object].span) - 1]
        guard let allSlots = document.pointee.slots else { return nil }
        let slots = allSlots + Int(table.offset)
        let mask = Int(table.length) - 1
        let quick = NameHash.exact(name)
        var slot = Int(truncatingIfNeeded: KeyedHash.process(name)) & mask
        while slots[slot] != 0 {
            let found = object + Int(slots[slot])
            if nodes[found].has(Node.Flag.redirected) || nodes[found].span == quick,
                Names.matches(nodes[found], text: document.pointee.text, name)
            {
                return found
            }
            slot = (slot + 1) & mask
        }
        return nil
    }

    private static func isSame(
        _ nodes: UnsafeMutablePointer<Node>, _ found: Int, _ name: Int, text: UnsafePointer<UInt8>
    ) -> Bool {
        // A redirected name node has a distance in `span` instead of its hash, so the hashes cannot be compared.
        let isRedirected = (nodes[found].info | nodes[name].info) & Node.Flag.redirected != 0
        guard isRedirected || nodes[found].span == nodes[name].span else { return false }
        return Names.equal(nodes[found], text, nodes[name], text)
    }
}

/// Processes eight bytes at a time, as a word with the lowest address in the lowest bits. Swift's SIMD vectors are not
/// used: they cannot produce a bit mask of the matching bytes, and their masks are not always compiled to vector
/// instructions.
enum Word {
    @inline(__always)
    static func load(_ pointer: UnsafePointer<UInt8>) -> UInt64 {
        UInt64(littleEndian: UnsafeRawPointer(pointer).loadUnaligned(as: UInt64.self))
    }

    @inline(__always)
    static func load32(_ pointer: UnsafePointer<UInt8>) -> UInt32 {
        UInt32(littleEndian: UnsafeRawPointer(pointer).loadUnaligned(as: UInt32.self))
    }

    /// The first eight bytes, or all of them padded with zeros if there are fewer. Never reads past the end.
    @inline(__always)
    static func head(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        let count = bytes.count
        if count >= 8 { return UInt64(littleEndian: bytes.loadUnaligned(as: UInt64.self)) }
        if count >= 4 {
            let low = UInt32(littleEndian: bytes.loadUnaligned(as: UInt32.self))
            let high = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: count - 4, as: UInt32.self))
            return UInt64(low) | UInt64(high) &<< UInt64(truncatingIfNeeded: (count &- 4) &* 8)
        }
        var head: UInt64 = 0
        for index in 0..<count { head |= UInt64(bytes[index]) &<< UInt64(truncatingIfNeeded: 8 &* index) }
        return head
    }

    /// Whether `count` bytes at two addresses are equal. For names of up to 16 bytes, this takes fewer instructions than
    /// a call of memcmp(3).
    @inline(__always)
    static func equal(_ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        if count > 16 { return memcmp(left, right, count) == 0 }
        // The words at the beginning and at the end cover all bytes. They may overlap.
        if count >= 8 {
            let last = count &- 8
            return (load(left) ^ load(right)) | (load(left + last) ^ load(right + last)) == 0
        }
        if count >= 4 {
            let last = count &- 4
            return (load32(left) ^ load32(right)) | (load32(left + last) ^ load32(right + last)) == 0
        }
        // The first, the middle and the last byte are all bytes of a name of up to three.
        let (middle, last) = (count &>> 1, count &- 1)
        return count == 0 || left[0] == right[0] && left[middle] == right[middle] && left[last] == right[last]
    }

    /// A mask of the lowest `count` bytes of a word. `count` is at most 8.
    @inline(__always)
    static func lowBytes(_ count: Int) -> UInt64 {
        // Two shifts by half the number of bits, because `&<<` treats a shift by 64 as a shift by 0.
        let bits = UInt64(truncatingIfNeeded: count) &* 4
        return ~((UInt64.max &<< bits) &<< bits)
    }

    /// Returns a word in which bit 7 is set for each byte that ends a run of plain ASCII in a string: a quotation mark,
    /// a backslash, a control character, or a byte of a multibyte UTF-8 character. Only the lowest set bit is reliable,
    /// because a subtraction may borrow from the byte above a match.
    @inline(__always)
    static func special(_ word: UInt64) -> UInt64 {
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let ones: UInt64 = 0x0101_0101_0101_0101
        return (word | (word &- 0x2020_2020_2020_2020) | (quote &- ones) | (backslash &- ones)) & 0x8080_8080_8080_8080
    }

    /// Returns a word in which bit 7 is set for each byte that is not whitespace of JSON.
    @inline(__always)
    static func notWhitespace(_ word: UInt64) -> UInt64 {
        differing(word ^ 0x2020_2020_2020_2020) & differing(word ^ 0x0A0A_0A0A_0A0A_0A0A)
            & differing(word ^ 0x0909_0909_0909_0909) & differing(word ^ 0x0D0D_0D0D_0D0D_0D0D)
            & 0x8080_8080_8080_8080
    }

    /// Sets bit 7 of each byte that is not zero. The sum does not carry into the next byte.
    @inline(__always)
    private static func differing(_ word: UInt64) -> UInt64 {
        ((word & 0x7F7F_7F7F_7F7F_7F7F) &+ 0x7F7F_7F7F_7F7F_7F7F) | word
    }

    /// Nonzero if at least one byte of `word` must be escaped in a JSON string. Byte order does not matter.
    @inline(__always)
    static func escaped(_ word: UInt64) -> UInt64 {
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let ones: UInt64 = 0x0101_0101_0101_0101
        let control = (word &- 0x2020_2020_2020_2020) & ~word
        return (control | (quote &- ones) & ~quote | (backslash &- ones) & ~backslash) & 0x8080_8080_8080_8080
    }
}
