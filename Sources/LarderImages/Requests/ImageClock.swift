internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream

/// The time and waits, which tests replace.
package struct ImageClock: Sendable {
    private let reading: @Sendable () -> Int
    private let waiting: @Sendable (Duration) async throws -> Void

    /// Makes a clock.
    ///
    /// - Parameters:
    ///   - now: the seconds since 1970-01-01T00:00:00Z
    ///   - sleep: returns when the duration has passed, and throws when its task is cancelled
    package init(now: @escaping @Sendable () -> Int, sleep: @escaping @Sendable (Duration) async throws -> Void) {
        reading = now
        waiting = sleep
    }

    /// The time of day of the system, and waits by the continuous clock.
    package static let system = ImageClock(
        now: { WallClock.system.now / 1000 },
        sleep: { try await Task.sleep(for: $0, clock: .continuous) })

    /// The seconds since 1970-01-01T00:00:00Z.
    package var now: Int { reading() }

    /// Waits, and throws if the task is cancelled.
    package func sleep(for duration: Duration) async throws { try await waiting(duration) }
}
