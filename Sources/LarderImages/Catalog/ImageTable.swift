internal import LarderHTTPSemantics

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

    /// All slots, in the order of the last use of their images. Slots are sorted instead of entries because they are
    /// smaller.
    var slotsByLastUse: [UInt32] {
        (0..<slotCount).sorted { (self[$0]?.lastUse ?? 0) < (self[$1]?.lastUse ?? 0) }
    }

    package func slot(of key: ImageKey) -> UInt32? {
        index.slot(key.high) { slot in entries[Int(slot)]?.key == key }
    }

    /// The slot of a key's image. Nil if the key has no image, if the image is too old, or if `expected` is not nil and
    /// differs from the digest of the image.
    func slot(of key: ImageKey, _ expected: BlobDigest?, _ now: Int, maximumAge: Int?) -> UInt32? {
        guard let slot = slot(of: key), let entry = self[slot], !entry.isTooOld(now, maximumAge: maximumAge),
            expected == nil || expected == entry.digest
        else { return nil }
        return slot
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

    /// Changes whether an image is pinned.
    package mutating func update(_ slot: UInt32, isPinned: Bool) {
        if Int(slot) < entries.count { entries[Int(slot)]?.isPinned = isPinned }
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

/// Finds the slot of an image by the hash of its key: a hash table of slots with linear probing. A slot takes four bytes,
/// while a dictionary would also store the key, which is in the table of images.
struct SlotIndex: Sendable {
    private static let none = UInt32.max
    private static let minCapacity = 16

    /// A power of two, at most three quarters full.
    private var places: [UInt32]
    private(set) var count = 0
    /// Random and odd, so that a client cannot choose URLs whose images have the same place.
    private let multiplier = UInt64.random(in: .min ... .max) | 1

    /// - Parameter capacity: the number of slots for which to allocate memory
    init(capacity: Int = 0) {
        var size = Self.minCapacity
        while size / 4 * 3 < capacity { size *= 2 }
        places = Array(repeating: Self.none, count: size)
    }

    /// The hash of the key of a slot. A key is a part of a SHA-256, so its bits are uniformly distributed.
    private static func hash(_ slot: UInt32, _ entries: [ImageEntry?]) -> UInt64 { entries[Int(slot)]?.key.high ?? 0 }

    private var mask: Int { places.count - 1 }

    /// The first place for a hash: the highest bits of a product, as many as an index of ``places`` has.
    private func home(_ hash: UInt64) -> Int {
        Int((hash &* multiplier) >> UInt64(places.count.leadingZeroBitCount + 1))
    }

    /// The slot for a hash; nil if there is none.
    ///
    /// - Parameter isMatch: whether a slot has the key
    func slot(_ hash: UInt64, where isMatch: (UInt32) -> Bool) -> UInt32? {
        place(hash, where: isMatch).map { places[$0] }
    }

    private func place(_ hash: UInt64, where isMatch: (UInt32) -> Bool) -> Int? {
        var place = home(hash)
        while places[place] != Self.none {
            if isMatch(places[place]) { return place }
            place = (place + 1) & mask
        }
        return nil
    }

    /// Adds a slot whose key no other slot has.
    ///
    /// - Parameter entries: the entries of all slots
    mutating func insert(_ slot: UInt32, in entries: [ImageEntry?]) {
        if count >= places.count / 4 * 3 {
            let old = places
            places = Array(repeating: Self.none, count: old.count * 2)
            for slot in old where slot != Self.none { put(slot, Self.hash(slot, entries)) }
        }
        put(slot, Self.hash(slot, entries))
        count += 1
    }

    private mutating func put(_ slot: UInt32, _ hash: UInt64) {
        var place = home(hash)
        while places[place] != Self.none { place = (place + 1) & mask }
        places[place] = slot
    }

    /// Removes a slot. The entry of the slot must still exist.
    mutating func remove(_ slot: UInt32, in entries: [ImageEntry?]) {
        guard var hole = place(Self.hash(slot, entries), where: { $0 == slot }) else { return }
        // Moves each later slot of the run into the hole, unless its place would then precede its hash.
        var next = (hole + 1) & mask
        while places[next] != Self.none {
            let home = home(Self.hash(places[next], entries))
            if (next - home) & mask >= (next - hole) & mask {
                places[hole] = places[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        places[hole] = Self.none
        count -= 1
    }

    /// All slots, for tests.
    var slots: [UInt32] { places.filter { $0 != Self.none } }
}

extension ImageEntry {
    /// Whether an image is older than the settings allow. Pinned images never are.
    ///
    /// - Parameter maximumAge: in seconds; nil for no limit
    func isTooOld(_ now: Int, maximumAge: Int?) -> Bool {
        guard let maximumAge, !isPinned else { return false }
        return now - freshness.responseTime > maximumAge
    }
}
