internal import LarderEncoding

/// When a host asks its origin: once in each interval, at a moment of its own.
///
/// Thousands of hosts that start together, after a deployment or a power cut, must not come together. Each has a phase
/// within the interval that follows from a seed and never changes, so the load on the origin is even and a host is easy
/// to find in its log; a little jitter keeps hosts apart whose phases are close.
package struct PollSchedule: Sendable, Hashable {
    /// The time from one poll to the next, on average.
    package let interval: Duration
    /// Where in the interval this host polls, counted from 1970-01-01T00:00:00Z.
    package let phase: Duration
    /// How far a poll may be from its moment, to either side; at most a quarter of the interval.
    package let jitter: Duration
    /// The time over which hosts that have nothing to serve spread their first requests.
    let firstFetchWindow: Duration
    private let seed: String

    /// Makes a schedule.
    ///
    /// - Parameters:
    ///   - interval: the time between polls; held between a millisecond and a year
    ///   - seed: what tells this host and source from all others, such as the machine id and the URL
    ///   - jitter: the largest deviation as a share of the interval, from 0 to 0.25
    ///   - firstFetchWindow: the time over which hosts that have nothing to serve spread their first requests
    package init(interval: Duration, seed: String, jitter: Double = 0.05, firstFetchWindow: Duration = .zero) {
        let interval = min(max(interval, .milliseconds(1)), .seconds(366 * 86_400))
        self.interval = interval
        self.seed = seed
        self.firstFetchWindow = firstFetchWindow
        phase = StableHash.share(of: interval, for: seed)
        self.jitter = interval * min(max(jitter, 0), 0.25)
    }

    /// The time to wait until the next poll.
    ///
    /// It aims at the first moment of this host that is more than half an interval away. Half, because a poll that came
    /// early by its jitter must not be repeated at the same moment: waits are between a quarter and one and three
    /// quarters of the interval, and one interval on average.
    ///
    /// - Parameters:
    ///   - now: the time of day, counted from 1970-01-01T00:00:00Z
    ///   - generator: the source of chance
    package func delay(after now: Duration, using generator: inout some RandomNumberGenerator) -> Duration {
        let now = now.wholeNanoseconds
        let moment = next(after: now + interval.wholeNanoseconds / 2)
        let deviation = Duration.random(from: .zero - jitter, to: jitter, using: &generator)
        return .nanoseconds(moment - now) + deviation
    }

    /// The time to wait until the first moment of this host that lies behind a wait; its jitter only adds to it.
    ///
    /// - Parameters:
    ///   - now: the time of day, counted from 1970-01-01T00:00:00Z
    ///   - earliest: the shortest wait
    ///   - generator: the source of chance
    package func delay(
        after now: Duration, notBefore earliest: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let moment = next(after: now.wholeNanoseconds + earliest.wholeNanoseconds)
        return .nanoseconds(moment - now.wholeNanoseconds) + .random(from: .zero, to: jitter, using: &generator)
    }

    /// The first moment after another one, in nanoseconds since 1970.
    private func next(after time: Int64) -> Int64 {
        let step = interval.wholeNanoseconds
        let past = (time - phase.wholeNanoseconds) % step
        return time - (past < 0 ? past + step : past) + step
    }

    /// The same host's schedule with another interval. Its phase has nothing to do with this one's: hosts whose moments
    /// here are close, as those are that an outage met, are far apart there.
    func with(interval: Duration) -> PollSchedule {
        PollSchedule(
            interval: interval, seed: "turn\u{0}" + seed, jitter: jitter / self.interval,
            firstFetchWindow: firstFetchWindow)
    }

    /// Returns how long this host waits before its first connection, if it keeps one to its source. The wait is the same at
    /// every start.
    ///
    /// A host with a document waits for up to a third of the interval: hosts that boot together put no more than three times
    /// the load of one connection and one poll per interval on their source. A host without a document waits within
    /// ``firstFetchWindow``.
    ///
    /// - Parameter event: why it connects
    package func connectionDelay(after event: PollPlan.Event) -> Duration {
        switch event {
        case .started(holding: false): splay(within: firstFetchWindow)
        case .started(holding: true): splay(within: min(interval / 3, Self.longestConnectionSplay))
        case .reconfigured: splay(within: min(interval / 10, Self.longestSplay))
        default: .zero
        }
    }

    private static let longestConnectionSplay = Duration.seconds(100)
    /// Somebody waits to see what changed settings bring.
    static let longestSplay = Duration.seconds(5)

    /// This host's share of a window: a wait before a first, unscheduled request that is the same at every start.
    package func splay(within window: Duration) -> Duration {
        StableHash.share(of: window, for: "splay\u{0}" + seed)
    }
}

/// A share of a span that depends on a text alone: it is the same in every process, on every host, in every version.
enum StableHash {
    /// 64 well mixed bits. The upper bits of FNV-1a are weak for short texts that differ in the last byte, as host names do,
    /// so the finalizer of SplitMix64 (Steele, Lea, Flood 2014) mixes them once more.
    static func mixed(_ text: String) -> UInt64 {
        var fnv1a = FNV1a()
        fnv1a.add(text.utf8)
        var hash = fnv1a.value
        hash = (hash ^ (hash >> 30)) &* 0xbf58_476d_1ce4_e5b9
        hash = (hash ^ (hash >> 27)) &* 0x94d0_49bb_1331_11eb
        return hash ^ (hash >> 31)
    }

    /// The share `mixed / 2^64` of a span.
    static func share(of span: Duration, for text: String) -> Duration {
        let nanoseconds = UInt64(max(0, span.wholeNanoseconds))
        return .nanoseconds(Int64(mixed(text).multipliedFullWidth(by: nanoseconds).high))
    }
}

extension Duration {
    /// An evenly distributed duration between two bounds, both included, to the nanosecond.
    package static func random(
        from lower: Duration, to upper: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let (lower, upper) = (lower.wholeNanoseconds, upper.wholeNanoseconds)
        return .nanoseconds(Int64.random(in: lower...max(lower, upper), using: &generator))
    }
}
