/// Counts durations in log-linear buckets: 128 for each power of two, so that a value read back is less than 0.8 %
/// away from what was recorded, from a nanosecond to 18 minutes, without storing single values.
struct LatencyHistogram: Sendable {
    private static let precisionBits = 7
    private static let longestBits = 40
    private var counts = [UInt64](
        repeating: 0, count: (longestBits - precisionBits + 1) << precisionBits)
    /// How many durations were recorded.
    private(set) var count: UInt64 = 0
    /// The longest of them in nanoseconds, exactly.
    private(set) var maximum: UInt64 = 0

    /// Records `occurrences` of a duration.
    @inline(__always)
    mutating func record(_ nanoseconds: UInt64, occurrences: Int = 1) {
        counts[Self.bucket(of: nanoseconds)] &+= UInt64(occurrences)
        count &+= UInt64(occurrences)
        if nanoseconds > maximum { maximum = nanoseconds }
    }

    /// Adds what another histogram counted.
    mutating func add(_ other: LatencyHistogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        count += other.count
        maximum = max(maximum, other.maximum)
    }

    /// The duration in nanoseconds that `percent` of all recorded ones do not exceed; 0 when there are none.
    func percentile(_ percent: Double) -> UInt64 {
        let rank = max(1, UInt64((Double(count) * percent / 100).rounded(.up)))
        var passed: UInt64 = 0
        for (index, occurrences) in counts.enumerated() {
            passed += occurrences
            if passed >= rank { return min(Self.upperBound(of: index), maximum) }
        }
        return maximum
    }

    /// Durations below 2^7 have a bucket each. Above, the highest bit chooses a group and the next seven the bucket.
    @inline(__always)
    private static func bucket(of nanoseconds: UInt64) -> Int {
        let value = min(nanoseconds, (1 << UInt64(longestBits)) - 1)
        let highestBit = UInt64.bitWidth - 1 - (value | 1).leadingZeroBitCount
        let shift = max(0, highestBit - precisionBits)
        return shift << precisionBits + Int(value >> UInt64(shift))
    }

    /// The largest duration that falls into a bucket.
    private static func upperBound(of bucket: Int) -> UInt64 {
        let buckets = 1 << precisionBits
        guard bucket >= buckets * 2 else { return UInt64(bucket) }
        let shift = bucket / buckets - 1
        let value = UInt64(bucket - shift * buckets)
        return ((value + 1) << UInt64(shift)) - 1
    }
}
