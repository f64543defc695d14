public import LarderClientCore
import LarderConfig
import LarderConfigModel
import LarderProtocol
import LarderServer
import NIOCore
import Synchronization

/// An agent for tests: the real one, inside the process of the test, without a daemon and without a socket that other
/// processes can reach.
///
/// ```swift
/// @Test("the service follows its configuration")
/// func follows() async throws {
///     let agent = try await TestAgent(["search": ["limit": 10]])
///     let service = SearchService(client: agent.client())
///     try await agent.publish(["search": ["limit": 20]])
///     try await agent.waitUntil { await service.limit == 20 }
/// }
/// ```
///
/// Clients are connected over socketpair(2). Everything else is the code of larderd: layers, revisions,
/// compare-and-set, subscriptions, access rights and the image cache. Creating an agent takes a few milliseconds, and a
/// process can have hundreds of them. Each has its own state in a temporary directory, which is removed with the agent.
///
/// Time passes only when the test advances ``clock``. ``faults`` shows how a program behaves while the agent is slow,
/// unreachable or misbehaves. A test that waits for something that does not happen, such as
/// ``waitUntil(within:file:line:_:)``, fails after 60 s with advice. A call that waits for a clock that stands still
/// fails after 60 s with `timeout`, and a message on the standard error names the reason. The delays between the attempts
/// of `update` do not depend on the clock: they are real, and take milliseconds.
///
/// The agent runs as long as the test or a client refers to it. ``shutDown()`` stops it earlier.
public final class TestAgent: Sendable {
    private enum State {
        case running(RunningAgent)
        case restarting
        case stopped
    }

    /// The clock of the agent and its clients.
    public let clock: TestClock

    private let names: [String]
    private let directory: AgentDirectory
    private let images: TestImageOrigin?
    private let connector: Connector
    private let state: Mutex<State>

    // MARK: Start and stop

    /// Starts an agent with the namespace `default`.
    ///
    /// ```swift
    /// let agent = try await TestAgent(["search": ["limit": 10]])
    /// ```
    /// - Parameters:
    ///   - document: the remote layer of the namespace, as ``publish(_:namespace:)`` sets it. It must be an object.
    ///   - images: the origin of the image cache. With nil, the agent has no image cache, and the methods of
    ///     `LarderClient.images` fail with `unavailable`.
    /// - Throws: `LarderClientError`: `remote` if the document is rejected, `unreachable` if the agent cannot create
    ///   its files.
    public convenience init(
        _ document: JSONValue = .emptyObject, images: TestImageOrigin? = nil
    ) async throws(LarderClientError) {
        try await self.init(namespaces: ["default": document], images: images)
    }

    /// Starts an agent with several namespaces.
    ///
    /// ```swift
    /// let agent = try await TestAgent(namespaces: ["default": ["limit": 10], "ui": ["theme": "dark"]])
    /// ```
    /// - Parameters:
    ///   - namespaces: the remote layer of each namespace, by name.
    ///   - images: the origin of the image cache; nil for an agent without an image cache.
    /// - Throws: the errors of ``init(_:images:)``, and `invalidArgument` if a name is not valid for a namespace.
    public init(
        namespaces: [String: JSONValue], images: TestImageOrigin? = nil
    ) async throws(LarderClientError) {
        for name in namespaces.keys where !NamespaceName.isValid(name) {
            throw LarderClientError(
                .invalidArgument, "\"\(name)\" is not a valid name of a namespace",
                advice: "use lower-case letters, digits, \".\", \"_\" and \"-\"")
        }
        clock = TestClock()
        names = namespaces.keys.sorted()
        directory = try AgentDirectory()
        self.images = images
        connector = Connector(clock)
        let agent = try await Self.started(names, directory, clock, images)
        state = Mutex(.running(agent))
        connector.use(agent.server)
        for (name, document) in namespaces where document != .emptyObject {
            try await publish(document, namespace: name)
        }
    }

    deinit {
        connector.use(nil)
        guard case .running(let agent) = state.withLock({ $0 }) else { return }
        Task { [directory] in
            await agent.stop()
            withExtendedLifetime(directory) {}
        }
    }

    /// Ends all connections and stops the agent. Further attempts to connect fail. An agent that is released without
    /// this call stops in the background. Its files are removed when it is released and has stopped.
    ///
    /// ```swift
    /// await agent.shutDown()
    /// await #expect(throws: LarderClientError.self) { try await agent.client().agent.ping() }
    /// ```
    public func shutDown() async {
        await stop(leaving: .stopped)
    }

