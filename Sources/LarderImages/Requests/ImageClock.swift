internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream

/// What time it is and how to wait, so that tests of minutes take none.
public struct ImageClock: Sendable {
    private let reading: @Sendable () -> Int
    private let waiting: @Sendable (Duration) async throws -> Void

    /// Makes a clock.
    ///
    /// - Parameters:
    ///   - now: the seconds since 1970-01-01T00:00:00Z
    ///   - sleep: returns when so much time has passed, and throws when its task is cancelled
    public init(now: @escaping @Sendable () -> Int, sleep: @escaping @Sendable (Duration) async throws -> Void) {
        reading = now
        waiting = sleep
    }

    /// The machine's time of day; waits go by the continuous clock, which nobody sets.
    public static let system = ImageClock(
        now: { WallClock.system.now / 1000 },
        sleep: { try await Task.sleep(for: $0, clock: .continuous) })

    /// The seconds since 1970-01-01T00:00:00Z.
    public var now: Int { reading() }

    /// Waits.
    ///
    /// - Throws: what the task's cancellation gives
    public func sleep(for duration: Duration) async throws { try await waiting(duration) }
}
