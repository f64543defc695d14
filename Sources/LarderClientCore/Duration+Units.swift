extension Duration {
    /// The duration in milliseconds, rounded up so that a positive duration never becomes 0. Values outside the range
    /// of `Int` are clamped.
    package var milliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds.magnitude < UInt64(Int.max / 2000) else { return seconds < 0 ? .min : .max }
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    /// The duration in seconds, without the fraction. Values outside the range of `Int` are clamped.
    package var wholeSeconds: Int { Int(clamping: components.seconds) }

    /// The duration in seconds, with the fraction.
    package var seconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
