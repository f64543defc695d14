internal import CLinuxShims
internal import CSystemd
internal import Dispatch
import Glibc
import Synchronization

/// Notifies the service manager of the state of this service (`sd_notify(3)`).
///
/// No method blocks: a thread of its own sends the messages in order, as single datagrams, and waits while the socket is
/// full. Each method returns whether the message was submitted to that thread. It returns false if `NOTIFY_SOCKET` is not
/// set, which is not an error. It throws an error with `EAGAIN` if the thread cannot be started or if too
/// many messages wait, because the manager does not read them.
package struct ServiceNotifier: Sendable {
    private let onFailure: @Sendable (SystemdError) -> Void

    /// Each method reads `NOTIFY_SOCKET` from the environment, and does not change the environment.
    ///
    /// - Parameter onFailure: called on another thread if a submitted message cannot be sent
    package init(onFailure: @escaping @Sendable (SystemdError) -> Void = { _ in }) { self.onFailure = onFailure }

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
    @discardableResult
    package func stopping() throws(SystemdError) -> Bool { try send("STOPPING=1", status: nil) }

    /// `WATCHDOG=1`: the service is alive. Must be sent at least once per ``Watchdog/interval``. At most one such
    /// message waits for a full socket, so that messages of the past do not keep a hanging service alive.
    @discardableResult
    package func watchdog() throws(SystemdError) -> Bool {
        try send("WATCHDOG=1", status: nil, isRepeated: true)
    }

    private func send(
        _ assignments: String?, status: String?, isRepeated: Bool = false
    ) throws(SystemdError) -> Bool {
        var lines = assignments.map { [$0] } ?? []
        if let status {
            // A line break in the status would start another assignment, such as STOPPING=1.
            let line = status.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? " " : String($0) }
            lines.append("STATUS=\(line.joined())")
        }
        guard Self.isAvailable else { return false }
        let (first, onFailure) = (lines.first ?? "", onFailure)
        let failure = NotificationThread.shared.submit(lines.joined(separator: "\n"), isRepeated: isRepeated) {
            onFailure(Self.error(first, $0))
        }
        guard failure == 0 else { throw Self.error(first, failure) }
        return true
    }

    private static func error(_ assignment: String, _ number: CInt) -> SystemdError {
        SystemdError(
            "cannot send \(assignment) to the service manager; check NOTIFY_SOCKET and NotifyAccess=",
            systemError: number)
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

/// Sends messages to the service manager, in the order in which they were submitted.
///
/// sd_notify(3) blocks while the socket of the manager is full, for example if the manager hangs. A thread of its own
/// therefore calls it, and the messages that wait for the thread are limited.
final class NotificationThread: Sendable {
    /// The thread of this process. It starts with the first message, and ends with the process.
    static let shared = NotificationThread()

    /// The maximum number of waiting messages.
    static let capacity = 16

    private struct Message: Sendable {
        let text: String
        /// Called with the error number if the message cannot be sent.
        let onFailure: @Sendable (CInt) -> Void
    }

    private struct State {
        var waiting: [Message] = []
        var isStarted = false
    }

    /// Any thread submits messages, and the thread that sends takes them.
    private let state = Mutex(State())
    /// Counts the waiting messages. The thread sleeps while there are none, which a `Mutex` alone cannot express.
    private let count = DispatchSemaphore(value: 0)

    private init() {}

    /// Submits a message without blocking.
    ///
    /// - Parameters:
    ///   - isRepeated: whether the message has the same effect once as twice, so that it is dropped if an equal one
    ///     waits
    ///   - onFailure: called on the thread with the error number if the message cannot be sent
    /// - Returns: 0, or the error number; `EAGAIN` if too many messages wait or the thread cannot be started
    func submit(_ text: String, isRepeated: Bool, onFailure: @escaping @Sendable (CInt) -> Void) -> CInt {
        let (failure, isWaiting) = state.withLock { state in
            if !state.isStarted {
                let failure = start()
                guard failure == 0 else { return (failure, false) }
                state.isStarted = true
            }
            if isRepeated, state.waiting.contains(where: { $0.text.utf8.elementsEqual(text.utf8) }) {
                return (0, false)
            }
            guard state.waiting.count < Self.capacity else { return (EAGAIN, false) }
            state.waiting.append(Message(text: text, onFailure: onFailure))
            return (0, true)
        }
        if isWaiting { count.signal() }
        return failure
    }

    private func start() -> CInt {
        let own = Unmanaged.passRetained(self)
        let failure = larder_start_thread(
            "notify", 0,
            { argument in
                guard let argument else { return nil }
                Unmanaged<NotificationThread>.fromOpaque(argument).takeRetainedValue().run()
            }, own.toOpaque())
        if failure != 0 { own.release() }
        return failure
    }

    private func run() -> Never {
        while true {
            count.wait()
            guard let message = state.withLock({ $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }) else {
                continue
            }
            let result = sd_notify(0, message.text)
            if result < 0 { message.onFailure(-result) }
        }
    }
}
