import Foundation
import TestSupport
import Testing

/// A directory with everything that an agent has: settings, state, socket. It outlives the agents that a test starts
/// in it one after the other, or together.
final class AgentHome {
    /// Short, because a socket's path may have 107 bytes only.
    var directory: String { temporary.path }
    private let temporary: TemporaryDirectory
    private var agents: [AgentProcess] = []

    /// Makes a home, runs a test in it, stops the agents that are left, each of which has to end with status 0, and
    /// removes it.
    /// - Parameters:
    ///   - settings: the settings file as JSON5; `@` stands for the home's directory.
    ///   - starting: whether to start an agent before the test
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

    /// Does the same for an asynchronous test.
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
        for agent in agents where agent.endIfEnded() == nil {
            let end = try agent.stop()
            #expect(end == .exit(0), "\(agent.log)")
        }
    }

    /// Records what became of the agents, which often says more than what the test missed.
    private func reportAgents() {
        for (index, agent) in agents.enumerated() {
            let end = agent.endIfEnded().map { "\($0)" } ?? "running"
            Issue.record("agent \(index + 1) of this test: \(end)\n\(agent.log.suffix(20_000))")
        }
    }

    private func killAgents() {
        for agent in agents { agent.kill() }
    }

    var socket: String { directory + "/sock" }
    var state: String { directory + "/state" }
    var settings: String { directory + "/larder.json" }

    /// Replaces the settings file. Sources are asked without the waits that spread the requests of a fleet.
    func write(settings text: String) throws {
        let first = "firstFetchSplaySeconds: 0, "
        var text = text.replacing("@", with: directory)
        for (kind, waits) in [("http", first), ("sse", first + Self.reconnect), ("etcd", first + Self.reconnect)] {
            text = text.replacing("{ \(kind): { ", with: "{ \(kind): { \(waits)")
        }
        try write("larder.json", text)
    }

    private static let reconnect = "reconnectSplaySeconds: 0, "

    /// Writes a file by renaming it into place, as those do that mean well.
    func write(_ name: String, _ text: String) throws {
        try text.write(toFile: directory + "/" + name, atomically: true, encoding: .utf8)
    }

    func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(
            atPath: directory + "/" + name, withIntermediateDirectories: true)
    }

    func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    // MARK: The command line

    /// The environment of a client of the agent at ``socket``.
    var clientEnvironment: [String: String] { ChildProcess.environment.merging(["LARDER_SOCKET": socket]) { $1 } }

    /// Runs `larder` to its end.
    @discardableResult
    func larder(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(Products.commandLine, arguments, environment: clientEnvironment, input: input)
    }

    /// Starts `larder`.
    func startLarder(_ arguments: String...) throws -> ChildProcess {
        try ChildProcess(Products.commandLine, arguments, environment: clientEnvironment)
    }

    // MARK: Agents

    /// The agent's arguments, with some replaced.
    func arguments(socket: String? = nil, state: String? = nil, cache: String? = nil) -> [String] {
        var arguments = ["--socket", socket ?? self.socket, "--state-directory", state ?? self.state]
        arguments += ["--cache-directory", cache ?? state.map { $0 + "-cache" } ?? directory + "/cache"]
        if exists(settings) { arguments += ["--settings", settings] }
        return arguments
    }

    /// The agent's environment: whatever it takes for granted is here, whoever runs the tests.
    var environment: [String: String] {
        let own = [
            "HOME": directory, "RUNTIME_DIRECTORY": directory + "/run", "STATE_DIRECTORY": state,
            "CACHE_DIRECTORY": directory + "/cache", "CONFIGURATION_DIRECTORY": directory + "/etc",
        ]
        return ChildProcess.environment.merging(own) { $1 }
    }

    /// Starts an agent and returns once it says that it is ready.
    /// - Parameters:
    ///   - listener: a listening socket that it is handed over, as systemd does it.
    ///   - meanwhile: what to do before that.
    func start(
        socket: String? = nil, state: String? = nil, wrapper: [String] = [], listener: Descriptor? = nil,
        logLevel: String = "info", meanwhile: (ChildProcess) throws -> Void = { _ in }
    ) throws -> AgentProcess {
        // The variable that names the agent's own pid cannot be set from here: the agent has it from a shell that it
        // takes the place of.
        let activation = listener == nil ? [] : ["sh", "-c", #"LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@""#]
        let command = activation + wrapper + [try Products.agent] + arguments(socket: socket, state: state)
        let notify = try NotifySocket(path: directory + "/notify\(agents.count)")
        var environment = environment
        environment["NOTIFY_SOCKET"] = notify.path
        let process = try ChildProcess(
            command[0], Array(command[1...]) + ["--log-level", logLevel], environment: environment,
            directory: directory, passing: listener.map { [$0.number] } ?? [])
        let agent = AgentProcess(process: process, notify: notify, socket: socket ?? self.socket)
        agents.append(agent)
        try meanwhile(process)
        try notify.wait(for: "READY=1", orUntilEndOf: process)
        return agent
    }

    /// Starts an agent and kills it a moment later, ready or not.
    func startAndKill(after time: Duration) throws {
        let process = try ChildProcess(
            Products.agent, arguments(), environment: environment, directory: directory)
        let end = Deadline.after(time)
        while !end.hasPassed { _ = poll(nil, 0, end.milliseconds) }
        process.kill()
    }

    /// Runs an agent that cannot start, to its end.
    func startInVain(socket: String? = nil, state: String? = nil, cache: String? = nil) throws -> Command {
        try Command.run(
            Products.agent, arguments(socket: socket, state: state, cache: cache), environment: environment,
            directory: directory)
    }
}
