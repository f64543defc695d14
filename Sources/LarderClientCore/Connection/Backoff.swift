/// The delays between attempts to connect: exponential with full jitter (each delay is a random part of its upper
/// bound), so that the clients of an agent that has ended do not all reconnect at the same time.
///
/// The delay before retry *n* (0 for the first) is a random fraction of `min(cap, base · 2ⁿ)`.
///
/// ```swift
/// var configuration = LarderClient.Configuration()
/// configuration.backoff = Backoff(base: .milliseconds(100), cap: .seconds(30))
/// let client = LarderClient(configuration: configuration)
/// ```
public struct Backoff: Sendable {
    /// The upper bound of the first delay.
    public var base: Duration
    /// The upper bound of every delay.
    public var cap: Duration
    /// Returns the random fraction, from 0 to 1. Tests can replace it.
    public var fraction: @Sendable () -> Double

    /// Creates a backoff.
    /// - Parameters:
    ///   - base: the upper bound of the first delay.
    ///   - cap: the upper bound of every delay.
    ///   - fraction: returns the random fraction, from 0 to 1. Other values are clamped.
    public init(
        base: Duration = .milliseconds(50), cap: Duration = .seconds(10),
        fraction: @escaping @Sendable () -> Double = { .random(in: 0...1) }
    ) {
        self.base = base
        self.cap = cap
        self.fraction = fraction
    }

    /// Returns the delay before a retry.
    ///
    /// ```swift
    /// for attempt in 0..<5 {
    ///     try await Task.sleep(for: Backoff().delay(beforeAttempt: attempt))
    ///     if (try? await client.agent.ping()) != nil { break }
    /// }
    /// ```
    /// - Parameter attempt: the index of the retry, 0 for the first. It must not be negative.
    public func delay(beforeAttempt attempt: Int) -> Duration {
        // The exponent is limited to 32, because a larger one could overflow. 2³² times any sensible base exceeds any
        // sensible cap.
        min(cap, base * (1 << min(attempt, 32))) * min(max(fraction(), 0), 1)
    }
}

extension Clock where Duration == Swift.Duration {
    /// Starts a measurement. The returned closure returns the time elapsed since this call.
    func stopwatch() -> () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
