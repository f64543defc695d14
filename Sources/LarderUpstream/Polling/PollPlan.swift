/// When a host asks its origin next: told what happened and when, it says how long to wait. It has no clock, no network
/// and no chance of its own, so that a simulation drives the same code as the agent.
///
/// A host asks at its own moments (``PollSchedule``), in bad times as in good ones, because they are spread evenly: what
/// befalls all hosts in the same second never makes them ask in the same second. The only requests at other moments are
/// the first one of a host that has nothing to serve, which is spread over a short window, one early repetition after a first
/// failure, which is spread over half an interval, and those of people. So after whatever outage an origin gets at most twice its usual load, and
/// after a long one no more than usual. Hosts whose interval is longer than ten minutes take ten minutes for it at a start
/// and after failures: all of them together are no load by then, and their people want to know sooner.
package struct PollPlan: Sendable, Hashable {
    /// What happened just now.
    package enum Event: Sendable, Hashable {
        /// The agent started. `holding`: with a document from an earlier life to serve.
        case started(holding: Bool)
        /// Other settings were taken over.
        case reconfigured
        /// The origin gave a usable answer.
        case answered
        /// A long poll ended after the time that it may take, or gave way to another question: the next one follows.
        case waited
        /// A long poll brought another document at once. The source may always have another one.
        case changedAtOnce
        /// It did not. `holding`: an older document goes on being served. `retryAfter`: what the origin asked for.
        case failed(holding: Bool, retryAfter: Duration?)
        /// It did not, and its source keeps a connection, which it restores by itself: the poll keeps to its turns.
        case unanswered
    }

    private let schedule: PollSchedule
    /// The host's moments in bad times: the same, but no further apart than ``longestTurn``.
    private let turns: PollSchedule
    /// For a host that has nothing to serve, to which soon is more than evenly.
    private var backoff: Backoff

    /// The failures in a row so far.
    package var failures: Int { backoff.failures }

    private static let longestTurn = Duration.seconds(600)
    /// The maximum time until a poll that skips the next turns of the schedule.
    private static let longestRest = Duration.seconds(300)
    /// One more than the maximum number of skipped turns.
    private static let maxTurns = 5
    /// `Retry-After` is honoured up to this.
    private static let longestRetryAfter = Duration.seconds(3_600)
    /// A source that always has something new is not asked without end.
    private static let longestBreath = Duration.seconds(1)

    /// Makes the plan of a host that asks at the moments of a schedule.
    package init(_ schedule: PollSchedule) {
        self.schedule = schedule
        turns = schedule.interval <= Self.longestTurn ? schedule : schedule.with(interval: Self.longestTurn)
        // Hosts that a source refused while it was overloaded do not return within seconds of each other.
        backoff = Backoff(base: max(Backoff.defaultBase, schedule.firstFetchWindow))
    }

    /// Somebody else's question was answered: failures before it do not count.
    package mutating func forgetFailures() { backoff.reset() }

    /// The time to wait until the next request.
    ///
    /// - Parameters:
    ///   - now: the time of day, counted from 1970-01-01T00:00:00Z
    ///   - generator: the source of chance
    package mutating func delay(
        after event: Event, at now: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        switch event {
        case .started(holding: true):
            return turns.delay(after: now, notBefore: .zero, using: &generator)
        case .started(holding: false), .reconfigured:
            return schedule.connectionDelay(after: event)
        case .waited:
            backoff.reset()
            return .zero
        case .changedAtOnce:
            backoff.reset()
            return .random(from: .zero, to: Self.longestBreath, using: &generator)
        case .answered, .unanswered:
            backoff.reset()
            return schedule.delay(after: now, using: &generator)
        case .failed(let holding, let retryAfter):
            let jittered = backoff.next(using: &generator)
            if let retryAfter, retryAfter > .zero {
                // Hosts that were told the same end of a maintenance come at their own moments after it.
                return turns.delay(
                    after: now, notBefore: min(retryAfter, Self.longestRetryAfter), using: &generator)
            }
            return holding ? rest(after: now, using: &generator) : jittered
        }
    }

    /// The wait of a host that has something to serve.
    private func rest(after now: Duration, using generator: inout some RandomNumberGenerator) -> Duration {
        if failures == 1 { return .random(from: turns.interval / 10, to: turns.interval / 2, using: &generator) }
        let affordable = min(Self.maxTurns, Int(Self.longestRest / turns.interval))
        let leftOut = turns.interval * Int.random(in: 0..<max(1, min(affordable, failures - 1)), using: &generator)
        return leftOut + turns.delay(after: now + leftOut, using: &generator)
    }
}
