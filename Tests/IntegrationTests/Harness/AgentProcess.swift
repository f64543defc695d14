import FoundationEssentials
import Glibc
import LarderJSON
import TestSupport

/// An agent process that a test started.
final class AgentProcess {
    let process: ChildProcess
    let socket: String
    private let notify: NotifySocket

    init(process: ChildProcess, notify: NotifySocket, socket: String) {
        self.process = process
        self.notify = notify
        self.socket = socket
    }

    var pid: Int { Int(process.pid) }

    /// The log so far.
    var log: String { process.logText }

    func connect() throws -> LineClient { try LineClient(path: socket) }

    /// Sends a request over a new connection and returns the result.
    @discardableResult
    func call(_ method: String, _ params: JSONValue? = nil) throws -> JSONValue {
        let client = try connect()
        defer { client.close() }
        return try client.call(method, params)
    }

    /// The status of a namespace, from `config.status`.
    func status(_ namespace: String = "default") throws -> JSONValue {
        try require(try call("config.status", ["namespace": .string(namespace)])["namespaces"]?[0], "status")
    }

    /// The anonymous resident memory in bytes: `RssAnon` of `/proc/PID/status` (proc_pid_status(5)).
    ///
    /// `residentBytes` of `agent.stats` also counts resident pages of the program file, of which the kernel drops and
    /// maps tens of megabytes at any time.
    func anonymousBytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        return try require(line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }, "RssAnon") * 1024
    }

    // MARK: Signals and end

    /// Waits until a line of the log contains `text`, and returns the line.
    @discardableResult
    func waitForLog(_ text: String, until deadline: Deadline = .usual) throws -> String {
        try process.waitForLog(text, until: deadline)
    }

    /// Sends SIGHUP and waits until the agent has finished reloading the settings, successfully or not.
    func reload() throws {
        process.signal(SIGHUP)
        try notify.wait(for: "RELOADING=1", orUntilEndOf: process)
        try notify.wait(for: "READY=1", orUntilEndOf: process)
    }

    /// Waits until the agent sends a line to the service manager, such as `STOPPING=1`.
    func waitForNotification(_ line: String) throws { try notify.wait(for: line, orUntilEndOf: process) }

    /// Fills the notification socket, so that it accepts no further message until one is read.
    func fillNotifications() throws { try notify.fill() }

    /// Removes the notification socket, so that further notifications fail.
    func closeNotifications() { unlink(notify.path) }

    func terminate() { process.signal(SIGTERM) }

    /// Sends SIGTERM and waits until the agent exits.
    func stop() throws -> ChildProcess.End {
        terminate()
        return try process.waitForEnd()
    }

    /// Sends SIGKILL.
    func kill() { process.kill() }

    /// Returns how the process ended, or nil if it is still running.
    func pollEnd() -> ChildProcess.End? { process.pollEnd() }
}

/// Returns `value`, or throws an error with `name` if it is nil.
func require<Value>(_ value: Value?, _ name: @autoclosure () -> String) throws -> Value {
    guard let value else { throw HarnessError("missing \(name())") }
    return value
}
