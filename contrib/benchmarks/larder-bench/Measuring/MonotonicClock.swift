import Glibc

/// The clock that intervals are measured with.
enum MonotonicClock {
    /// Nanoseconds since some point in the past (`CLOCK_MONOTONIC`); about 25 ns a call, without entering the kernel.
    @inline(__always)
    static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(bitPattern: Int64(time.tv_sec)) &* 1_000_000_000 &+ UInt64(bitPattern: Int64(time.tv_nsec))
    }
}
