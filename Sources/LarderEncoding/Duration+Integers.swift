extension Duration {
    /// Whole milliseconds, rounded up. A duration that does not fit becomes the largest or smallest integer.
    package var milliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds.magnitude < UInt64(Int.max / 2000) else { return seconds < 0 ? .min : .max }
        // Division rounds towards zero, which is up for a negative duration.
        let roundedUp = attoseconds > 0 ? attoseconds + 999_999_999_999_999 : attoseconds
        return Int(seconds) * 1000 + Int(roundedUp / 1_000_000_000_000_000)
    }

    /// Whole nanoseconds, rounded towards zero. A duration over 292 years becomes the largest or smallest integer.
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carried) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        if overflow || carried { return seconds < 0 ? .min : .max }
        return sum
    }
}
