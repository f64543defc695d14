internal import CSystemd

/// The service manager's watchdog (`WatchdogSec=` of the unit).
public enum Watchdog {
    /// The time within which each ``ServiceNotifier/watchdog()`` must follow the one before, or the manager kills the
    /// service; `nil` when it does not watch this process (`sd_watchdog_enabled(3)`).
    ///
    /// Send twice as often. `nil` also when `WATCHDOG_USEC` is malformed: no manager that watches writes it so.
    public static var interval: Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
        return .microseconds(Int64(clamping: microseconds))
    }
}
