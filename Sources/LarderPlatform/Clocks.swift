import Glibc

/// The current date and time, for display and for times that are stored. The time can jump, so use a monotonic `Clock`
/// to wait, and ``Uptime`` for deadlines.
package struct WallClock: Sendable {
    private let read: @Sendable () -> Int

    /// - Parameter read: returns the milliseconds since 1970-01-01T00:00:00Z
    package init(_ read: @escaping @Sendable () -> Int) { self.read = read }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    package var now: Int { read() }

    /// The system's clock (clock_gettime(2), `CLOCK_REALTIME`).
    package static let system = WallClock {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int(time.tv_sec) * 1000 + Int(time.tv_nsec) / 1_000_000
    }
}

/// The time since the host started, including the time that it was suspended, for deadlines and durations.
package enum Uptime {
    /// The uptime now (clock_gettime(2), `CLOCK_BOOTTIME`).
    package static var now: Duration {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}

extension Clock where Duration == Swift.Duration {
    /// Starts a measurement. The returned function returns the time elapsed since this call.
    package func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }

    /// Starts a measurement. The returned function waits until the given time has elapsed since this call. It throws if
    /// the task is cancelled.
    package func alarm() -> @Sendable (_ elapsed: Duration) async throws -> Void {
        let start = now
        return { try await sleep(until: start.advanced(by: $0), tolerance: nil) }
    }
}
