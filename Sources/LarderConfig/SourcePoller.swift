import LarderUpstream

/// Asks a namespace's source again and again, when its ``PollPlan`` says: at the start, at each turn of its schedule, and
/// after a failure; and when the source signals a change.
struct SourcePoller: Sendable {
    let source: any ConfigSource
    let refresher: ConfigRefresher
    let store: ConfigStore
    let schedule: PollSchedule
    let clock: any Clock<Duration>
    let wallClock: WallClock
    let generator: any RandomNumberGenerator & Sendable

    /// Polls until it is cancelled.
    ///
    /// - Parameter isReconfigured: whether other settings, and not a start, are why it begins
    func run(isReconfigured: Bool = false) async {
        var generator = generator
        var plan = PollPlan(schedule)
        var event = isReconfigured ? .reconfigured : PollPlan.Event.started(holding: await store.hasRemoteDocument)
        while await pause(plan.delay(after: event, at: .milliseconds(wallClock.now), using: &generator)) {
            do {
                _ = try await refresher.refreshIfNeeded()
                event = .answered
            } catch {
                // Somebody else's refresh may have gone well since the last turn.
                if store.publication.status.upstream?.consecutiveFailures == 1 { plan.forgetFailures() }
                event =
                    source.reconnects
                    ? .unanswered
                    : .failed(holding: await store.hasRemoteDocument, retryAfter: error.retryAfter)
            }
        }
    }

    /// Asks after each signal, until it is cancelled.
    func follow(_ changes: AsyncStream<Void>) async {
        // A failure is in the status and the log already.
        for await _ in changes { _ = try? await refresher.refreshAfterChange() }
    }

    /// - Returns: whether to go on
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
