import FoundationEssentials
import Glibc
import LarderJSON
import TestSupport

/// A running agent.
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

    /// Its log so far.
    var log: String { process.logText }

    /// A new connection to it.
    func connect() throws -> LineClient { try LineClient(path: socket) }

    /// Asks something over a connection of its own.
    @discardableResult
    func ask(_ method: String, _ params: JSONValue? = nil) throws -> JSONValue {
        let client = try connect()
        defer { client.close() }
        return try client.call(method, params)
    }

    /// What `config.status` says of a namespace.
    func status(_ namespace: String = "default") throws -> JSONValue {
        try require(try ask("config.status", ["namespace": .string(namespace)])["namespaces"]?[0], "a status")
    }

    /// How many bytes of memory it has in use that are no file's: `RssAnon` of `/proc/PID/status` (proc_pid_status(5)).
    ///
    /// What it says of itself, `residentBytes`, also counts the pages of its own program that happen to be mapped. Those
    /// come and go by tens of megabytes as the kernel likes.
    func anonymousBytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        return try require(line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }, "RssAnon") * 1024
    }

    // MARK: Signals and end

    /// Waits until the log has a line with this text.
    @discardableResult
    func waitForLog(_ text: String, until deadline: Deadline = .usual) throws -> String {
        try process.waitForLog(text, until: deadline)
    }

    /// Has the settings re-read and waits until that is done, well or badly.
    func reload() throws {
        process.signal(SIGHUP)
        try notify.wait(for: "RELOADING=1", orUntilEndOf: process)
        try notify.wait(for: "READY=1", orUntilEndOf: process)
    }

    /// Waits until it tells the service manager something, such as `STOPPING=1`.
    func waitForNotification(_ line: String) throws { try notify.wait(for: line, orUntilEndOf: process) }

    /// Fills the service manager's socket, so that it takes nothing more until something is read from it.
    func fillNotifications() throws { try notify.fill() }

    /// Takes the service manager's socket away, so that it can be told nothing more.
    func closeNotifications() { unlink(notify.path) }

    func terminate() { process.signal(SIGTERM) }

    /// Stops it as a service manager does.
    func stop() throws -> ChildProcess.End {
        terminate()
        return try process.waitForEnd()
    }

    /// Ends it with no chance to do anything about it.
    func kill() { process.kill() }

    func endIfEnded() -> ChildProcess.End? { process.endIfEnded() }
}

/// What has to be there.
func require<Value>(_ value: Value?, _ what: @autoclosure () -> String) throws -> Value {
    guard let value else { throw HarnessError("there is no \(what())") }
    return value
}
