extension Duration {
    /// The duration in seconds, without the fraction. Values outside the range of `Int` are clamped.
    package var wholeSeconds: Int { Int(clamping: components.seconds) }

    /// The duration in seconds, with the fraction.
    package var seconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
