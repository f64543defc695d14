import Glibc

/// Finds names of a fixed set, faster than a dictionary of strings.
///
/// The names are constants of the program or come from its settings. The hash does not resist deliberate collisions,
/// but names from clients are only looked up, never added.
package final class NameIndex: Sendable {
    private struct Name {
        var hash: UInt32
        var position: Int32
        var start: Int
        var count: Int
    }

    // Only the initializer writes to this memory. Pointers are used, because an array would be retained on each access.
    private nonisolated(unsafe) let text: UnsafeMutablePointer<UInt8>
    /// A hash table with open addressing. Its size is a power of two, and at least half of the slots are empty
    /// (position -1).
    private nonisolated(unsafe) let slots: UnsafeMutablePointer<Name>
    private let mask: Int

    /// - Parameter names: all different. The position of a name is its index in this array.
    package init(_ names: [String]) {
        text = .allocate(capacity: names.reduce(1) { $0 + $1.utf8.count })
        var capacity = 2
        while capacity < 2 * names.count { capacity *= 2 }
        mask = capacity - 1
        slots = .allocate(capacity: capacity)
        slots.initialize(repeating: Name(hash: 0, position: -1, start: 0, count: 0), count: capacity)
        var start = 0
        for (position, name) in names.enumerated() {
            let count = name.utf8.count
            let bytes = UnsafeMutableBufferPointer(start: text + start, count: count)
            _ = bytes.initialize(fromContentsOf: name.utf8)
            let hash = NameHash.exact(UnsafeRawBufferPointer(bytes))
            var slot = Int(hash) & mask
            while slots[slot].position >= 0 { slot = (slot + 1) & mask }
            slots[slot] = Name(hash: hash, position: Int32(position), start: start, count: count)
            start += count
        }
    }

    deinit {
        text.deallocate()
        slots.deallocate()
    }

    /// The position of a name; nil if the index does not contain it.
    package func position(of name: String) -> Int? {
        let found = name.utf8.withContiguousStorageIfAvailable { position(of: UnsafeRawBufferPointer($0)) }
        if let found { return found }
        var name = name
        return name.withUTF8 { position(of: UnsafeRawBufferPointer($0)) }
    }

    /// The position of a name given as a JSON string; nil if the index does not contain it or the value is not a
    /// string.
    package func position(of name: JSONValue) -> Int? {
        let entry = name.entry
        guard entry.kind == Node.Kind.string else { return nil }
        return Names.withBytes(entry, text: name.document.text) { position(of: $0) }
    }

    /// The position of the name of a member.
    @inline(__always)
    func position(ofName name: Node, text: UnsafePointer<UInt8>) -> Int? {
        if name.has(Node.Flag.escaped | Node.Flag.redirected) { return position(ofRareName: name, text: text) }
        return position(of: text + Int(name.offset) + 1, Int(name.length) &- 2, hash: name.span)
    }

    /// The position of a name with escapes, or that occurs several times in its object, so that its hash is not stored.
    @inline(never)
    private func position(ofRareName name: Node, text: UnsafePointer<UInt8>) -> Int? {
        Names.withBytes(name, text: text) { position(of: $0) }
    }

    /// The position of the string at a position in the document of `value`; nil if the index does not contain it.
    package func position(of name: JSONPosition, in value: JSONValue) -> Int? {
        guard name.kind == .string else { return nil }
        let (entry, text) = (value.document.nodes[Int(name.node)], value.document.text)
        if entry.has(Node.Flag.escaped) { return position(ofRareName: entry, text: text) }
        let (start, count) = (text + Int(entry.offset) + 1, Int(entry.length) &- 2)
        return position(of: start, count, hash: NameHash.padded(start, count))
    }

    private func position(of name: UnsafeRawBufferPointer) -> Int? {
        // The base address of an empty name may be nil.
        let start = name.baseAddress ?? UnsafeRawPointer(text)
        return position(of: start.assumingMemoryBound(to: UInt8.self), name.count, hash: NameHash.exact(name))
    }

    @inline(__always)
    private func position(of name: UnsafePointer<UInt8>, _ count: Int, hash: UInt32) -> Int? {
        var slot = Int(hash) & mask
        while slots[slot].position >= 0 {
            let known = slots[slot]
            if known.hash == hash, known.count == count, Word.equal(text + known.start, name, count) {
                return Int(known.position)
            }
            slot = (slot &+ 1) & mask
        }
        return nil
    }
}
