// `JSONValue` and `JSONPath` are part of this library's interface. Re-exporting their module lets clients use them with a
// single import.

@_exported public import LarderJSON
import LarderEncoding
package import LarderProtocol
import Synchronization

/// A client of the local agent.
///
/// A program that needs the configuration once, or whose work fits into one closure, uses
/// ``withConnection(socket:configuration:_:)``:
///
/// ```swift
/// try await LarderClient.withConnection { client in
///     let limit = try await client.config.value(at: "search.limit", default: 10)
///     print(limit)
/// }
/// ```
///
/// A service creates a client and runs ``run()``.
///
/// A client has one connection, which any number of tasks share. It connects on the first call. After a disconnect, the
/// next call reconnects.
///
/// If the connection breaks during a call, for example because the agent restarts, the client retries the call once if
/// its method only reads. Other calls fail with `disconnected`, because the agent may have executed them.
/// ``LarderSnapshots`` resumes automatically.
public final class LarderClient: Sendable {
    /// The options of a client.
    ///
    /// ```swift
    /// var configuration = LarderClient.Configuration()
    /// configuration.timeout = .seconds(5)
    /// let client = LarderClient(configuration: configuration)
    /// ```
    public struct Configuration: Sendable {
        /// The maximum time from sending the request of a call until the reply; nil for no limit. The default is 30 s.
        /// If it is not positive, calls throw `invalidArgument`.
        ///
        /// The time in which a call waits in the client, because ``maximumRequestsInFlight`` is reached, does not
        /// count, unless the agent has stopped responding.
        ///
        /// It does not limit ``ConfigClient/wait(for:at:timeout:)``, which has a limit of its own, and none by default. An
        /// image request with a ``LarderImageRequest/deadline`` may take so much longer. Prefetching has no limit.
        public var timeout: Duration? = .seconds(30)
        /// The delays between attempts to connect.
        public var backoff = LarderBackoff()
        /// The maximum number of requests that wait for a reply at the same time. Further requests wait in the client,
        /// in order. The default is 64, the agent's default limit for a connection. Less than 1 counts as 1.
        ///
        /// Calls that wait for a condition or for the network use at most three quarters: waits, refreshes, and
        /// getting, pinning and prefetching images. Other calls overtake those that wait for a free place.
        public var maximumRequestsInFlight = 64
        /// The maximum length of a reply or event in bytes. The default is 64 MiB, four times the agent's default limit
        /// for a document.
        public var maximumReplyBytes = 64 << 20
        /// The clock that measures the delays between attempts and the durations of calls.
        public var clock: any Clock<Duration> = ContinuousClock()
        /// Called with each event, for logs and metrics; nil for none.
        ///
        /// The closure must not block. It runs on the event loop that all clients of the process share, or in the task
        /// of the caller.
        public var onEvent: (@Sendable (LarderClientEvent) -> Void)?
        /// The duration from which a call is reported as ``LarderClientEvent/slowCall(method:duration:)``.
        public var slowCall = Duration.seconds(1)

        /// Creates the default options.
        /// - Parameter onEvent: called with each event, for logs and metrics; nil for none. See ``onEvent``.
        public init(onEvent: (@Sendable (LarderClientEvent) -> Void)? = nil) { self.onEvent = onEvent }
    }

    /// The name of the namespace that ``config`` uses.
    public static let defaultNamespace = "default"

    /// The path of the agent socket.
    public let socket: String
    /// The options of this client.
    public let configuration: Configuration

    let transport: Transport
    /// The connection of all calls, and of the first subscriptions.
    let slot: ConnectionSlot
    /// The connections of subscriptions that exceed the agent's limit for a connection.
    private let furtherSlots: [ConnectionSlot]
    let subscriptions = SubscriptionTable()
    let mappedSnapshots = MappedSnapshotStore()
    private let companions = Mutex<[JSONPath: any AnyObject & Sendable]>([:])
    private let hasRun = Atomic(false)

