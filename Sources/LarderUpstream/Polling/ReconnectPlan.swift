internal import LarderEncoding

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
