// Values (`JSONValue`), the protocol's results (`ConfigStatus.Result`, `WireError`) and `MappedSnapshot` are part of this
// library's interface: who imports it can use their members without naming more modules.
@_exported public import LarderJSON
@_exported public import LarderProtocol
@_exported public import LarderSnapshotFile

/// A client of the local agent.
///
/// The scoped form suits programs that need the configuration once, and those whose work fits into one closure:
///
/// ```swift
/// try await LarderClient.withConnection { client in
///     let limit = try await client.config.value(at: "search.limit", as: Int.self)
///     print(limit)
/// }
/// ```
///
/// The long-running form suits services; see ``run()``.
///
/// One client is one connection, made when it is first needed and made again by the next call after it broke. Calls from
/// any number of tasks share it. A call in flight while it breaks, because the agent is restarted say, is made once more over
/// the next one if it only reads. Any other fails with `disconnected`, because nobody can tell whether the agent carried it
/// out. ``ConfigSnapshots`` goes on by itself.
public final class LarderClient: Sendable {
    /// How a client behaves.
    public struct Configuration: Sendable {
        /// How long a call may take; nil for ever. The default is 30 s.
        public var timeout: Duration? = .seconds(30)
        /// The delays between attempts to connect.
        public var backoff = Backoff()
        /// The most requests that the agent is given at once; more wait on this side, in order. The default is the
        /// agent's own limit for a connection, 64.
        public var maximumRequestsInFlight = 64
        /// The longest reply or event in bytes that is taken. The default is 64 MiB, four times the agent's limit for a
        /// document.
        public var maximumReplyBytes = 64 << 20
        /// The clock that measures delays between attempts.
        public var clock: any Clock<Duration> = ContinuousClock()
        /// Makes the default configuration.
        public init() {}
    }

    /// The path of the agent's socket.
    public let socket: String
    /// How this client behaves.
    public let configuration: Configuration

    let slot: ConnectionSlot
    let mappedSnapshots = MappedSnapshotStore()

    /// Makes a client. It connects when it is first needed.
    /// - Parameter socket: the path of the agent's socket; nil for ``LarderSocket/defaultPath``.
    public init(socket: String? = nil, configuration: Configuration = Configuration()) {
        self.socket = socket ?? LarderSocket.defaultPath
        self.configuration = configuration
        slot = ConnectionSlot(socket: self.socket, configuration: configuration)
    }

    deinit { slot.close() }

    /// The configuration: values, snapshots, changes.
    public var config: ConfigCommands { ConfigCommands(client: self) }

    /// Images, as files that stay while they are read.
    public var images: ImageCommands { ImageCommands(client: self) }

    /// The agent itself: who it is and how it does.
    public var agent: AgentCommands { AgentCommands(client: self) }

    /// Calls any method by its name and returns its result as it came.
    ///
    /// ```swift
    /// let stats = try await client.call("agent.stats")
    /// print(stats["requests"]?["total"]?.int ?? 0)
    /// ```
    /// - Parameters:
    ///   - params: an object or an array; nil for none.
    ///   - timeout: how long the call may take; nil for the client's own.
    public func call(
        _ method: String, params: JSONValue? = nil, timeout: Duration? = nil
    ) async throws(LarderClientError) -> JSONValue {
        try await send(method, timeout: timeout) { writer in
            writer.value(params ?? .emptyObject)
        }.result
    }

    /// Calls a method of the protocol by its type.
    ///
    /// ```swift
    /// let status = try await client.call(ConfigStatus.self, .init(namespace: "default"))
    /// ```
    public func call<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, timeout: Duration? = nil
    ) async throws(LarderClientError) -> Method.Result {
        try await send(method, parameters, timeout: timeout).result
    }

    /// Sends a typed request, and tells over which connection the answer came.
    func send<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, timeout: Duration? = nil,
        purpose: CallPurpose = .answer
    ) async throws(LarderClientError) -> (result: Method.Result, connection: Connection) {
        let (value, connection) = try await send(Method.name, timeout: timeout, purpose: purpose) { writer in
            parameters.write(to: &writer)
        }
        return (try Method.read(value), connection)
    }

    /// What can be asked once more where the answer did not come: it changes nothing, here or there, and says nothing of the
    /// connection.
    private static let readingMethods: Set<String> = [
        AgentInfo.name, AgentStats.name, AgentClients.name, RPCDiscover.name, ConfigGet.name, ConfigStatus.name,
        ConfigExplain.name, ConfigHistory.name, ConfigDiff.name, ConfigBackup.name, ImagePeek.name,
        ImageList.name,
    ]

    private func send(
        _ method: String, timeout: Duration?, purpose: CallPurpose = .answer, params: (inout JSONWriter) -> Void
    ) async throws(LarderClientError) -> (result: JSONValue, connection: Connection) {
        var mayRepeat = false
        if case .answer = purpose { mayRepeat = Self.readingMethods.contains(method) }
        // A connection may end between being picked and being written to; then nothing was sent and the next one serves.
        for _ in 0..<3 {
            if Task.isCancelled { throw .cancelled }
            let connection = try await slot.connection()
            let outcome = await connection.call(
                method, timeout: timeout ?? configuration.timeout, purpose: purpose, params: params)
            switch outcome {
            case .result(let value): return (value, connection)
            case .failure(let error) where mayRepeat && error.code == .disconnected: mayRepeat = false
            case .failure(let error): throw error
            case .notSent: continue
            }
        }
        throw LarderClientError(.disconnected, "the agent closes every connection at once", advice: "see its log")
    }
}

extension WireMethod {
    /// Reads the result of a call.
    static func read(_ value: JSONValue) throws(LarderClientError) -> Result {
        do {
            return try Result(from: value)
        } catch {
            throw LarderClientError(.protocolViolation, "the result of \(name) cannot be read: \(error.detail)")
        }
    }
}
