internal import LarderHTTPSemantics

/// How long to wait after a failure: exponential growth with full jitter.
///
/// After "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): each wait is drawn evenly between a floor and a
/// ceiling that doubles with every failure in a row, so that hosts that failed together do not come back together.
package struct Backoff: Sendable, Hashable {
    /// The shortest wait.
    package let floor: Duration
    /// The ceiling after the first failure.
    package let base: Duration
    /// The highest ceiling.
    package let cap: Duration
    /// The longest `Retry-After` that is honoured.
    package let retryAfterCap: Duration
    /// The failures in a row so far.
    package private(set) var failures = 0

    /// The ceiling after the first failure unless the caller gives another one.
    package static let defaultBase = Duration.seconds(2)

    /// Makes a backoff that has seen no failure. Values that contradict each other are brought in order:
    /// 0 ≤ floor ≤ base ≤ cap ≤ 30 days.
    package init(
        floor: Duration = .milliseconds(500),
        base: Duration = defaultBase,
        cap: Duration = .seconds(300),
        retryAfterCap: Duration = .seconds(3_600)
    ) {
        self.floor = min(max(.zero, floor), RetryAfter.longest)
        self.base = min(max(self.floor, base), RetryAfter.longest)
        self.cap = min(max(self.base, cap), RetryAfter.longest)
        self.retryAfterCap = min(max(.zero, retryAfterCap), RetryAfter.longest)
    }

    /// Notes one more failure and gives the time to wait before the next attempt.
    ///
    /// `Retry-After` is a lower bound. The jitter comes on top of it and not beside it, and is as long as the wait itself:
    /// otherwise all the hosts that were told "60", or the same end of a maintenance, would return together.
    ///
    /// - Parameters:
    ///   - retryAfter: what the origin asked for
    ///   - generator: the source of chance
    package mutating func next(
        retryAfter: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let wait = min(max(.zero, retryAfter ?? .zero), retryAfterCap)
        let ceiling = max(ceiling, min(wait, cap))
        failures += 1
        return wait + Duration.random(from: floor, to: ceiling, using: &generator)
    }

    /// Forgets the failures: the next one waits as if it were the first.
    package mutating func reset() { failures = 0 }

    /// The longest wait after the next failure, without `Retry-After`.
    package var ceiling: Duration {
        var ceiling = base
        for _ in 0..<failures where ceiling < cap { ceiling *= 2 }
        return min(ceiling, cap)
    }
}
