extension Duration {
    /// The duration in milliseconds, rounded up. Durations of more than 146 million years, in either direction, become
    /// `Int.max` or `Int.min`.
    package var milliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds.magnitude < UInt64(Int.max / 2000) else { return seconds < 0 ? .min : .max }
        // Integer division rounds towards zero, so it already rounds a negative duration up.
        let roundedUp = attoseconds > 0 ? attoseconds + 999_999_999_999_999 : attoseconds
        return Int(seconds) * 1000 + Int(roundedUp / 1_000_000_000_000_000)
    }

    /// The duration in nanoseconds, rounded towards zero. Durations of more than 292 years, in either direction, become
    /// `Int64.max` or `Int64.min`.
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carried) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        if overflow || carried { return seconds < 0 ? .min : .max }
        return sum
    }
}