    /// Creates a client. It connects on the first call.
    /// - Parameters:
    ///   - socket: the path of the agent socket; nil for ``LarderSocket/defaultPath``. With an empty path, every call
    ///     fails with `invalidArgument`.
    ///   - configuration: timeouts and limits of the client.
    public convenience init(socket: String? = nil, configuration: Configuration = Configuration()) {
        self.init(transport: .unixSocket(socket ?? LarderSocket.defaultPath), configuration: configuration)
    }

    /// Creates a client that reaches its agent in another way than through a path.
    package init(transport: Transport, configuration: Configuration) {
        socket = transport.name
        self.transport = transport
        self.configuration = configuration
        slot = ConnectionSlot(
            transport: transport, configuration: configuration, monitor: ClientMonitor(configuration.onEvent))
        furtherSlots = (1..<Self.maximumConnections).map { [slot] _ in
            ConnectionSlot(transport: transport, configuration: configuration, monitor: slot.monitor)
        }
    }

    deinit { close() }

    /// Whether a call waits for the reply of the agent.
    package func isAwaitingReply() async -> Bool { await slot.last?.isAwaitingReply() ?? false }

    /// Closes the connection. The calls that wait for a reply fail with `error`. Streams subscribe again, and later calls
    /// make a new connection.
    package func interrupt(_ error: LarderClientError) { slot.last?.close(error) }

    /// The maximum number of connections of a client. All calls use one connection. The client makes the others if its
    /// streams have more subscriptions than the agent permits on a connection (64 by default).
    public static let maximumConnections = 4

    /// Closes the client permanently. Calls in flight and later calls fail with `closed`.
    private func close() {
        slot.close()
        for slot in furtherSlots { slot.close() }
    }

    /// Returns the object that another module of this package keeps for this client. Makes it the first time.
    package func companion<Companion: AnyObject & Sendable>(_ key: JSONPath, _ make: () -> Companion) -> Companion {
        companions.withLock { companions in
            if let companion = companions[key] as? Companion { return companion }
            let companion = make()
            companions[key] = companion
            return companion
        }
    }

    /// The number of events that this client has ignored, because a newer agent sent them with a kind that this version
    /// does not know.
    public var ignoredEvents: Int { slot.monitor.ignoredEvents.load(ordering: .relaxed) }

    /// Information about the agent.
    public var agent: AgentClient { AgentClient(client: self) }

    /// Calls a method by name and returns its result as JSON.
    ///
    /// ```swift
    /// let stats = try await client.call("agent.stats")
    /// print(stats["requests"]?["total"]?.int ?? 0)
    /// ```
    /// - Parameters:
    ///   - method: the name of the method, such as `config.get`.
    ///   - params: an object or an array; nil for none.
    ///   - timeout: the maximum duration of the call; nil for ``Configuration/timeout``.
    /// - Throws: `remote` with the agent's error; `timeout`, `cancelled`, `unreachable`, `disconnected` or `closed`.
    public func call(
        _ method: String, params: JSONValue? = nil, timeout: Duration? = nil
    ) async throws(LarderClientError) -> JSONValue {
        let params = params ?? .emptyObject
        try CallArguments.check(params, at: JSONPath([]))
        if params.textSize > Self.maximumSizeOnCaller {
            return try await concurrently { () async throws(LarderClientError) in
                try await self.send(method, timeout: timeout) { $0.value(params) }.result
            }
        }
        let waits = method == ConfigGet.name && (try? ConfigGet.Parameters(params: params))?.waitsForNetwork == true
        return try await send(method, timeout: timeout, waitsForNetwork: waits) { $0.value(params) }.result
    }

