import LarderConfigModel
import LarderConfigSources
import LarderEncoding
import LarderPlatform
import LarderUpstream

/// Polls a namespace's source at the times of its ``PollPlan``: after the start, on its schedule and after failures. A
/// source with long polls is polled again as soon as it has responded. What the source delivers on its own is passed to
/// the refresh service.
struct SourcePoller: Sendable {
    let source: any ConfigSource
    let refresher: ConfigRefreshService
    let store: ConfigStore
    let schedule: PollSchedule
    let clock: any Clock<Duration>
    let wallClock: WallClock
    let generator: any RandomNumberGenerator & Sendable

    /// Polls, and passes on what the source delivers, until the task is cancelled.
    /// - Parameter start: the reason of the first poll
    func run(after start: PollPlan.Event) async {
        // A source that delivers documents over a connection connects only after this delay. As with first polls, the
        // delay spreads the connections of many hosts over time. The source is followed before the first poll, so that
        // a poll ends the delay and uses the same connection.
        let documents = source.documents(after: source.reconnects ? schedule.connectionDelay(after: start) : .zero) {
            await store.validator(ofSource: source.identity)
        }
        await withTaskGroup { group in
            if let documents { group.addTask { await refresher.follow(documents) } }
            group.addTask { await self.poll(after: start) }
        }
    }

    private func poll(after start: PollPlan.Event) async {
        var generator = generator
        var plan = PollPlan(schedule)
        var event = start
        var isAwaiting = false
        // Whether the last long poll ended so early that the next one has to wait for the schedule.
        var isImpatient = false
        while await pause(plan.delay(after: event, at: .milliseconds(wallClock.now), using: &generator)) {
            do {
                if isAwaiting {
                    let (next, isEarly) = try await awaitChange()
                    event = next
                    if event == .waitEnded {
                        // An ordinary poll shows whether the source works. Only its failure counts.
                        isAwaiting = false
                        isImpatient = isEarly
                    }
                } else {
                    _ = try await refresher.refreshIfNeeded()
                    isAwaiting = source.longPollWait != nil
                    event = isAwaiting && !isImpatient ? .waited : .answered
                    isImpatient = false
                }
            } catch {
                // Another command has cancelled the long poll. The cancellation is not a failure.
                if isAwaiting, error.code == .cancelled {
                    event = .waited
                    continue
                }
                isAwaiting = false
                isImpatient = false
                // If the status counts only one consecutive failure, a refresh by another caller may have succeeded
                // since the previous failed poll. Earlier failures then no longer increase the delay.
                if store.publication.status.source?.consecutiveFailures == 1 { plan.forgetFailures() }
                event =
                    source.reconnects
                    ? .unanswered
                    : .failed(holding: await store.hasRemoteDocument, retryAfter: error.retryAfter)
            }
        }
    }

    /// Sends one long poll.
    /// - Returns: `isEarly`: whether the long poll lasted less than half of its wait and half of the interval. If a
    ///   load balancer ends all long polls so early, they must not cause many more requests than polls would.
    private func awaitChange() async throws(ConfigError) -> (event: PollPlan.Event, isEarly: Bool) {
        let wait = source.longPollWait ?? .zero
        await store.nextAttempt(at: nil)
        let elapsed = clock.stopwatch()
        let outcome = try await refresher.awaitChange()
        let duration = elapsed()
        let isEarly = duration < min(wait, schedule.interval) / 2
        if outcome.hasOnlyWaited { return (.waitEnded, isEarly) }
        if duration >= wait / 2 { return (.waited, isEarly) }
        return (outcome.commit.layerChanged ? .changedEarly : .answered, isEarly)
    }

    /// - Returns: false if the task was cancelled
    private func pause(_ delay: Duration) async -> Bool {
        if delay == .zero { return !Task.isCancelled }
        await store.nextAttempt(at: wallClock.now + delay.milliseconds)
        do {
            try await clock.sleep(for: delay)
            return !Task.isCancelled
        } catch {
            return false
        }
    }
}
