internal import CSystemd
import Glibc

/// Tells the service manager how this service is doing (`sd_notify(3)`).
///
/// Every method returns whether the message was sent: `false` if the process runs without `NOTIFY_SOCKET`, which is not a
/// failure. Each throws ``SystemdError`` with `notificationFailed` if there is a socket and the message cannot be put into
/// it, also because it is full (`EAGAIN`): messages are single datagrams, and no call waits for the manager.
package struct ServiceNotifier: Sendable {
    /// A notifier for this process. The environment is read at each call, and left as it is.
    package init() {}

    /// Whether there is somebody to be told: whether `NOTIFY_SOCKET` is set.
    package static var isHeard: Bool { getenv("NOTIFY_SOCKET") != nil }

    /// `READY=1`: start-up, or a reload that ``reloading()`` announced, is over.
    ///
    /// - Parameter status: The new status line, in the same message.
    @discardableResult
    package func ready(status: String? = nil) throws(SystemdError) -> Bool {
        try send("READY=1", status: status)
    }

    /// `STATUS=`: one line for `systemctl status`. Line breaks in it become spaces.
    @discardableResult
    package func status(_ status: String) throws(SystemdError) -> Bool {
        try send(nil, status: status)
    }

    /// `RELOADING=1` with `MONOTONIC_USEC=`: the settings are being read again. ``ready(status:)`` must follow.
    ///
    /// The time is what `Type=notify-reload` (systemd 253 and later) needs; older managers ignore it.
    @discardableResult
    package func reloading() throws(SystemdError) -> Bool {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return try send("RELOADING=1\nMONOTONIC_USEC=\(now.tv_sec * 1_000_000 + now.tv_nsec / 1000)", status: nil)
    }

    /// `STOPPING=1`: shutdown has begun.
    ///
    /// - Parameter status: The new status line, in the same message.
    @discardableResult
    package func stopping(status: String? = nil) throws(SystemdError) -> Bool {
        try send("STOPPING=1", status: status)
    }

    /// `WATCHDOG=1`: still alive. Due more often than once every ``Watchdog/interval``.
    @discardableResult
    package func watchdog() throws(SystemdError) -> Bool {
        try send("WATCHDOG=1", status: nil)
    }

    private func send(_ assignments: String?, status: String?) throws(SystemdError) -> Bool {
        var lines = assignments.map { [$0] } ?? []
        if let status {
            // A line break would begin the next assignment: a status line must not be able to say STOPPING=1.
            let line = status.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? " " : String($0) }
            lines.append("STATUS=\(line.joined())")
        }
        guard let path = getenv("NOTIFY_SOCKET") else { return false }
        let failure = NotificationSocket.send(lines.joined(separator: "\n"), to: String(cString: path))
        guard failure == 0 else {
            throw SystemdError(
                .notificationFailed,
                "the service manager could not be told \(lines.first ?? ""); check NOTIFY_SOCKET and NotifyAccess=",
                systemError: failure)
        }
        return true
    }
}

/// The service manager's watchdog (`WatchdogSec=` of the unit).
package enum Watchdog {
    /// The time within which each ``ServiceNotifier/watchdog()`` must follow the one before, or the manager kills the
    /// service; `nil` when it does not watch this process (`sd_watchdog_enabled(3)`).
    ///
    /// Send twice as often. `nil` also when `WATCHDOG_USEC` is malformed: no manager that watches writes it so.
    package static var interval: Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
        return .microseconds(Int64(clamping: microseconds))
    }
}