    /// Calls a method of the protocol by its type.
    /// - Parameters:
    ///   - method: the type of the method.
    ///   - parameters: the parameters of the method.
    ///   - timeout: the maximum duration of the call; nil for ``Configuration/timeout``.
    /// - Throws: the errors of ``call(_:params:timeout:)``, and `protocolViolation` if the result cannot be read.
    package func call<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, timeout: Duration? = nil
    ) async throws(LarderClientError) -> Method.Result {
        try await send(method, parameters, timeout: timeout).result
    }

    /// The maximum size of values that are encoded on the thread of the caller. Encoding larger ones, and checking their
    /// depth, could occupy the actor of the caller for longer than a change of the thread.
    private static let maximumSizeOnCaller = 4096

    /// Sends a typed request. Returns the result and the connection that it came from. Large parameters are encoded on
    /// another thread than that of an actor which calls this method.
    func send<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, timeout: Duration? = nil,
        purpose: CallPurpose = .answer, over slot: ConnectionSlot? = nil
    ) async throws(LarderClientError) -> (result: Method.Result, connection: Connection) {
        parameters.valueSize > Self.maximumSizeOnCaller
            ? try await concurrently { () async throws(LarderClientError) in
                try await self.encode(method, parameters, timeout: timeout, purpose: purpose, over: slot)
            }
            : try await encode(method, parameters, timeout: timeout, purpose: purpose, over: slot)
    }

    private func encode<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, timeout: Duration?, purpose: CallPurpose,
        over slot: ConnectionSlot?
    ) async throws(LarderClientError) -> (result: Method.Result, connection: Connection) {
        let (value, connection) = try await send(
            Method.name, timeout: timeout, waitsForNetwork: parameters.waitsForNetwork, purpose: purpose, over: slot
        ) { writer in
            parameters.write(to: &writer)
        }
        return (try Method.read(value), connection)
    }

    /// Subscribes over the first connection that has room for another subscription.
    /// - Throws: `tooManyStreams` if no connection has room; also the errors of ``call(_:params:timeout:)``.
    func subscribe(
        _ parameters: ConfigSubscribe.Parameters, _ receiver: any EventReceiver
    ) async throws(LarderClientError) -> OpenSubscription {
        for slot in [slot] + furtherSlots {
            do throws(LarderClientError) {
                let (result, connection) = try await send(
                    ConfigSubscribe.self, parameters, purpose: .subscription(receiver), over: slot)
                return OpenSubscription(connection: connection, number: result.subscription)
            } catch {
                guard error.remoteError?.code == .limitExceeded else { throw error }
                // The error is the same if another limit is reached, for example that of the user.
                let (info, connection) = try await send(AgentInfo.name, timeout: nil, over: slot) {
                    $0.value(.emptyObject)
                }
                guard let limit = info["limits"]?["subscriptionsPerConnection"]?.int,
                    await connection.subscriptionCount() >= limit
                else { throw error }
            }
        }
        throw LarderClientError(
            .tooManyStreams,
            "the \(Self.maximumConnections) connections of the client have as many subscriptions as the agent permits",
            advice: "follow a path that contains several of the values, or use another client")
    }

    /// Connects, runs `body` and closes the connection.
    ///
    /// ```swift
    /// try await LarderClient.withConnection(socket: "/run/larder/larder.sock") { client in
    ///     let change = try await client.config.set(25, at: "search.limit", ttl: .seconds(600))
    ///     print("revision \(change.revision)")
    /// }
    /// ```
    /// - Parameters:
    ///   - socket: the path of the agent socket; nil for ``LarderSocket/defaultPath``.
    ///   - configuration: timeouts and limits of the client.
    ///   - body: uses the client. The client is closed when `body` returns or throws.
    /// - Returns: the result of `body`.
    /// - Throws: ``LarderClientError`` with `unreachable` if the connection cannot be made, or with `cancelled` if the
    ///   task was already cancelled; also the errors of `body`.
    public static func withConnection<Result>(
        socket: String? = nil, configuration: Configuration = Configuration(),
        _ body: (LarderClient) async throws -> Result
    ) async throws -> Result {
        let client = LarderClient(socket: socket, configuration: configuration)
        defer { client.close() }
        if Task.isCancelled { throw LarderClientError.cancelled }
        _ = try await client.slot.connection()
        return try await body(client)
    }

    /// Keeps the client connected until the task is cancelled, then closes the client. Long-running services use this
    /// method.
    ///
    /// ```swift
    /// let client = LarderClient()
    /// try await withThrowingTaskGroup { group in
    ///     group.addTask { try await client.run() }
    ///     group.addTask {
    ///         for try await snapshot in client.config.snapshots(at: "search") {
    ///             print("revision \(snapshot.revision)")
    ///         }
    ///     }
    ///     try await group.next()
    ///     group.cancelAll()
    /// }
    /// ```
    ///
    /// If the connection breaks, the client reconnects after a random delay (``Configuration/backoff``). Calls do not
    /// wait for that delay, nor for `run()` to start: a call that finds no connection makes one. After `run()` returns,
    /// every call fails with `closed`.
    ///
    /// Call this method once. It returns when its task is cancelled, and throws only errors that a retry cannot resolve.
    /// - Throws: `alreadyRunning` if the method was called before, `closed` if the client is closed, `invalidArgument` if
    ///   the path of the socket is empty, `unreachable` if it is too long.
    public func run() async throws(LarderClientError) {
        if hasRun.exchange(true, ordering: .relaxed) {
            throw LarderClientError(
                .alreadyRunning, "run() was called a second time", advice: "call it once for each client")
        }
        defer { close() }
        var failures = 0
        while !Task.isCancelled {
            let age = configuration.clock.stopwatch()
            var failure: LarderClientError?
            do throws(LarderClientError) {
                let connection = try await slot.connection()
                await connection.waitUntilClosed()
                if age() > configuration.backoff.cap { failures = 0 }
            } catch {
                if Task.isCancelled { return }
                guard error.isOutage else { throw error }
                failure = error
            }
            if Task.isCancelled { return }
            let delay = configuration.backoff.delay(beforeAttempt: failures)
            failures += 1
            if let failure { slot.monitor.failed(nil, failure, retryAfter: delay) }
            try? await configuration.clock.sleep(for: delay)
        }
    }

    private func send(
        _ method: String, timeout: Duration?, waitsForNetwork: Bool = false, purpose: CallPurpose = .answer,
        over slot: ConnectionSlot? = nil, params: (inout JSONWriter) -> Void
    ) async throws(LarderClientError) -> (result: JSONValue, connection: Connection) {
        try transport.check(method)
        let slot = slot ?? self.slot
        let elapsed = configuration.onEvent == nil ? nil : configuration.clock.stopwatch()
        defer {
            if let duration = elapsed?(), duration >= configuration.slowCall, method != ConfigWait.name {
                configuration.onEvent?(.slowCall(method: method, duration: duration))
            }
        }
        var canRetry = false
        var timeout = timeout ?? configuration.timeout
        switch purpose {
        case .answer: canRetry = MethodEffects.repeatable.contains(method)
        // A prefetch may take arbitrarily long.
        case .prefetch: timeout = nil
        case .subscription, .lease: break
        }
        try CallArguments.check(timeout: timeout, of: method)
        // The connection may close after it was chosen but before the request is written. The request was then not
        // sent, and the next attempt uses another connection.
        for _ in 0..<3 {
            if Task.isCancelled { throw .cancelled }
            let connection = try await slot.connection()
            let outcome = await connection.call(
                method, timeout: timeout, waitsForNetwork: waitsForNetwork, purpose: purpose, params: params)
            switch outcome {
            case .result(let value): return (value, connection)
            case .failure(let error) where canRetry && error.code == .disconnected:
                canRetry = false
                slot.monitor.failed(method, error, retryAfter: .zero)
            case .failure(let error):
                // A stream subscribes again.
                if case .subscription = purpose { throw error }
                throw error.advised(for: method)
            case .notSent: continue
            }
        }
        throw LarderClientError(
            .disconnected, "the agent closed 3 connections in a row", advice: "check the agent's log")
    }
}

