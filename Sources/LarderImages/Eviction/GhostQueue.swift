/// The fingerprints of images that left the small queue recently, oldest first. An image that comes back was worth more
/// than it seemed.
///
/// Two keys may have the same 32 bits. One in 40,000 does among 100,000, and the only effect is that it is kept longer.
struct GhostQueue: Sendable {
    private struct Ghost: Sendable {
        let fingerprint: UInt32
        /// 0 for an entry that was removed.
        var size: UInt32
    }

    /// Smaller images count as this many bytes, the smallest space of a file on a disk, so that the number of entries is
    /// bounded too.
    private static let minSize: UInt32 = 512

    /// In order. The entries before ``start`` were removed.
    private var ghosts: [Ghost] = []
    private var start = 0
    /// The places in ``ghosts`` of those that were not removed.
    private var places: [UInt32: Int] = [:]
    private(set) var bytes = 0

    var count: Int { places.count }

    /// Adds an entry, and removes the oldest while all together have more than `maximumBytes`.
    mutating func append(_ fingerprint: UInt32, size: UInt32, maximumBytes: Int) {
        // Another key may have the same fingerprint.
        _ = take(fingerprint)
        let size = max(size, Self.minSize)
        places[fingerprint] = ghosts.count
        ghosts.append(Ghost(fingerprint: fingerprint, size: size))
        bytes += Int(size)
        while count > 0, bytes > maximumBytes {
            if ghosts[start].size > 0 { _ = take(ghosts[start].fingerprint) }
            start += 1
        }
        // At least half of the array is not removed, so that moving the rest costs constant time, amortised.
        if ghosts.count > 64, count * 2 < ghosts.count {
            ghosts.removeAll { $0.size == 0 }
            start = 0
            for (place, ghost) in ghosts.enumerated() { places[ghost.fingerprint] = place }
        }
    }

    /// Removes a fingerprint; returns whether there was one.
    mutating func take(_ fingerprint: UInt32) -> Bool {
        guard let place = places.removeValue(forKey: fingerprint) else { return false }
        bytes -= Int(ghosts[place].size)
        ghosts[place].size = 0
        return true
    }
}
