internal import LarderHTTPSemantics

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
