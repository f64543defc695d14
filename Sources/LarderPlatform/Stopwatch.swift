extension Clock where Duration == Swift.Duration {
    /// Starts a measurement. The returned function returns the time elapsed since this call.
    package func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
