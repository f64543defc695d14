import CLinuxShims
import Glibc
public import LarderHTTPSemantics

extension HTTPDate {
    /// The time of day, for comparison with dates from outside.
    public static func now() -> HTTPDate {
        var time = timespec()
        // Cannot fail: the clock exists on every Linux and the address is ours (clock_gettime(2)).
        clock_gettime(CLOCK_REALTIME, &time)
        return HTTPDate(secondsSinceEpoch: Int64(time.tv_sec))
    }
}
