/// The fingerprints of images that left the small queue not long ago, oldest first. An image that comes back was worth more
/// than it seemed.
///
/// Two keys may have the same 32 bits. One in 40,000 does among 100,000, and all that follows is that it is kept longer.
struct GhostQueue: Sendable {
    private struct Ghost: Sendable {
        let fingerprint: UInt32
        let size: UInt32
    }

    /// Smaller images count as this many bytes, the smallest space of a file on a disk, so that the number of entries is
    /// bounded too.
    private static let minSize: UInt32 = 512

    /// From ``start`` on, in order. The entries before it were removed.
    private var ghosts: [Ghost] = []
    private var start = 0
    private var counts: [UInt32: UInt32] = [:]
    private(set) var bytes = 0

    var count: Int { ghosts.count - start }

    /// Adds an entry, and removes the oldest while all together have more than `maximumBytes`.
    mutating func append(_ fingerprint: UInt32, size: UInt32, maximumBytes: Int) {
        let size = max(size, Self.minSize)
        ghosts.append(Ghost(fingerprint: fingerprint, size: size))
        counts[fingerprint, default: 0] += 1
        bytes += Int(size)
        while count > 0, bytes > maximumBytes {
            let oldest = ghosts[start]
            start += 1
            bytes -= Int(oldest.size)
            // An image that came back has no count any more.
            guard let left = counts[oldest.fingerprint] else { continue }
            counts[oldest.fingerprint] = left > 1 ? left - 1 : nil
        }
        // At most half of the array is before ``start``, so that moving the rest costs constant time, amortised.
        if start > 64, start * 2 > ghosts.count {
            ghosts.removeFirst(start)
            start = 0
        }
    }

    /// Forgets a fingerprint; whether it was known.
    mutating func take(_ fingerprint: UInt32) -> Bool { counts.removeValue(forKey: fingerprint) != nil }
}
