/// Decides when a host polls its origin next. It has no clock, network or random numbers of its own, so a simulation
/// runs the same code as the agent.
///
/// A host polls at its own times (``PollSchedule``), even after failures. These times are spread evenly over all hosts,
/// so an event that affects all hosts in the same second does not make them poll in the same second. Requests at other
/// times are:
///
/// - the first request of a host without a document, within a short window, and its retries, with random growing delays
///   (``Backoff``)
/// - the first request after a change of the settings, within a short window
/// - one early retry after the first failure of a host with a document, 0.1 to 0.5 intervals later
/// - long polls, which follow each other
/// - the poll after a long poll without a response, up to 0.1 intervals later
/// - refreshes by clients
///
/// Hosts that have a document therefore put at most twice the usual load on an origin after an outage, and only the
/// usual load after a long outage. If the interval is longer than ten minutes, a schedule of ten minutes applies at the
/// start and after failures. The load is negligible at such intervals, and operators expect a faster recovery.
package struct PollPlan: Sendable, Hashable {
    /// The event after which the next delay is computed.
    package enum Event: Sendable, Hashable {
        /// The agent started. `holding`: whether the agent restored a document from disk.
        case started(holding: Bool)
        /// The agent started with a document from disk on a host that has been up for longer than
        /// ``minUptimeOfRestart``.
        case restarted
        /// New settings were applied.
        case reconfigured
        /// A poll, or a long poll that ended early without a change, got a usable response.
        case answered
        /// The next long poll can begin at once: the last poll succeeded, or the last long poll lasted at least half of
        /// its wait or was cancelled for another request.
        case waited
        /// A long poll ended without a response of the source. An ordinary poll has to show whether the source works. A
        /// load balancer that restarts ends the long polls of all hosts in the same second.
        case waitEnded
        /// A long poll returned another document in less than half of its wait. The next long poll follows after a
        /// short pause, because some sources return another document every time.
        case changedEarly
        /// The request failed. `holding`: whether an older document is still served. `retryAfter`: the value of
        /// `Retry-After`.
        case failed(holding: Bool, retryAfter: Duration?)
        /// The request failed. The source keeps a connection and reconnects independently of the polls, so the polls
        /// stay on schedule.
        case unanswered
    }

    private let schedule: PollSchedule
    /// ``schedule`` with an interval of at most ``maxRetryInterval``, used at the start and after failures.
    private let retrySchedule: PollSchedule
    /// The delays of a host without a document, which retries early instead of waiting for its scheduled time.
    private var backoff: Backoff

    /// The number of consecutive failures.
    package var failures: Int { backoff.failures }

    private static let maxRetryInterval = Duration.seconds(600)
    /// After repeated failures a host skips scheduled polls. It skips a poll only if the intervals of all skipped polls
    /// and of the next poll together are at most this time.
    private static let maxPause = Duration.seconds(300)
    /// One more than the maximum number of skipped polls.
    private static let maxIntervals = 5
    /// The longest `Retry-After` that is honored.
    private static let maxRetryAfter = Duration.seconds(3_600)
    /// A start of the agent after this uptime of the host is not part of a power-up of many hosts, so streams connect
    /// sooner.
    private static let minUptimeOfRestart = Duration.seconds(600)
    /// The shortest time over which hosts spread the polls that follow ended long polls.
    private static let minConfirmationWindow = Duration.milliseconds(500)
    /// The maximum pause between long polls of a source that always has another document.
    private static let maxLongPollPause = Duration.seconds(1)

    /// Makes the plan of a host that polls on a schedule.
    package init(_ schedule: PollSchedule) {
        self.schedule = schedule
        retrySchedule =
            schedule.interval <= Self.maxRetryInterval ? schedule : schedule.with(interval: Self.maxRetryInterval)
        // An overloaded source may reject many hosts at once. These hosts must not all retry within seconds, so the
        // random delays cover at least the window of the first request.
        backoff = Backoff(base: max(Backoff.defaultBase, schedule.firstFetchWindow))
    }

    /// The event for a start of the agent.
    ///
    /// - Parameters:
    ///   - isHolding: whether the agent restored a document from disk
    ///   - uptime: the time since the host started
    package static func start(holding isHolding: Bool, uptime: Duration) -> Event {
        isHolding && uptime > minUptimeOfRestart ? .restarted : .started(holding: isHolding)
    }

    /// Resets the number of consecutive failures, because a request that this plan did not schedule has succeeded.
    package mutating func forgetFailures() { backoff.reset() }

    /// Returns the time to wait until the next request.
    ///
    /// - Parameters:
    ///   - now: the wall-clock time since 1970-01-01T00:00:00Z
    ///   - generator: the source of random numbers
    package mutating func delay(
        after event: Event, at now: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        switch event {
        case .started(holding: true), .restarted:
            return retrySchedule.delay(after: now, notBefore: .zero, using: &generator)
        case .started(holding: false), .reconfigured:
            return schedule.connectionDelay(after: event)
        case .waited:
            backoff.reset()
            return .zero
        case .waitEnded:
            return schedule.splay(within: max(schedule.interval / 10, Self.minConfirmationWindow))
        case .changedEarly:
            backoff.reset()
            return .random(from: .zero, to: Self.maxLongPollPause, using: &generator)
        case .answered, .unanswered:
            backoff.reset()
            return schedule.delay(after: now, using: &generator)
        case .failed(let holding, let retryAfter):
            let jittered = backoff.next(using: &generator)
            if let retryAfter, retryAfter > .zero {
                // Hosts that received the same `Retry-After`, such as the time until the end of a maintenance window,
                // must not poll together after that time. Each host polls at its own next scheduled time.
                return retrySchedule.delay(
                    after: now, notBefore: min(retryAfter, Self.maxRetryAfter), using: &generator)
            }
            return holding ? pause(after: now, using: &generator) : jittered
        }
    }

    /// The delay after a failure of a host that has a document.
    private func pause(after now: Duration, using generator: inout some RandomNumberGenerator) -> Duration {
        if failures == 1 {
            return .random(from: retrySchedule.interval / 10, to: retrySchedule.interval / 2, using: &generator)
        }
        let affordable = min(Self.maxIntervals, Int(Self.maxPause / retrySchedule.interval))
        let skipped =
            retrySchedule.interval * Int.random(in: 0..<max(1, min(affordable, failures - 1)), using: &generator)
        return skipped + retrySchedule.delay(after: now + skipped, using: &generator)
    }
}