    /// Stops the agent, and starts it again with the state on disk, as after a restart of the service. All connections
    /// end. Everything that the agent has acknowledged is kept. Faults last.
    ///
    /// ```swift
    /// try await agent.client().config.set(25, at: "search.limit")
    /// try await agent.restart()
    /// #expect(try await agent.client().config.value(at: "search.limit", as: Int.self) == 25)
    /// ```
    /// - Throws: `closed` if the agent is stopped or another restart is in progress; `unreachable` if the state cannot
    ///   be opened. The agent is stopped then.
    public func restart() async throws(LarderClientError) {
        guard await stop(leaving: .restarting) else { throw Self.stopped }
        let next: RunningAgent
        do throws(LarderClientError) {
            next = try await Self.started(names, directory, clock, images)
        } catch {
            state.withLock { $0 = .stopped }
            throw error
        }
        let isShutDown = state.withLock { state in
            guard case .restarting = state else { return true }
            state = .running(next)
            return false
        }
        if isShutDown {
            await next.stop()
            throw Self.stopped
        }
        connector.use(next.server)
    }

    /// Returns the running agent, and leaves another state; nil if no agent runs.
    private func take(leaving next: State) -> RunningAgent? {
        state.withLock { state in
            let previous = state
            if case .stopped = previous { return nil }
            if case .restarting = previous, case .restarting = next { return nil }
            state = next
            if case .running(let agent) = previous { return agent }
            return nil
        }
    }

    /// Stops the running agent, and leaves another state. No reference to the agent may remain when this method
    /// returns, because the image cache locks its directory until it is released.
    /// - Returns: false if no agent runs
    @discardableResult
    private func stop(leaving next: State) async -> Bool {
        guard let agent = take(leaving: next) else { return false }
        connector.use(nil)
        await agent.stop()
        await connector.waitUntilDisconnected()
        return true
    }

    private static func started(
        _ names: [String], _ directory: AgentDirectory, _ clock: TestClock, _ images: TestImageOrigin?
    ) async throws(LarderClientError) -> RunningAgent {
        do {
            return try await RunningAgent.start(names, in: directory, clock: clock, images: images)
        } catch {
            throw LarderClientError(.unreachable, "cannot start the test agent: \(error)")
        }
    }

    private static let stopped = LarderClientError(.closed, "the test agent is stopped")

    // MARK: Clients

    /// Creates a client of the agent. It connects on the first call, as any client does. An agent can have any number
    /// of clients.
    ///
    /// ```swift
    /// let client = agent.client()
    /// let limit = try await client.config.snapshot(at: "search.limit").value
    /// ```
    /// - Parameter configuration: the options; nil for ``clientConfiguration``. The timeouts of calls follow ``clock``
    ///   in any case, except for mapped snapshots and images stored from a file.
    public func client(configuration: LarderClient.Configuration? = nil) -> LarderClient {
        LarderClient(
            transport: Transport(
                name: RunningAgent.socketName,
                // The closure retains the agent, so that the agent runs as long as its clients exist.
                open: { () throws(LarderSocket.ConnectError) in try self.connector.open() },
                handlers: { [connector] in [FaultHandler(connector)] },
                schedule: { [connector] in connector.schedule($0, $1, $2) }),
            configuration: configuration ?? clientConfiguration)
    }

    /// The default options of the clients of this agent: those of `LarderClient.Configuration`, but with ``clock``, and
    /// with delays between attempts to connect that are not random: 50 ms, 100 ms, 200 ms and so on, at most 10 s.
    ///
    /// ```swift
    /// var configuration = agent.clientConfiguration
    /// configuration.timeout = .seconds(1)
    /// let client = agent.client(configuration: configuration)
    /// ```
    public var clientConfiguration: LarderClient.Configuration {
        var configuration = LarderClient.Configuration()
        configuration.clock = clock
        configuration.backoff = LarderBackoff(fraction: { 1 })
        return configuration
    }

    // MARK: Configuration

