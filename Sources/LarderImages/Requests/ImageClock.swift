internal import LarderPlatform

/// The clock and timer of the cache. Tests replace them.
package struct ImageClock: Sendable {
    private let reading: @Sendable () -> Int
    private let uptimeReading: @Sendable () -> Int
    private let waiting: @Sendable (Duration) async throws -> Void

    /// Creates a clock.
    ///
    /// - Parameters:
    ///   - now: returns the seconds since 1970-01-01T00:00:00Z
    ///   - uptime: returns the seconds since a time before the first call, including the time that the host was suspended
    ///   - sleep: returns when the duration has passed; throws if the task is cancelled
    package init(
        now: @escaping @Sendable () -> Int, uptime: @escaping @Sendable () -> Int,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        reading = now
        uptimeReading = uptime
        waiting = sleep
    }

    /// Uses the system's time of day and the continuous clock.
    package static let system = ImageClock(
        now: { WallClock.system.now / 1000 }, uptime: { Int(Uptime.now.components.seconds) },
        sleep: { try await Task.sleep(for: $0, clock: .continuous) })

    /// The seconds since 1970-01-01T00:00:00Z, for times that are stored or displayed. The time can jump.
    package var now: Int { reading() }

    /// The seconds of uptime, for deadlines and durations. Never jumps, and is not comparable with that of another
    /// process.
    package var uptime: Int { uptimeReading() }

    /// Waits; throws if the task is cancelled.
    package func sleep(for duration: Duration) async throws { try await waiting(duration) }
}
