internal import LarderHTTPSemantics

/// Decides when a host that keeps a connection to its source reconnects after the connection has ended. It has no
/// clock, network or random numbers of its own, so a simulation runs the same code as the agent.
///
/// A restart of a server or load balancer ends the connections of all hosts in the same second. Each host therefore
/// waits for its splay before it reconnects: a fraction of the window that is stable and specific to the host. If that
/// attempt fails, or if the host has never had a connection, the waits are random and grow (``Backoff``). The first of
/// these waits is random over at least the window, or the window for first requests if the host has never had a
/// connection. Therefore hosts do not all retry within seconds, even after a short outage.
package struct ReconnectPlan: Sendable, Hashable {
    /// How a connection ended.
    package enum End: Sendable, Hashable {
        /// The connection delivered a document, so the source works.
        case delivered
        /// The connection could not be opened, or ended without a document.
        case failed
    }

    /// The wait before the first attempt after a connection that delivered a document.
    package let splay: Duration
    private let window: Duration
    private var backoff: Backoff

    /// The shortest wait. It bounds the rate of attempts if a source ends every connection immediately.
    package static let minSplay = Duration.milliseconds(500)
    /// For a source with several endpoints, ``window(_:interval:hasOtherEndpoints:)`` is not reduced below this time.
    private static let minShortWindow = Duration.seconds(1)
    private static let maxDefaultWindow = Duration.seconds(30)
    /// The longest `retry:` or `Retry-After` that is honored.
    private static let maxFloor = Duration.seconds(3_600)

    /// Makes the plan of a host that has not connected yet.
    ///
    /// - Parameters:
    ///   - window: the time over which all hosts spread their first attempts
    ///   - firstFetchWindow: the time over which hosts without a document spread their first requests
    ///   - seed: identifies this host and source, such as the machine ID and the URL
    package init(window: Duration, firstFetchWindow: Duration, seed: String) {
        self.window = window
        splay = Self.minSplay + StableHash.share(of: window - Self.minSplay, for: "reconnect\u{0}" + seed)
        backoff = Self.backoff(firstFetchWindow)
    }

    /// Returns the time over which all hosts spread their first attempts to reconnect to a source.
    ///
    /// - Parameters:
    ///   - setting: the window from the settings; nil for the default
    ///   - interval: the polling interval of the source
    ///   - hasOtherEndpoints: whether the next attempt can go to another endpoint; the window is then reduced to a
    ///     tenth
    package static func window(_ setting: Duration?, interval: Duration, hasOtherEndpoints: Bool = false) -> Duration {
        let window = setting ?? min(interval / 10, maxDefaultWindow)
        return hasOtherEndpoints ? min(window, max(window / 10, minShortWindow)) : window
    }

    /// Returns the time to wait before the next attempt.
    ///
    /// - Parameters:
    ///   - end: how the last connection ended
    ///   - floor: the shortest wait that the source requested (`retry:`, `Retry-After`); splay or jitter is added to it
    ///   - generator: the source of random numbers
    package mutating func delay(
        after end: End, notBefore floor: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        switch end {
        case .delivered:
            backoff = Self.backoff(window)
            return min(max(.zero, floor ?? .zero), Self.maxFloor) + splay
        case .failed:
            return backoff.next(retryAfter: floor, using: &generator)
        }
    }

    private static func backoff(_ window: Duration) -> Backoff {
        Backoff(floor: minSplay, base: max(Backoff.defaultBase, window), retryAfterCap: maxFloor)
    }
}

/// The wait after a failure: it grows exponentially and is random over its whole range ("full jitter").
///
/// Implements "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015). Each wait is random between a floor and a
/// ceiling, and the ceiling doubles with each consecutive failure. Hosts that failed together therefore retry at
/// different times.
package struct Backoff: Sendable, Hashable {
    package let floor: Duration
    /// The ceiling after the first failure.
    package let base: Duration
    /// The highest ceiling.
    package let cap: Duration
    /// The maximum `Retry-After` that is honored.
    package let retryAfterCap: Duration
    /// The number of consecutive failures.
    package private(set) var failures = 0

    /// The default of ``base``.
    package static let defaultBase = Duration.seconds(2)

    /// Makes a backoff without failures. The parameters are clamped so that 0 ≤ floor ≤ base ≤ cap ≤ 30 days.
    package init(
        floor: Duration = .milliseconds(500),
        base: Duration = defaultBase,
        cap: Duration = .seconds(300),
        retryAfterCap: Duration = .seconds(3_600)
    ) {
        self.floor = min(max(.zero, floor), RetryAfter.maxDelay)
        self.base = min(max(self.floor, base), RetryAfter.maxDelay)
        self.cap = min(max(self.base, cap), RetryAfter.maxDelay)
        self.retryAfterCap = min(max(.zero, retryAfterCap), RetryAfter.maxDelay)
    }

    /// Records a failure and returns the time to wait before the next attempt.
    ///
    /// `Retry-After` is a lower bound, to which the jitter is added. The range of the jitter is at least as long as
    /// `Retry-After`, up to ``cap``. Otherwise all hosts that received the same value would retry together.
    ///
    /// - Parameters:
    ///   - retryAfter: the value of `Retry-After`; nil if the origin sent none
    ///   - generator: the source of random numbers
    package mutating func next(
        retryAfter: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let wait = min(max(.zero, retryAfter ?? .zero), retryAfterCap)
        let ceiling = max(ceiling, min(wait, cap))
        failures += 1
        return wait + Duration.random(from: floor, to: ceiling, using: &generator)
    }

    /// Resets the number of consecutive failures to 0.
    package mutating func reset() { failures = 0 }

    /// The maximum wait after the next failure, without `Retry-After`.
    package var ceiling: Duration {
        var ceiling = base
        for _ in 0..<failures where ceiling < cap { ceiling *= 2 }
        return min(ceiling, cap)
    }
}
