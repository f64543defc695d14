import Glibc
import LarderSystemd
import TestSupport
import Testing

/// Each test runs in a process of its own, since the environment belongs to the whole process.
@Suite("telling the service manager")
struct ServiceNotifierTests {
    @Test("each message arrives at the manager's socket as it is defined")
    func messages() async {
        await #expect(processExitsWith: .success) {
            let manager = try DatagramReceiver()
            setenv("NOTIFY_SOCKET", manager.path, 1)
            let notifier = ServiceNotifier()

            try #expect(notifier.ready())
            #expect(manager.receive() == "READY=1")
            try #expect(notifier.ready(status: "serving 3 namespaces"))
            #expect(manager.receive() == "READY=1\nSTATUS=serving 3 namespaces")
            try #expect(notifier.status("idle"))
            #expect(manager.receive() == "STATUS=idle")
            try #expect(notifier.stopping(status: "draining"))
            #expect(manager.receive() == "STOPPING=1\nSTATUS=draining")
            try #expect(notifier.watchdog())
            #expect(manager.receive() == "WATCHDOG=1")
        }
    }

    @Test("a reload carries the monotonic time at which it began")
    func reloading() async {
        await #expect(processExitsWith: .success) {
            let manager = try DatagramReceiver()
            setenv("NOTIFY_SOCKET", manager.path, 1)
            func monotonicMicroseconds() -> Int {
                var now = timespec()
                clock_gettime(CLOCK_MONOTONIC, &now)
                return now.tv_sec * 1_000_000 + now.tv_nsec / 1000
            }
            let before = monotonicMicroseconds()
            try #expect(ServiceNotifier().reloading())
            let after = monotonicMicroseconds()
            let lines = manager.receive().split(separator: "\n")
            #expect(lines.first == "RELOADING=1")
            let time = try #require(lines.last?.split(separator: "=").last.flatMap { Int($0) })
            #expect((before...after).contains(time))
        }
    }

    @Test("a line break in a status cannot begin another assignment")
    func statusStaysOneLine() async {
        await #expect(processExitsWith: .success) {
            let manager = try DatagramReceiver()
            setenv("NOTIFY_SOCKET", manager.path, 1)
            try #expect(ServiceNotifier().status("a\nSTOPPING=1\r\nb\u{0}c"))
            #expect(manager.receive() == "STATUS=a STOPPING=1  b c")
        }
    }

    @Test("without a manager nothing is told and nothing fails")
    func noManager() async {
        await #expect(processExitsWith: .success) {
            unsetenv("NOTIFY_SOCKET")
            try #expect(ServiceNotifier().ready() == false)
            try #expect(ServiceNotifier().watchdog() == false)
        }
    }

    @Test("a socket that is full delays nothing and is an error")
    func fullSocket() async {
        await #expect(processExitsWith: .success) {
            // A call that waits ends the process.
            alarm(60)
            let manager = try DatagramReceiver()
            setenv("NOTIFY_SOCKET", manager.path, 1)
            manager.fill()
            let error = #expect(throws: SystemdError.self) { try ServiceNotifier().stopping() }
            #expect(error?.systemError == EAGAIN)
            #expect(manager.receive() == "x")
            try #expect(ServiceNotifier().stopping())
        }
    }

    @Test("a manager that listens on an abstract socket is told")
    func abstractSocket() async {
        await #expect(processExitsWith: .success) {
            let manager = try DatagramReceiver(abstractName: "larder-test-\(getpid())")
            setenv("NOTIFY_SOCKET", manager.path, 1)
            try #expect(ServiceNotifier().ready())
            #expect(manager.receive() == "READY=1")
        }
    }

    @Test("a value of NOTIFY_SOCKET that names no socket is an error", arguments: ["", "relative", "vsock:2:1234"])
    func wrongSocket(value: String) async {
        await #expect(processExitsWith: .success) { [value] in
            setenv("NOTIFY_SOCKET", value, 1)
            let error = #expect(throws: SystemdError.self) { try ServiceNotifier().ready() }
            #expect(error?.code == .notificationFailed)
        }
    }

    @Test("a manager's socket that is gone is an error that names the system's reason")
    func deadSocket() async {
        await #expect(processExitsWith: .success) {
            setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1)
            let error = #expect(throws: SystemdError.self) { try ServiceNotifier().ready() }
            #expect(error?.code == .notificationFailed)
            #expect(error?.systemError == ENOENT)
            #expect(error?.description.contains("READY=1") == true)
        }
    }
}

@Suite("the watchdog")
struct WatchdogTests {
    @Test("its interval is the manager's, and only for the process that is watched")
    func interval() async {
        await #expect(processExitsWith: .success) {
            unsetenv("WATCHDOG_USEC")
            #expect(Watchdog.interval == nil)
            setenv("WATCHDOG_USEC", "30000000", 1)
            setenv("WATCHDOG_PID", String(getpid()), 1)
            #expect(Watchdog.interval == .seconds(30))
            setenv("WATCHDOG_PID", "1", 1)
            #expect(Watchdog.interval == nil)
            unsetenv("WATCHDOG_PID")
            setenv("WATCHDOG_USEC", "soon", 1)
            #expect(Watchdog.interval == nil)
        }
    }
}
