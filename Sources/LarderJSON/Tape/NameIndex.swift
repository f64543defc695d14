import Glibc

/// Finds names of a fixed set, for a fraction of what a dictionary of strings takes.
///
/// The names are those of a program or of its settings. Its hash would be easy to make collisions for, but what a client asks
/// for is only looked up.
package final class NameIndex: Sendable {
    private struct Name {
        var hash: UInt32
        var position: Int32
        var start: Int
        var count: Int
    }

    // Written by the initializer only. Pointers, because arrays would be retained for each access.
    private nonisolated(unsafe) let text: UnsafeMutablePointer<UInt8>
    /// Open addressing: a power of two, at least half of them empty (position -1).
    private nonisolated(unsafe) let slots: UnsafeMutablePointer<Name>
    private let mask: Int

    /// - Parameter names: all different. A name's position is that in this array.
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

    /// The position of a name; nil if it is not in the index.
    package func position(of name: String) -> Int? {
        var name = name
        return name.withUTF8 { position(of: UnsafeRawBufferPointer($0)) }
    }

    /// The position of the name that a string says; nil if it is not in the index, or if the value is not a string.
    package func position(of name: JSONValue) -> Int? {
        let entry = name.entry
        guard entry.kind == Node.Kind.string else { return nil }
        return Names.withBytes(entry, text: name.document.text) { position(of: $0) }
    }

    private func position(of name: UnsafeRawBufferPointer) -> Int? {
        let hash = NameHash.exact(name)
        var slot = Int(hash) & mask
        while slots[slot].position >= 0 {
            let known = slots[slot]
            if known.hash == hash, known.count == name.count,
                // An empty name may have no memory.
                memcmp(text + known.start, name.baseAddress ?? UnsafeRawPointer(text), known.count) == 0
            {
                return Int(known.position)
            }
            slot = (slot &+ 1) & mask
        }
        return nil
    }
}
