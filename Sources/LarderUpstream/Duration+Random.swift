extension Duration {
    /// Nanoseconds, held within what 64 bits can say (292 years).
    var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carried) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        if overflow || carried { return seconds < 0 ? .min : .max }
        return sum
    }

    /// An evenly distributed duration between two bounds, both included, to the nanosecond.
    public static func random(
        from lower: Duration, to upper: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let (lower, upper) = (lower.wholeNanoseconds, upper.wholeNanoseconds)
        return .nanoseconds(Int64.random(in: lower...max(lower, upper), using: &generator))
    }
}
