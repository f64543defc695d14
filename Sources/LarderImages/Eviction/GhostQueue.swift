/// Fingerprints of images that were recently evicted from the small queue, oldest first. If such an image returns, it
/// goes to the main queue.
///
/// Different keys may have the same 32-bit fingerprint. With 100,000 entries, one key in 40,000 has the fingerprint of
/// another key. The only effect of such a collision is that an image is kept longer.
struct GhostQueue: Sendable {
    private struct Ghost: Sendable {
        let fingerprint: UInt32
        /// The size of the image in bytes; 0 if the entry was removed.
        var size: UInt32
    }

    /// Smaller images count as this many bytes, which is the smallest disk space of a file. This minimum also bounds
    /// the number of entries.
    private static let minSize: UInt32 = 512

    /// In order of insertion. The entries before ``start`` were removed.
    private var ghosts: [Ghost] = []
    private var start = 0
    /// The indices in ``ghosts`` of the entries that were not removed.
    private var places: [UInt32: Int] = [:]
    private(set) var bytes = 0

    var count: Int { places.count }

    /// Adds an entry, then removes the oldest entries until the remaining ones have at most `maximumBytes` together.
    mutating func append(_ fingerprint: UInt32, size: UInt32, maximumBytes: Int) {
        // Removes an entry with this fingerprint, which may belong to a different key.
        _ = take(fingerprint)
        let size = max(size, Self.minSize)
        places[fingerprint] = ghosts.count
        ghosts.append(Ghost(fingerprint: fingerprint, size: size))
        bytes += Int(size)
        while count > 0, bytes > maximumBytes {
            if ghosts[start].size > 0 { _ = take(ghosts[start].fingerprint) }
            start += 1
        }
        // Compacts the array when more than half of its entries were removed, at constant amortised cost.
        if ghosts.count > 64, count * 2 < ghosts.count {
            ghosts.removeAll { $0.size == 0 }
            start = 0
            for (place, ghost) in ghosts.enumerated() { places[ghost.fingerprint] = place }
        }
    }

    /// Removes a fingerprint. Returns whether it was present.
    mutating func take(_ fingerprint: UInt32) -> Bool {
        guard let place = places.removeValue(forKey: fingerprint) else { return false }
        bytes -= Int(ghosts[place].size)
        ghosts[place].size = 0
        return true
    }

    /// What is inconsistent; nil if nothing is. For tests.
    var inconsistency: String? {
        let kept = ghosts.indices.filter { ghosts[$0].size > 0 }
        if kept.count != places.count { return "there are \(kept.count) ghosts and \(places.count) places" }
        if kept.contains(where: { $0 < start || places[ghosts[$0].fingerprint] != $0 }) {
            return "a ghost is at another place"
        }
        return kept.reduce(0) { $0 + Int(ghosts[$1].size) } == bytes ? nil : "the ghosts have other bytes"
    }
}
