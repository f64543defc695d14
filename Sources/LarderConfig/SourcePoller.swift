import LarderUpstream

/// Asks a namespace's source again and again: at the start, at each turn of its schedule, when it signals a change, and
/// after a failure with growing distance.
struct SourcePoller: Sendable {
    let source: any ConfigSource
    let refresher: ConfigRefresher
    let store: ConfigStore
    let schedule: PollSchedule
    let clock: any Clock<Duration>
    let wallClock: WallClock

    /// A start with something to serve waits this long at most, so that hosts that boot together do not ask together.
    private static let longestSplay = Duration.seconds(5)

    /// Polls until it is cancelled.
    func run() async {
        var generator = SystemRandomNumberGenerator()
        var backoff = Backoff()
        if await store.hasRemoteDocument {
            let splay = schedule.splay(within: min(schedule.interval / 10, Self.longestSplay))
            if await !pause(splay) { return }
        }
        while !Task.isCancelled {
            let delay: Duration
            do {
                _ = try await refresher.refreshIfNeeded()
                backoff.reset()
                delay = schedule.delay(after: .milliseconds(wallClock.now), using: &generator)
            } catch {
                // Somebody else's refresh may have gone well since the last turn.
                if store.publication.status.upstream?.consecutiveFailures == 1 { backoff.reset() }
                delay =
                    source.reconnects
                    ? schedule.delay(after: .milliseconds(wallClock.now), using: &generator)
                    : backoff.next(retryAfter: error.retryAfter, using: &generator)
            }
            if await !pause(delay) { return }
        }
    }

    /// Asks after each signal, until it is cancelled.
    func follow(_ changes: AsyncStream<Void>) async {
        // A failure is in the status and the log already.
        for await _ in changes { _ = try? await refresher.refreshAfterChange() }
    }

    private func pause(_ delay: Duration) async -> Bool {
        await store.nextAttempt(at: wallClock.now + delay.milliseconds)
        do {
            try await clock.sleep(for: delay)
            return !Task.isCancelled
        } catch {
            return false
        }
    }
}