    /// Replaces the remote layer of a namespace, as `config.push` does. Faults do not affect it. When this method
    /// returns, each further call of a client gets the new configuration.
    ///
    /// ```swift
    /// try await agent.publish(["search": ["limit": 20]])
    /// ```
    /// - Parameters:
    ///   - document: the new layer. It must be an object.
    ///   - namespace: the name of the namespace.
    /// - Returns: the revision that contains the document. It is the current one if the document changes nothing.
    /// - Throws: `LarderClientError`: `remote` with `rejected` if the document is rejected; `invalidArgument` if the
    ///   agent has no such namespace; `closed` if the agent is stopped.
    @discardableResult
    public func publish(
        _ document: JSONValue, namespace: String = "default"
    ) async throws(LarderClientError) -> Int {
        try CallArguments.check(document, at: JSONPath([]))
        guard case .running(let agent) = state.withLock({ $0 }) else { throw Self.stopped }
        guard let namespace = agent.namespaces[namespace] else {
            throw LarderClientError(
                .invalidArgument, "the test agent has no namespace \"\(namespace)\"",
                advice: "name it in TestAgent(namespaces:)")
        }
        do throws(ConfigError) {
            return try await namespace.refresher.applyPushedConfig(SourceDocument(value: document), force: false)
                .commit.revision
        } catch {
            throw LarderClientError(remote: WireError(error, of: namespace.publication, mayRead: true))
        }
    }

    // MARK: Waiting

    /// Waits until a condition holds. It checks the condition every millisecond.
    ///
    /// ```swift
    /// try await agent.publish(["search": ["limit": 25]])
    /// try await agent.waitUntil { await service.limit == 25 }
    /// ```
    /// - Parameters:
    ///   - limit: the maximum time on the clock of the machine.
    ///   - file: the file of the call, for the error.
    ///   - line: the line of the call, for the error.
    ///   - condition: checks whether the test can continue.
    /// - Throws: `LarderClientError` with the code `timeout` if the condition does not hold in time. Its advice names
    ///   what the test may have forgotten, such as to advance ``clock`` or to end ``faults``. Also `CancellationError`
    ///   if the task is cancelled, and the errors of `condition`.
    public func waitUntil(
        within limit: Duration = TestClock.waitLimit, file: StaticString = #fileID, line: UInt = #line,
        _ condition: () async throws -> Bool
    ) async throws {
        let clock = ContinuousClock()
        let end = clock.now.advanced(by: limit)
        while !(try await condition()) {
            guard clock.now < end else {
                throw LarderClientError(
                    .timeout, "the condition at \(file):\(line) did not hold within \(limit)", advice: advice)
            }
            try await clock.sleep(for: .milliseconds(1))
        }
    }

    /// Advice for a test that waits for nothing.
    private var advice: String {
        if let hint = clock.hint { return hint }
        if faults != Faults() { return "end the faults of the agent: agent.faults = TestAgent.Faults()" }
        return "check that the code under test runs, and that its client is one of agent.client()"
    }

    // MARK: Faults

    /// The faults between the agent and its clients; none at first. A change affects existing and new
    /// connections.
    ///
    /// The assignment of one fault is atomic: other tasks can change other faults at the same time.
    /// ``updateFaults(_:)`` changes several faults in one step.
    public var faults: Faults {
        get { connector.faults }
        set { connector.changeFaults { $0 = newValue } }
        _modify {
            let before = connector.faults
            var after = before
            defer { connector.changeFaults { $0.apply(from: before, to: after) } }
            yield &after
        }
    }

    /// Changes several faults in one step: no message sees only some of the changes.
    ///
    /// ```swift
    /// agent.updateFaults { faults in
    ///     faults.isUnreachable = true
    ///     faults.delay = .milliseconds(200)
    /// }
    /// ```
    public func updateFaults(_ change: (inout Faults) -> Void) { change(&faults) }

    /// Closes all connections. Returns once all clients have noticed. Clients can connect again at once.
    ///
    /// ```swift
    /// await agent.disconnect()
    /// try await agent.clock.waitForSleepers()  // a stream of snapshots waits before it reconnects
    /// agent.clock.advance(by: .seconds(1))
    /// ```
    public func disconnect() async { await connector.disconnect() }

    /// Waits until at least `count` replies and events are held back because of ``Faults/delay``.
    ///
    /// ```swift
    /// agent.faults.delay = .seconds(60)
    /// let value = Task { try await client.config.value(at: "search.limit", as: Int.self) }
    /// try await agent.waitForDelayedMessages()
    /// agent.clock.advance(by: .seconds(30))  // the call fails with `timeout`
    /// ```
    /// - Parameters:
    ///   - count: the number of messages.
    ///   - limit: the maximum time on the clock of the machine.
    /// - Throws: `timeout` if fewer messages are held back when the limit has passed; `cancelled` if the task is
    ///   cancelled.
    public func waitForDelayedMessages(
        _ count: Int = 1, within limit: Duration = TestClock.waitLimit
    ) async throws(LarderClientError) {
        try await connector.waitForHeldMessages(count, within: limit)
    }
}
