internal import CSystemd
import Glibc

/// Notifies the service manager of the state of this service (`sd_notify(3)`).
///
/// Each method returns whether the message was sent. It returns false if `NOTIFY_SOCKET` is not set, which is not an
/// error. It throws `notificationFailed` if the message cannot be sent, including when the socket is full (`EAGAIN`).
/// Messages are single datagrams, and no method blocks.
package struct ServiceNotifier: Sendable {
    /// Each method reads `NOTIFY_SOCKET` from the environment, and does not change the environment.
    package init() {}

    /// Whether `NOTIFY_SOCKET` is set.
    package static var isAvailable: Bool { getenv("NOTIFY_SOCKET") != nil }

    /// `READY=1`: the start, or the reload announced by ``reloading()``, is complete.
    ///
    /// - Parameter status: a new status line, sent in the same message
    @discardableResult
    package func ready(status: String? = nil) throws(SystemdError) -> Bool {
        try send("READY=1", status: status)
    }

    /// `STATUS=`: the line that `systemctl status` shows. Control characters become spaces.
    @discardableResult
    package func status(_ status: String) throws(SystemdError) -> Bool {
        try send(nil, status: status)
    }

    /// `RELOADING=1` with `MONOTONIC_USEC=`: a reload has begun. ``ready(status:)`` must follow.
    ///
    /// `Type=notify-reload` (systemd 253 and later) requires `MONOTONIC_USEC=`; older versions ignore it.
    @discardableResult
    package func reloading() throws(SystemdError) -> Bool {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return try send("RELOADING=1\nMONOTONIC_USEC=\(now.tv_sec * 1_000_000 + now.tv_nsec / 1000)", status: nil)
    }

    /// `STOPPING=1`: shutdown has begun.
    ///
    /// - Parameter status: a new status line, sent in the same message
    @discardableResult
    package func stopping(status: String? = nil) throws(SystemdError) -> Bool {
        try send("STOPPING=1", status: status)
    }

    /// `WATCHDOG=1`: the service is alive. Must be sent at least once per ``Watchdog/interval``.
    @discardableResult
    package func watchdog() throws(SystemdError) -> Bool {
        try send("WATCHDOG=1", status: nil)
    }

    private func send(_ assignments: String?, status: String?) throws(SystemdError) -> Bool {
        var lines = assignments.map { [$0] } ?? []
        if let status {
            // A line break in the status would start another assignment, such as STOPPING=1.
            let line = status.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? " " : String($0) }
            lines.append("STATUS=\(line.joined())")
        }
        guard let path = getenv("NOTIFY_SOCKET") else { return false }
        let failure = NotificationSocket.send(lines.joined(separator: "\n"), to: String(cString: path))
        guard failure == 0 else {
            throw SystemdError(
                .notificationFailed,
                "cannot send \(lines.first ?? "") to the service manager; check NOTIFY_SOCKET and NotifyAccess=",
                systemError: failure)
        }
        return true
    }
}

/// The watchdog of the service manager (`WatchdogSec=` in the unit).
package enum Watchdog {
    /// The maximum time between two ``ServiceNotifier/watchdog()`` messages; if it passes without a message, the
    /// manager kills the service. Send a message every half interval. Nil if the watchdog is off for this process
    /// (`sd_watchdog_enabled(3)`), or if `WATCHDOG_USEC` is malformed.
    package static var interval: Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
        return .microseconds(Int64(clamping: microseconds))
    }
}
