/// Decides when a host sends reports about itself to a receiver. It has no clock, network or random numbers of its own, so
/// a simulation runs the same code as the agent.
///
/// A host reports once per interval, at its own times (``PollSchedule``), and after a change, at its own place within a
/// window, so that a change that reaches all hosts in the same second does not make them report in the same second. At
/// most one report is in flight, and reports begin at least ``minPause`` apart. After a failure the host reports as it
/// polls (``PollPlan``): once early, then at its own times. Changes cause no reports until one has succeeded.
package struct ReportPlan: Sendable {
    /// The minimum time between the beginnings of two reports.
    package static let minPause = Duration.seconds(30)

    private var polls: PollPlan
    /// How long after a change this host reports.
    private let place: Duration
    /// When the next report is due, as a time of the monotonic clock that the methods get; nil while one is in flight.
    package private(set) var due: Duration?
    /// The earliest beginning of the next report.
    private var earliest: Duration

    /// Makes the plan of a host that has just started, or whose settings have changed. This counts as a change.
    ///
    /// - Parameters:
    ///   - interval: the time between two reports without a change
    ///   - window: the time over which hosts spread their reports after a change
    ///   - seed: identifies this host and the receiver
    ///   - now: the time of a monotonic clock
    package init(interval: Duration, window: Duration, seed: String, startingAt now: Duration) {
        let schedule = PollSchedule(interval: interval, seed: seed, firstFetchWindow: window)
        polls = PollPlan(schedule)
        place = schedule.splay(within: window)
        earliest = now
        due = now + place
    }

    /// Whether the last report failed.
    package var isFailing: Bool { polls.failures > 0 }

    /// Whether a change now would make the next report earlier.
    package func isAwaitingChange(at now: Duration) -> Bool {
        guard let due, !isFailing else { return false }
        return due > max(now + place, earliest)
    }

    /// Records that the content of reports has changed. Has no effect while a report is in flight.
    package mutating func changed(at now: Duration) {
        if isAwaitingChange(at: now) { due = max(now + place, earliest) }
    }

    /// Records that a report begins. Its content must be collected after this call.
    package mutating func began(at now: Duration) {
        due = nil
        earliest = now + Self.minPause
    }

    /// The end of a report.
    package enum End: Sendable, Hashable {
        case accepted
        /// - retryAfter: the value of `Retry-After`; nil if the receiver sent none
        case failed(retryAfter: Duration?)
    }

    /// Records that the report in flight has ended.
    ///
    /// - Parameters:
    ///   - now: the time of the monotonic clock
    ///   - time: the wall-clock time since 1970-01-01T00:00:00Z
    ///   - generator: the source of random numbers
    package mutating func ended(
        _ end: End, at now: Duration, time: Duration, using generator: inout some RandomNumberGenerator
    ) {
        let event: PollPlan.Event =
            switch end {
            case .accepted: .answered
            // The hosts need no response, so they wait as those that have a document.
            case .failed(let retryAfter): .failed(holding: true, retryAfter: retryAfter)
            }
        due = max(now + polls.delay(after: event, at: time, using: &generator), earliest)
    }
}
