extension Clock where Duration == Swift.Duration {
    /// Starts a measurement. The returned function returns the time elapsed since this call.
    package func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }

    /// Starts a measurement. The returned function waits until the given time has elapsed since this call. It throws if
    /// the task is cancelled.
    package func alarm() -> @Sendable (_ elapsed: Duration) async throws -> Void {
        let start = now
        return { try await sleep(until: start.advanced(by: $0), tolerance: nil) }
    }
}
