/// Chooses which images go when room is needed.
///
/// Images are known by their slot, a small number that the index gives and uses again after the image is gone. A policy
/// only orders slots: it neither reads nor removes anything, and all that it does costs constant time, or constant time
/// in the mean over what it is told.
protocol EvictionPolicy: Sendable {
    /// How many images it orders.
    var count: Int { get }

    /// How many bytes these have.
    var bytes: Int { get }

    /// An image came.
    ///
    /// - Parameters:
    ///   - slot: a slot that holds none now
    ///   - fingerprint: some bits of a hash of the image's key, by which it is known again when it was gone
    ///   - size: its bytes
    mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int)

    /// An image was used. Nothing happens for a slot that holds none.
    mutating func touch(_ slot: UInt32)

    /// An image is gone, or its choice is taken back. Nothing happens for a slot that holds none.
    mutating func remove(_ slot: UInt32)

    /// Chooses images to remove, and forgets them.
    ///
    /// - Parameters:
    ///   - limit: how many at most, which also bounds the work of one call
    ///   - bytes: enough of them when they have so many bytes together
    ///   - isHeld: whether an image must stay for now, because it is pinned or leased; it keeps its place among the others
    mutating func nextVictims(limit: Int, bytes: Int, isHeld: (UInt32) -> Bool) -> EvictionSlice
}

/// What one slice of eviction came to.
struct EvictionSlice: Sendable, Hashable {
    /// The images to remove, the first first.
    var victims: [UInt32] = []
    /// Their bytes.
    var bytes = 0
    /// Whether there is nothing that could go: no image, or only held ones. Otherwise another slice may find more.
    var isExhausted = false
}
