/// The cached images by key and by slot. A slot is a small number that identifies an image. The slot of a removed image
/// is reused.
package struct ImageTable: Sendable {
    private var entries: [ImageEntry?] = []
    private var index: SlotIndex
    private var free: [UInt32] = []

    /// Creates an empty table with space for `capacity` images.
    package init(capacity: Int = 0) {
        entries.reserveCapacity(capacity)
        index = SlotIndex(capacity: capacity)
    }

    /// One more than the highest slot ever used.
    var slotCount: UInt32 { UInt32(entries.count) }

    package var count: Int { index.count }

    package func slot(of key: ImageKey) -> UInt32? {
        index.slot(key.high) { slot in entries[Int(slot)]?.key == key }
    }

    package subscript(slot: UInt32) -> ImageEntry? { Int(slot) < entries.count ? entries[Int(slot)] : nil }

    /// Adds an image, or replaces the image with the same key.
    ///
    /// - Returns: the slot, and the previous image
    package mutating func put(_ entry: ImageEntry) -> (slot: UInt32, old: ImageEntry?) {
        if let slot = slot(of: entry.key) {
            let old = entries[Int(slot)]
            entries[Int(slot)] = entry
            return (slot, old)
        }
        let slot = free.popLast() ?? UInt32(entries.count)
        if Int(slot) == entries.count { entries.append(entry) } else { entries[Int(slot)] = entry }
        index.insert(slot, in: entries)
        return (slot, nil)
    }

    /// Changes the time of an image's last use, or whether the image is pinned.
    package mutating func update(_ slot: UInt32, lastUse: Int? = nil, isPinned: Bool? = nil) {
        guard Int(slot) < entries.count else { return }
        if let lastUse { entries[Int(slot)]?.lastUse = lastUse }
        if let isPinned { entries[Int(slot)]?.isPinned = isPinned }
    }

    package mutating func remove(_ slot: UInt32) -> ImageEntry? {
        guard let entry = self[slot] else { return nil }
        index.remove(slot, in: entries)
        entries[Int(slot)] = nil
        free.append(slot)
        return entry
    }

    /// What is inconsistent; nil if nothing is. For tests.
    var inconsistency: String? {
        if index.slots.contains(where: { slot in self[slot].flatMap { self.slot(of: $0.key) } != slot }) {
            return "a key has the slot of another one"
        }
        if Set(free).count != free.count || free.contains(where: { self[$0] != nil }) { return "a used slot is free" }
        return entries.count == count + free.count ? nil : "a slot is lost"
    }
}
