extension Duration {
    /// The duration in seconds, without the fraction. Values outside the range of `Int` are clamped.
    package var wholeSeconds: Int { Int(clamping: components.seconds) }

    /// The duration in seconds, with the fraction.
    package var seconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }

    /// The time of an attempt after this delay: `in 35 ms`, or `at once` for less than half a millisecond.
    package var attemptText: String { self < .microseconds(500) ? "at once" : "in \(shortText)" }

    /// The duration for messages, rounded: `35 ms`, `1.2 s` or `90 s`.
    package var shortText: String {
        if self >= .seconds(10) { return "\(wholeSeconds) s" }
        let milliseconds = Int((max(seconds, 0) * 1000).rounded())
        if milliseconds < 1000 { return "\(milliseconds) ms" }
        let tenths = Int((seconds * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
    }
}
