internal import LarderEncoding

/// When a host polls its origin: once per interval, at its own offset.
///
/// Hosts that start together, after a deployment or a power cut, must not poll together. Each host has a phase within
/// the interval that is derived from a seed and never changes. The load on the origin is therefore even, and the polls
/// of a host are easy to find in the origin's log. A small jitter separates hosts with similar phases.
package struct PollSchedule: Sendable, Hashable {
    /// The average time between two polls.
    package let interval: Duration
    /// The offset of this host's polls within the interval, counted from 1970-01-01T00:00:00Z.
    package let phase: Duration
    /// The maximum deviation of a poll from its time, in either direction; at most a quarter of the interval.
    package let jitter: Duration
    /// The time over which hosts without a document spread their first requests.
    let firstFetchWindow: Duration
    private let seed: String

    /// - Parameters:
    ///   - interval: the time between polls; clamped to between 1 ms and 366 days
    ///   - seed: identifies this host and source, such as the machine ID and the URL
    ///   - jitter: the maximum deviation as a fraction of the interval, from 0 to 0.25
    ///   - firstFetchWindow: the time over which hosts without a document spread their first requests
    package init(interval: Duration, seed: String, jitter: Double = 0.05, firstFetchWindow: Duration = .zero) {
        let interval = min(max(interval, .milliseconds(1)), .seconds(366 * 86_400))
        self.interval = interval
        self.seed = seed
        self.firstFetchWindow = firstFetchWindow
        phase = StableHash.share(of: interval, for: seed)
        self.jitter = interval * min(max(jitter, 0), 0.25)
    }

    /// Returns the time to wait until the next poll.
    ///
    /// Each host has its own fixed poll times, one interval apart. The next poll is at the first of these that is more
    /// than half an interval away, plus jitter. Without this minimum distance, a host that polled early because of the
    /// jitter could poll again at the time for which that poll was scheduled. The wait is between 0.25 and 1.75
    /// intervals, and one interval on average.
    ///
    /// - Parameters:
    ///   - now: the wall-clock time since 1970-01-01T00:00:00Z
    ///   - generator: the source of random numbers
    package func delay(after now: Duration, using generator: inout some RandomNumberGenerator) -> Duration {
        let now = now.wholeNanoseconds
        let moment = next(after: now + interval.wholeNanoseconds / 2)
        let deviation = Duration.random(from: .zero - jitter, to: jitter, using: &generator)
        return .nanoseconds(moment - now) + deviation
    }

    /// Returns the time to wait until this host's first scheduled time that is at least `earliest` away. The jitter
    /// only lengthens this wait.
    ///
    /// - Parameters:
    ///   - now: the wall-clock time since 1970-01-01T00:00:00Z
    ///   - earliest: the shortest wait
    ///   - generator: the source of random numbers
    package func delay(
        after now: Duration, notBefore earliest: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let moment = next(after: now.wholeNanoseconds + earliest.wholeNanoseconds)
        return .nanoseconds(moment - now.wholeNanoseconds) + .random(from: .zero, to: jitter, using: &generator)
    }

    /// Returns this host's first scheduled time after `time`, in nanoseconds since 1970.
    private func next(after time: Int64) -> Int64 {
        let step = interval.wholeNanoseconds
        let past = (time - phase.wholeNanoseconds) % step
        return time - (past < 0 ? past + step : past) + step
    }

    /// Returns this host's schedule with another interval. The new phase is independent of the current one, so hosts
    /// with similar phases, such as those affected by one outage, are spread out in the new schedule.
    func with(interval: Duration) -> PollSchedule {
        PollSchedule(
            interval: interval, seed: "turn\u{0}" + seed, jitter: jitter / self.interval,
            firstFetchWindow: firstFetchWindow)
    }

    /// Returns how long a host waits before it connects to a source that keeps its connection open. For other sources,
    /// returns the wait before the first request of a host without a document, and before the first request after a
    /// change of the settings. The wait is the same at every start.
    ///
    /// With a document, the host waits for up to a third of the interval, at most 100 s. Hosts with intervals of up to
    /// five minutes that boot together therefore put at most three times their usual polling load on the source. If only
    /// the agent was restarted, as for an upgrade, the host waits for up to a tenth of the interval, but a window of at
    /// least 5 s and at most 30 s: readers then see outdated values for a shorter time. Without a document, it waits within ``firstFetchWindow``. After a change of the settings, it waits for up to a
    /// tenth of the interval, at most 5 s.
    ///
    /// - Parameter event: why the host connects
    package func connectionDelay(after event: PollPlan.Event) -> Duration {
        switch event {
        case .started(holding: false): splay(within: firstFetchWindow)
        case .started(holding: true): splay(within: min(interval / 3, Self.maxConnectionSplay))
        case .restarted: splay(within: min(max(interval / 10, Self.minRestartSplay), Self.maxRestartSplay))
        case .reconfigured: splay(within: min(interval / 10, Self.maxSplay))
        default: .zero
        }
    }

    private static let maxConnectionSplay = Duration.seconds(100)
    private static let minRestartSplay = Duration.seconds(5)
    private static let maxRestartSplay = Duration.seconds(30)
    /// The maximum wait after a change of the settings. It is short, because an operator waits for the effect.
    static let maxSplay = Duration.seconds(5)

    /// Returns the wait of this host before a request that is not scheduled: a fraction of `window` that is the same at
    /// every start.
    package func splay(within window: Duration) -> Duration {
        StableHash.share(of: window, for: "splay\u{0}" + seed)
    }
}

/// Derives a fraction of a duration from a text. The fraction is the same in every process, on every host and in every
/// version.
enum StableHash {
    /// A 64-bit hash. The upper bits of FNV-1a are weak for short texts that differ in the last byte, such as host
    /// names, so the finalizer of SplitMix64 (Steele, Lea, Flood 2014) is applied to mix the bits.
    static func mixed(_ text: String) -> UInt64 {
        var fnv1a = FNV1a()
        fnv1a.add(text.utf8)
        var hash = fnv1a.value
        hash = (hash ^ (hash >> 30)) &* 0xbf58_476d_1ce4_e5b9
        hash = (hash ^ (hash >> 27)) &* 0x94d0_49bb_1331_11eb
        return hash ^ (hash >> 31)
    }

    /// Returns `span` × `mixed(text)` / 2^64.
    static func share(of span: Duration, for text: String) -> Duration {
        let nanoseconds = UInt64(max(0, span.wholeNanoseconds))
        return .nanoseconds(Int64(mixed(text).multipliedFullWidth(by: nanoseconds).high))
    }
}

extension Duration {
    /// A uniformly distributed duration between two bounds, both included, in whole nanoseconds.
    package static func random(
        from lower: Duration, to upper: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let (lower, upper) = (lower.wholeNanoseconds, upper.wholeNanoseconds)
        return .nanoseconds(Int64.random(in: lower...max(lower, upper), using: &generator))
    }
}
