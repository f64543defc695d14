import JSON
import LarderConfig
import LarderWire

/// What the server can be asked: each method's name and what answers it.
struct MethodTable {
    /// How a method is answered.
    enum Answer {
        /// At once, on the connection's event loop, into the output: for what needs no waiting.
        case immediate(Immediate)
        /// At once, from a snapshot; the encoded reply serves again as long as the snapshot is current. Where the snapshot
        /// does not do, later, by a task that gets another one.
        case reading(Reading, orLater: Deferred)
        /// Later, by a task. What it starts synchronously is started in the order of the requests.
        case deferred(Deferred, endsWithConnection: Bool)
        /// By the session itself, when a condition holds.
        case waiting(Waiting)
        /// By the session itself, because it changes the session: subscriptions and cancellation.
        case session(InSession, needsReply: Bool)
        /// By the session itself, which writes the reply, now or later.
        case own(Own)

        var isDeferred: Bool {
            if case .deferred = self { true } else { false }
        }
    }

    typealias Immediate = (RequestScope, JSONValue?, inout JSONWriter) throws(WireError) -> Void
    typealias Reading = (RequestScope, JSONValue?) throws(WireError) -> SnapshotReading?
    typealias Deferred = @Sendable (RequestScope, JSONValue?) async throws(WireError) -> any WireResult
    typealias Waiting = (RequestScope, JSONValue?) throws(WireError) -> SnapshotWait
    typealias Own = (SessionHandler, Request, BatchPlace?, RequestWords?) -> Void
    typealias InSession = (SessionHandler, JSONValue?) throws(WireError) -> SessionReply

    /// A result, and the snapshot that it was read from.
    struct SnapshotReading {
        var publication: ConfigPublication
        var current: ConfigPublication.Current
        var result: ConfigGet.Result
        /// Whether the same words get the same reply as long as the snapshot is current.
        var isRepeatable: Bool
    }

    /// What a method that changes the session leaves to do after its reply was written.
    struct SessionReply {
        var result: any WireResult
        var afterwards: (() -> Void)?
    }

    private var answers: [String: Answer] = [:]

    /// The names of all methods, sorted.
    var names: [String] { answers.keys.sorted() }

    subscript(name: String) -> Answer? { answers[name] }

    /// Adds a method by its name.
    mutating func add(_ name: String, _ answer: Answer) { answers[name] = answer }

    /// Adds a method that is answered at once.
    mutating func immediate<Method: WireMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .immediate { (scope, params, writer) throws(WireError) in
            try body(scope, Method.Parameters(params: params)).write(to: &writer)
        }
    }

    /// Adds a method that reads the current snapshot.
    /// - Parameters:
    ///   - body: reads it; nil where that snapshot does not do
    ///   - later: gets one that does
    mutating func reading<Method: WireMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> SnapshotReading?,
        orLater later: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .reading(
            { (scope, params) throws(WireError) in try body(scope, Method.Parameters(params: params)) },
            orLater: { (scope, params) async throws(WireError) -> any WireResult in
                try await later(scope, Method.Parameters(params: params))
            })
    }

    /// Adds a method that is answered when a condition holds in the current snapshot.
    mutating func waiting<Method: WireMethod>(
        _ method: Method.Type, _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> SnapshotWait
    ) {
        answers[Method.name] = .waiting { (scope, params) throws(WireError) in
            try body(scope, Method.Parameters(params: params))
        }
    }

    /// Adds a method that waits for something.
    /// - Parameter endsWithConnection: whether it is given up when the client goes away. What a client hands over is
    ///   not.
    mutating func deferred<Method: WireMethod>(
        _ method: Method.Type, endsWithConnection: Bool,
        _ body: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .deferred(
            { (scope, params) async throws(WireError) -> any WireResult in
                try await body(scope, Method.Parameters(params: params))
            }, endsWithConnection: endsWithConnection)
    }

    /// Adds a method that the session answers, now or later.
    mutating func own<Method: WireMethod>(_ method: Method.Type, _ body: @escaping Own) {
        answers[Method.name] = .own(body)
    }

    /// Adds a method that changes the session.
    /// - Parameter needsReply: whether it has no use, and so no effect, as a notification.
    mutating func session<Method: WireMethod>(
        _ method: Method.Type, needsReply: Bool = false,
        _ body: @escaping (SessionHandler, Method.Parameters) throws(WireError) -> SessionReply
    ) {
        answers[Method.name] = .session(
            { (session, params) throws(WireError) in try body(session, Method.Parameters(params: params)) },
            needsReply: needsReply)
    }
}

/// What a method may know of the request's surroundings.
struct RequestScope: Sendable {
    /// What the whole server shares.
    let context: ServerContext
    /// All connections, for the methods that tell of them.
    let connections: ConnectionRegistry
    /// Whom the request comes from.
    let peer: PeerCredentials
}
