/// The fingerprints of images that went not long ago, oldest first: who comes back soon was worth more than it seemed.
///
/// Two keys may have the same 32 bits. One in 40,000 does among 100,000, and all that follows is that it is kept longer.
struct GhostQueue: Sendable {
    private struct Ghost: Sendable {
        let fingerprint: UInt32
        let size: UInt32
    }

    /// From ``start`` on, in order; what is before is gone.
    private var ghosts: [Ghost] = []
    private var start = 0
    private var counts: [UInt32: UInt32] = [:]
    private(set) var bytes = 0

    var count: Int { ghosts.count - start }

    /// Adds one, and forgets the oldest while there are too many.
    mutating func append(_ fingerprint: UInt32, size: UInt32, maximumBytes: Int, maximumCount: Int) {
        ghosts.append(Ghost(fingerprint: fingerprint, size: size))
        counts[fingerprint, default: 0] += 1
        bytes += Int(size)
        while count > 0, bytes > maximumBytes || count > maximumCount {
            let oldest = ghosts[start]
            start += 1
            bytes -= Int(oldest.size)
            // One that came back has no count any more.
            guard let left = counts[oldest.fingerprint] else { continue }
            counts[oldest.fingerprint] = left > 1 ? left - 1 : nil
        }
        // Half of the array at the most is of the past, so that moving it costs constant time in the mean.
        if start > 64, start * 2 > ghosts.count {
            ghosts.removeFirst(start)
            start = 0
        }
    }

    /// Whether one is known, which it is no more afterwards.
    mutating func take(_ fingerprint: UInt32) -> Bool { counts.removeValue(forKey: fingerprint) != nil }
}
