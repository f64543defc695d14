import Foundation
import TestSupport
import Testing

@testable import LarderCommand

/// A temporary directory with the settings, state, cache and socket of agents. A test can start several agents in it,
/// in sequence or at the same time.
final class AgentHome {
    /// The path is short, because the path of a Unix socket has at most 107 bytes.
    var directory: String { temporary.path }
    private let temporary: TemporaryDirectory
    private var agents: [AgentProcess] = []

    /// Runs a test in a new home. Afterwards stops the agents that are still running and expects each of them to exit
    /// with status 0.
    ///
    /// If the test throws, the state and the log of every agent are recorded as issues.
    /// - Parameters:
    ///   - settings: The settings file as JSON5; see ``write(settings:)``.
    ///   - starting: True to start an agent before the test.
    @discardableResult
    static func with<Result>(
        settings: String? = nil, starting: Bool = false,
        _ body: (AgentHome) throws -> Result
    ) throws -> Result {
        let home = try AgentHome()
        defer { home.killAgents() }
        do {
            try home.prepare(settings: settings, starting: starting)
            let result = try body(home)
            try home.stopAgents()
            return result
        } catch {
            home.reportAgents()
            throw error
        }
    }

    /// The asynchronous form of `with`.
    @discardableResult
    static func with<Result>(
        settings: String? = nil, starting: Bool = false,
        _ body: (AgentHome) async throws -> Result
    ) async throws -> Result {
        let home = try AgentHome()
        defer { home.killAgents() }
        do {
            try home.prepare(settings: settings, starting: starting)
            let result = try await body(home)
            try home.stopAgents()
            return result
        } catch {
            home.reportAgents()
            throw error
        }
    }

    private init() throws { temporary = try TemporaryDirectory() }

    private func prepare(settings: String?, starting: Bool) throws {
        if let settings { try write(settings: settings) }
        if starting { _ = try start() }
    }

    private func stopAgents() throws {
        for agent in agents where agent.pollEnd() == nil {
            let end = try agent.stop()
            #expect(end == .exit(0), "\(agent.log)")
        }
    }

    /// Records the state and the log of every agent. They often explain the failure better than the error of the test.
    private func reportAgents() {
        for (index, agent) in agents.enumerated() {
            let end = agent.pollEnd().map { "\($0)" } ?? "running"
            Issue.record("agent \(index + 1) of this test: \(end)\n\(agent.log.suffix(20_000))")
        }
    }

    private func killAgents() {
        for agent in agents { agent.kill() }
    }

    var socket: String { directory + "/sock" }
    var state: String { directory + "/state" }
    var settings: String { directory + "/larder.json" }

    /// Replaces the settings file. `@` in `text` stands for ``directory``.
    ///
    /// Turns off the random delays of HTTP, event stream and etcd sources (`firstFetchSplaySeconds` and
    /// `reconnectSplaySeconds`), provided that the source is written as `{ http: { `, with these spaces.
    func write(settings text: String) throws {
        let first = "firstFetchSplaySeconds: 0, "
        var text = text.replacing("@", with: directory)
        for (kind, splay) in [("http", first), ("sse", first + Self.reconnect), ("etcd", first + Self.reconnect)] {
            text = text.replacing("{ \(kind): { ", with: "{ \(kind): { \(splay)")
        }
        try write("larder.json", text)
    }

    private static let reconnect = "reconnectSplaySeconds: 0, "

    /// Replaces or creates a file of the home atomically, by renaming a temporary file into place.
    func write(_ name: String, _ text: String) throws {
        try text.write(toFile: directory + "/" + name, atomically: true, encoding: .utf8)
    }

