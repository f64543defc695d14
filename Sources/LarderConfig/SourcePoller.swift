import LarderUpstream

/// Asks a namespace's source again and again: at the start, at each turn of its schedule, when it signals a change, and
/// after a failure with growing distance. A source that takes long polls is asked anew as soon as it has answered.
struct SourcePoller: Sendable {
    let source: any ConfigSource
    let refresher: ConfigRefresher
    let store: ConfigStore
    let schedule: PollSchedule
    let clock: any Clock<Duration>
    let wallClock: WallClock

    /// A start with something to serve waits this long at most, so that hosts that boot together do not ask together.
    private static let longestSplay = Duration.seconds(5)
    /// The pause, at most, after a change that came at once: a source that always has another one is not asked without end.
    private static let longestRest = Duration.seconds(1)

    /// Polls until it is cancelled.
    func run() async {
        var generator = SystemRandomNumberGenerator()
        var backoff = Backoff()
        if await store.hasRemoteDocument, await !pause(splay) { return }
        var isAwaiting = false
        while !Task.isCancelled {
            let delay: Duration?
            do {
                if isAwaiting {
                    delay = try await awaitChange(using: &generator)
                } else {
                    _ = try await refresher.refreshIfNeeded()
                    isAwaiting = source.longPollWait != nil
                    delay = isAwaiting ? nil : scheduled(using: &generator)
                }
                backoff.reset()
            } catch {
                // A long poll that gave way to another command.
                if isAwaiting, error.code == .cancelled { continue }
                isAwaiting = false
                // Somebody else's refresh may have gone well since the last turn.
                if store.publication.status.upstream?.consecutiveFailures == 1 { backoff.reset() }
                delay =
                    source.reconnects
                    ? scheduled(using: &generator)
                    : backoff.next(retryAfter: error.retryAfter, using: &generator)
            }
            if let delay, await !pause(delay) { return }
        }
    }

    /// Asks after each signal, until it is cancelled, where the source gives any.
    func follow() async {
        // A source that connects for its signals does so when it is asked for the first time, too.
        if source.reconnects, await store.hasRemoteDocument {
            do { try await clock.sleep(for: splay) } catch { return }
        }
        guard let changes = source.changes() else { return }
        // A failure is in the status and the log already.
        for await _ in changes { _ = try? await refresher.refreshAfterChange() }
    }

    private var splay: Duration { schedule.splay(within: min(schedule.interval / 10, Self.longestSplay)) }

    /// One long poll, and the pause after it: none where the source has used its time, that of the schedule where it
    /// seems not to wait at all.
    private func awaitChange(
        using generator: inout some RandomNumberGenerator
    ) async throws(ConfigError) -> Duration? {
        let wait = source.longPollWait ?? .zero
        await store.nextAttempt(at: nil)
        let (outcome, duration) = try await measured(on: clock)
        if duration >= wait / 2 { return nil }
        if outcome.commit.layerChanged { return .random(from: .zero, to: Self.longestRest, using: &generator) }
        return scheduled(using: &generator)
    }

    private func measured(
        on clock: some Clock<Duration>
    ) async throws(ConfigError) -> (ConfigRefresher.Outcome, Duration) {
        let start = clock.now
        let outcome = try await refresher.awaitChange()
        return (outcome, start.duration(to: clock.now))
    }

    private func scheduled(using generator: inout some RandomNumberGenerator) -> Duration {
        schedule.delay(after: .milliseconds(wallClock.now), using: &generator)
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
