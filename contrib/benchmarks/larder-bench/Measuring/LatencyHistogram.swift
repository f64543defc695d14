/// Counts durations in log-linear buckets, 128 for each power of two. A value that is read back differs by less than
/// 0.8 % from the recorded one. The range is one nanosecond to 18 minutes.
struct LatencyHistogram: Sendable {
    private static let precisionBits = 7
    private static let maxBits = 40
    private var counts = [UInt64](
        repeating: 0, count: (maxBits - precisionBits + 1) << precisionBits)
    /// The number of recorded durations.
    private(set) var count: UInt64 = 0
    /// The longest recorded duration in nanoseconds, exactly.
    private(set) var maximum: UInt64 = 0

    /// Records a duration `occurrences` times.
    @inline(__always)
    mutating func record(_ nanoseconds: UInt64, occurrences: Int = 1) {
        counts[Self.bucket(of: nanoseconds)] &+= UInt64(occurrences)
        count &+= UInt64(occurrences)
        if nanoseconds > maximum { maximum = nanoseconds }
    }

    /// Adds the counts of another histogram.
    mutating func add(_ other: LatencyHistogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        count += other.count
        maximum = max(maximum, other.maximum)
    }

    /// Returns the duration in nanoseconds that `percent` percent of the recorded durations do not exceed; 0 if none
    /// was recorded.
    func percentile(_ percent: Double) -> UInt64 {
        let rank = max(1, UInt64((Double(count) * percent / 100).rounded(.up)))
        var passed: UInt64 = 0
        for (index, occurrences) in counts.enumerated() {
            passed += occurrences
            if passed >= rank { return min(Self.upperBound(of: index), maximum) }
        }
        return maximum
    }

    /// Durations below 2^7 have a bucket each. Above, the highest bit selects a group and the next seven bits the
    /// bucket.
    @inline(__always)
    private static func bucket(of nanoseconds: UInt64) -> Int {
        let value = min(nanoseconds, (1 << UInt64(maxBits)) - 1)
        let highestBit = UInt64.bitWidth - 1 - (value | 1).leadingZeroBitCount
        let shift = max(0, highestBit - precisionBits)
        return shift << precisionBits + Int(value >> UInt64(shift))
    }

    /// The longest duration of a bucket.
    private static func upperBound(of bucket: Int) -> UInt64 {
        let buckets = 1 << precisionBits
        guard bucket >= buckets * 2 else { return UInt64(bucket) }
        let shift = bucket / buckets - 1
        let value = UInt64(bucket - shift * buckets)
        return ((value + 1) << UInt64(shift)) - 1
    }
}