extension WireMethod {
    /// Parses the result of a call. Throws `protocolViolation` if it is invalid.
    static func read(_ value: JSONValue) throws(LarderClientError) -> Result {
        do {
            return try Result(from: value)
        } catch {
            throw LarderClientError(.protocolViolation, "the result of \(name) is invalid: \(error.detail)")
        }
    }
}

/// The `agent.*` methods: information about the agent itself. Available as ``LarderClient/agent``.
///
/// ```swift
/// try await client.agent.ping()
/// print(try await client.agent.info().version)
/// ```
///
/// All methods throw ``LarderClientError``. ``LarderClient/call(_:params:timeout:)`` calls the methods that have no
/// function here, such as `agent.stats` and `agent.clients`.
public struct AgentClient: Sendable {
    let client: LarderClient

    /// Returns the agent's version, its namespaces, and the rights of this process.
    ///
    /// ```swift
    /// let info = try await client.agent.info()
    /// print("\(info.name) \(info.version), \(info.namespaces.count) namespaces")
    /// ```
    public func info() async throws(LarderClientError) -> LarderAgentInfo {
        LarderAgentInfo(try await client.call(AgentInfo.self, NoParameters()))
    }

    /// Checks that the agent responds. Returns when its reply arrives.
    ///
    /// - Throws: `timeout` if there is no reply within ``LarderClient/Configuration/timeout``.
    public func ping() async throws(LarderClientError) {
        _ = try await client.call(AgentPing.self, NoParameters())
    }

