import Glibc

/// The time of day, for what is compared with dates that come from outside. Everything that waits uses the continuous
/// clock.
public enum TimeOfDay {
    /// Now, in whole seconds.
    public static func now() -> HTTPDate {
        var time = timespec()
        // Cannot fail: the clock exists on every Linux and the address is ours (clock_gettime(2)).
        clock_gettime(CLOCK_REALTIME, &time)
        return HTTPDate(secondsSinceEpoch: Int64(time.tv_sec))
    }
}
