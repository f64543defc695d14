import Glibc

/// The clock for measurements.
enum MonotonicClock {
    /// Nanoseconds since an arbitrary point in time (`CLOCK_MONOTONIC`). A call takes about 25 ns and does not enter
    /// the kernel.
    @inline(__always)
    static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(bitPattern: Int64(time.tv_sec)) &* 1_000_000_000 &+ UInt64(bitPattern: Int64(time.tv_nsec))
    }
}