    /// Returns the status of all namespaces that this process may read, in ascending order of name.
    ///
    /// ```swift
    /// for namespace in try await client.agent.namespaces() where namespace.state != .fresh {
    ///     print(namespace.name, namespace.state, namespace.lastError?.message ?? "")
    /// }
    /// ```
    public func namespaces() async throws(LarderClientError) -> [NamespaceStatus] {
        try await client.call(ConfigStatus.self, ConfigStatus.Parameters()).namespaces.map(NamespaceStatus.init)
    }
}

/// Information about an agent; see ``AgentClient/info()``.
public struct LarderAgentInfo: Sendable, Equatable {
    /// The name of the program, `larderd`.
    public let name: String
    /// The version of the program.
    public let version: String
    /// The version of the protocol.
    public let protocolVersion: Int
    /// The process ID of the agent.
    public let processID: Int
    /// When the agent started.
    public let startedAt: LarderTime
    /// The time since the agent started, by a monotonic clock.
    public let uptime: Duration
    /// The epoch of the state directory.
    public let epoch: String
    /// The path of the socket. For an abstract socket, `@` and its name.
    public let socket: String
    /// The names of the namespaces that this process may read, in ascending order.
    public let namespaces: [String]
    /// The rights of this process, except in namespaces with their own access rules.
    public let rights: Set<LarderRight>
    /// The rights of this process in each namespace with its own access rules. Namespaces in which it has no rights are
    /// left out.
    public let namespaceRights: [String: Set<LarderRight>]
    /// The problems of the agent, in words: invalid settings, an image cache that cannot be used, and others.
    public let problems: [String]

    /// Creates information from its properties, for example for tests.
    public init(
        name: String = "larderd", version: String, protocolVersion: Int = 1, processID: Int, startedAt: LarderTime,
        uptime: Duration, epoch: String, socket: String, namespaces: [String], rights: Set<LarderRight>,
        namespaceRights: [String: Set<LarderRight>] = [:], problems: [String] = []
    ) {
        self.name = name
        self.version = version
        self.protocolVersion = protocolVersion
        self.processID = processID
        self.startedAt = startedAt
        self.uptime = uptime
        self.epoch = epoch
        self.socket = socket
        self.namespaces = namespaces
        self.rights = rights
        self.namespaceRights = namespaceRights
        self.problems = problems
    }

    init(_ wire: AgentInfo.Result) {
        (name, version, protocolVersion) = (wire.name, wire.version, wire.protocolVersion)
        (processID, startedAt) = (wire.pid, LarderTime(wire.startedAt))
        (uptime, epoch, socket) = (.milliseconds(wire.uptimeMilliseconds), wire.epoch, wire.socket)
        (namespaces, rights) = (wire.namespaces, Set(wire.rights.map(LarderRight.init)))
        namespaceRights = wire.namespaceRights.mapValues { Set($0.map(LarderRight.init)) }
        problems =
            [wire.settingsProblem, wire.imageProblem, wire.threadProblem].compactMap(\.self)
            + wire.problems.map(\.message)
    }
}

extension JSONPath {
    /// Parses a path that the caller of this library passed. Throws `invalidArgument` if it is malformed.
    package init(argument: String) throws(LarderClientError) {
        do {
            try self.init(parsing: argument)
        } catch {
            throw LarderClientError(
                .invalidArgument, "\"\(argument)\" is not a valid path: \(error.reason)",
                advice: "write a path such as search.limit, or a JSON Pointer such as /search/limit")
        }
    }
}
