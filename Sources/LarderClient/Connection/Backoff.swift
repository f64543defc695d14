/// How long to wait before the next attempt to connect: exponential with full jitter, so that many clients that lost
/// the same agent do not come back in step.
///
/// The delay before attempt *n* (0 for the first) is a random part of `min(cap, base · 2ⁿ)`.
public struct Backoff: Sendable {
    /// The upper bound of the first delay.
    public var base: Duration
    /// The upper bound of every delay.
    public var cap: Duration
    /// Draws a number from 0 to 1. Tests put their own here.
    public var fraction: @Sendable () -> Double

    /// Makes a backoff.
    public init(
        base: Duration = .milliseconds(50), cap: Duration = .seconds(10),
        fraction: @escaping @Sendable () -> Double = { .random(in: 0...1) }
    ) {
        self.base = base
        self.cap = cap
        self.fraction = fraction
    }

    /// The delay before an attempt.
    /// - Parameter attempt: how many attempts failed before.
    public func delay(beforeAttempt attempt: Int) -> Duration {
        // 2³² times any sensible base is over any sensible cap; more would overflow.
        min(cap, base * (1 << min(attempt, 32))) * min(max(fraction(), 0), 1)
    }
}

extension Clock where Duration == Swift.Duration {
    /// Starts to measure; the answer tells the time since then.
    func stopwatch() -> () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
