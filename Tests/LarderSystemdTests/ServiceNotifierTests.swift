import Glibc
import LarderSystemd
import Testing

/// Each test runs in a separate process, because it sets environment variables, which apply to a whole process.
@Suite("Notifications to the service manager")
struct ServiceNotifierTests {
    @Test("each message arrives at the socket of the manager in the specified form")
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
            try #expect(notifier.stopping())
            #expect(manager.receive() == "STOPPING=1")
            try #expect(notifier.watchdog())
            #expect(manager.receive() == "WATCHDOG=1")
        }
    }

    @Test("a reload notification has the monotonic time at which the reload starts")
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

    @Test("without a manager, notifications are skipped without an error")
    func noManager() async {
        await #expect(processExitsWith: .success) {
            unsetenv("NOTIFY_SOCKET")
            try #expect(ServiceNotifier().ready() == false)
            try #expect(ServiceNotifier().watchdog() == false)
        }
    }

    @Test("notifications to a full socket do not block, arrive in order once it has room, and are limited in number")
    func fullSocket() async {
        await #expect(processExitsWith: .success) {
            // Ends the process after a minute if a call blocks.
            alarm(60)
            let manager = try DatagramReceiver()
            setenv("NOTIFY_SOCKET", manager.path, 1)
            manager.fill()
            let notifier = ServiceNotifier()
            try #expect(notifier.stopping())
            var submitted: [String] = []
            let error = #expect(throws: SystemdError.self) {
                for number in 1...1000 {
                    try notifier.status("\(number)")
                    submitted.append("STATUS=\(number)")
                }
            }
            #expect(error?.systemError == EAGAIN)
            #expect((1...100).contains(submitted.count))
            var received = manager.receive()
            while received == "x" { received = manager.receive() }
            #expect(received == "STOPPING=1")
            for text in submitted { #expect(manager.receive() == text) }
        }
    }

    @Test("at most two watchdog notifications wait for a full socket: one that is being sent, and one behind it")
    func watchdogOnFullSocket() async {
        await #expect(processExitsWith: .success) {
            alarm(60)
            let manager = try DatagramReceiver()
            setenv("NOTIFY_SOCKET", manager.path, 1)
            manager.fill()
            let notifier = ServiceNotifier()
            for _ in 0..<1000 { try #expect(notifier.watchdog()) }
            try notifier.status("end")
            var received: [String] = []
            while received.last != "STATUS=end" { received.append(manager.receive()) }
            let count = received.filter { $0 == "WATCHDOG=1" }.count
            #expect((1...2).contains(count))
        }
    }

    @Test("a manager with an abstract socket is notified")
    func abstractSocket() async {
        await #expect(processExitsWith: .success) {
            let manager = try DatagramReceiver(abstractName: "larder-test-\(getpid())")
            setenv("NOTIFY_SOCKET", manager.path, 1)
            try #expect(ServiceNotifier().ready())
            #expect(manager.receive() == "READY=1")
        }
    }

    @Test("a NOTIFY_SOCKET that is not the address of a Unix socket is an error", arguments: ["", "relative"])
    func wrongSocket(value: String) async {
        await #expect(processExitsWith: .success) { [value] in
            let error = try await failure(socket: value)
            #expect(error.reason.contains("check NOTIFY_SOCKET"))
        }
    }

    @Test("a notification to a missing socket fails with the error number of the system")
    func deadSocket() async {
        await #expect(processExitsWith: .success) {
            let error = try await failure(socket: "/nonexistent/notify")
            #expect(error.systemError == ENOENT)
            #expect(error.description.contains("READY=1"))
        }
    }
}

/// The error that is reported after a notification was submitted for a socket.
private func failure(socket: String) async throws -> SystemdError {
    setenv("NOTIFY_SOCKET", socket, 1)
    let (failures, continuation) = AsyncStream.makeStream(of: SystemdError.self)
    try #expect(ServiceNotifier { continuation.yield($0) }.ready())
    return try #require(await failures.first { _ in true })
}

@Suite("Watchdog")
struct WatchdogTests {
    @Test("the watchdog interval is the one that the manager sets, and nil in processes that it does not watch")
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
