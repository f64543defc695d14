import CLinuxShims
import Glibc
import LarderClient

extension Timestamp {
    /// The host's time, which is the agent's too: both run on the same machine.
    static var now: Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(milliseconds: time.tv_sec * 1000 + time.tv_nsec / 1_000_000)
    }
}