    func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(
            atPath: directory + "/" + name, withIntermediateDirectories: true)
    }

    func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    // MARK: The command line

    /// An environment in which `LARDER_SOCKET` is ``socket``.
    var clientEnvironment: [String: String] { ChildProcess.environment.merging(["LARDER_SOCKET": socket]) { $1 } }

    /// Runs `larder` and waits until it exits.
    @discardableResult
    func larder(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(Products.commandLine, arguments, environment: clientEnvironment, input: input)
    }

    /// The exit status of `larder status --check` without problems: 12 on a machine whose disk is nearly full, otherwise 0.
    var healthyStatus: CInt {
        DiskCheck.finding(VolumeFacts.probe(at: directory, purpose: "state")).level == .ok ? 0 : 12
    }

    func startLarder(_ arguments: String...) throws -> ChildProcess {
        try ChildProcess(Products.commandLine, arguments, environment: clientEnvironment)
    }

    // MARK: Agents

    /// The arguments of an agent. A parameter that is not nil replaces the path in this home.
    func arguments(socket: String? = nil, state: String? = nil, cache: String? = nil) -> [String] {
        var arguments = ["--socket", socket ?? self.socket, "--state-directory", state ?? self.state]
        arguments += ["--cache-directory", cache ?? state.map { $0 + "-cache" } ?? directory + "/cache"]
        if exists(settings) { arguments += ["--settings", settings] }
        return arguments
    }

    /// The environment of an agent. The variables that name directories are set to paths in this home, so that the
    /// environment of the test process has no influence.
    var environment: [String: String] {
        let own = [
            "HOME": directory, "RUNTIME_DIRECTORY": directory + "/run", "STATE_DIRECTORY": state,
            "CACHE_DIRECTORY": directory + "/cache", "CONFIGURATION_DIRECTORY": directory + "/etc",
        ]
        return ChildProcess.environment.merging(own) { $1 }
    }

    /// Starts an agent and waits until it reports `READY=1`.
    /// - Parameters:
    ///   - wrapper: A command that runs the agent, such as `prlimit` with its arguments.
    ///   - listener: A listening socket that is passed to the agent by socket activation, as systemd does.
    ///   - logLevel: The option `--log-level`. Nil for the level of the settings.
    ///   - beforeReady: Called after the process has started and before the wait.
    func start(
        socket: String? = nil, state: String? = nil, cache: String? = nil, wrapper: [String] = [],
        listener: Descriptor? = nil, logLevel: String? = "info",
        beforeReady: (ChildProcess) throws -> Void = { _ in }
    ) throws -> AgentProcess {
        // LISTEN_PID must be the pid of the agent, which is not known yet. A shell sets it and then becomes the agent
        // by `exec`.
        let activation = listener == nil ? [] : ["sh", "-c", #"LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@""#]
        let command =
            activation + wrapper + [try Products.agent] + arguments(socket: socket, state: state, cache: cache)
        let notify = try NotifySocket(path: directory + "/notify\(agents.count)")
        var environment = environment
        environment["NOTIFY_SOCKET"] = notify.path
        let process = try ChildProcess(
            command[0], Array(command[1...]) + (logLevel.map { ["--log-level", $0] } ?? []), environment: environment,
            directory: directory, passing: listener.map { [$0.number] } ?? [])
        let agent = AgentProcess(process: process, notify: notify, socket: socket ?? self.socket)
        agents.append(agent)
        try beforeReady(process)
        try notify.wait(for: "READY=1", orUntilEndOf: process)
        return agent
    }

    /// Binds ``socket`` and listens on it, as systemd does for a socket unit.
    func listener() throws -> Descriptor {
        let listener = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
        guard try withUnixAddress(socket, { bind(listener.number, $0, $1) }) == 0,
            listen(listener.number, CInt.max) == 0
        else { throw HarnessError.system("listen on \(socket)") }
        return listener
    }

    /// Starts an agent to which the permissions of files apply: as ``unprivilegedUser`` if the tests run as root.
    func startUnprivileged() throws -> AgentProcess {
        geteuid() == 0 ? try start(as: Int(unprivilegedUser)) : try start()
    }

    /// Starts an agent as another user, to whom the home then belongs. Requires root.
    ///
    /// - Parameter limit: a limit of the agent, as an option of prlimit(1)
    func start(as user: Int, limit: String? = nil) throws -> AgentProcess {
        chown(directory, uid_t(user), gid_t(user))
        let limits = limit.map { ["prlimit", $0, "--"] } ?? []
        // The agent writes to the notification socket, which belongs to root.
        return try start(wrapper: OtherUser.command(user) + limits) { _ in
            chmod(directory + "/notify\(agents.count - 1)", 0o666)
        }
    }

    /// Starts an agent and kills it after `time`, ready or not.
    func startAndKill(after time: Duration) throws {
        let process = try ChildProcess(
            Products.agent, arguments(), environment: environment, directory: directory)
        let end = Deadline.after(time)
        while !end.hasPassed { _ = poll(nil, 0, end.milliseconds) }
        process.kill()
    }

    /// Starts an agent that is expected to fail at startup, and waits until it exits.
    func runUntilExit(socket: String? = nil, state: String? = nil) throws -> Command {
        try Command.run(
            Products.agent, arguments(socket: socket, state: state), environment: environment,
            directory: directory)
    }
}
