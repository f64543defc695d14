import Glibc

/// The time of day, for what people read and for times that outlive the process. Waiting is done on a monotonic `Clock`.
package struct WallClock: Sendable {
    private let read: @Sendable () -> Int

    /// Makes a clock from a function that returns milliseconds since 1970.
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
