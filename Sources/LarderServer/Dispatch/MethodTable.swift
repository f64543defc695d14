import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderConfig
import LarderProtocol

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
        /// Later, by whoever commits what is handed over. It is carried out also when the client goes away.
        case change(Change)
        /// By the connection itself, when a condition holds.
        case waiting(Waiting)
        /// By the connection itself, because it changes the connection: subscriptions and cancellation.
        case connection(InConnection, needsReply: Bool)
        /// By the connection itself, which writes the reply, now or later.
        case own(Own)

        var isDeferred: Bool {
            switch self {
            case .deferred, .change: true
            case .immediate, .reading, .waiting, .connection, .own: false
            }
        }
    }

    // Each of them reads the parameters and then looks whether the peer may, before anything else.
    typealias Immediate = (RequestScope, JSONValue?, inout JSONWriter) throws(WireError) -> Void
    typealias Reading = (RequestScope, JSONValue?) throws(WireError) -> SnapshotReading?
    typealias Deferred = (RequestScope, JSONValue?) throws(WireError) -> Work
    typealias Change = (RequestScope, JSONValue?) throws(WireError) -> (HandOver, Admission)
    typealias Waiting = (RequestScope, JSONValue?) throws(WireError) -> (SnapshotWait, Admission)
    typealias Own = (Connection, Request, BatchSlot?, RequestTemplate?) throws(WireError) -> Void
    typealias InConnection = (Connection, JSONValue?) throws(WireError) -> ConnectionReply

    /// Hands over a change; the completion is told what came of it, on any thread.
    typealias HandOver = (@escaping @Sendable (Result<any WireResult, WireError>) -> Void) -> ChangeHandle

    /// What a task is to do for a request that was let in.
    struct Work: Sendable {
        var admission: Admission
        var run: @Sendable () async throws(WireError) -> any WireResult
    }

    /// A result, and the snapshot that it was read from.
    struct SnapshotReading {
        var publication: ConfigPublication
        var current: ConfigPublication.Current
        var result: ConfigGet.Result
        /// Whether the same words get the same reply as long as the snapshot is current.
        var isRepeatable: Bool
    }

    /// A request that the connection answers by itself.
    struct OwnRequest<Method: GuardedMethod> {
        /// Nil for a notification.
        var id: RequestID?
        var parameters: Method.Parameters
        var admission: Admission
        /// Where its reply belongs, if it came in a batch.
        var place: BatchSlot?
        /// The line's, where it is certain that their id is the request's.
        var words: RequestTemplate?
    }

    /// What a method that changes the connection leaves to do after its reply was written.
    struct ConnectionReply {
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
    mutating func immediate<Method: GuardedMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .immediate { (scope, params, writer) throws(WireError) in
            try body(scope, scope.admit(Method.self, params).0).write(to: &writer)
        }
    }

    /// Adds a method that reads the current snapshot.
    /// - Parameters:
    ///   - body: reads it; nil where that snapshot does not do
    ///   - later: gets one that does
    mutating func reading<Method: GuardedMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> SnapshotReading?,
        orLater later: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .reading(
            { (scope, params) throws(WireError) in try body(scope, scope.admit(Method.self, params).0) },
            orLater: Self.deferred(Method.self, later))
    }

    /// Adds a method that is answered when a condition holds in the current snapshot.
    mutating func waiting<Method: GuardedMethod>(
        _ method: Method.Type, _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> SnapshotWait
    ) {
        answers[Method.name] = .waiting { (scope, params) throws(WireError) in
            let (parameters, admission) = try scope.admit(Method.self, params)
            return (try body(scope, parameters), admission)
        }
    }

    /// Adds a method that waits for something.
    /// - Parameters:
    ///   - endsWithConnection: whether it is given up when the client goes away. What a client hands over is not.
    mutating func deferred<Method: GuardedMethod>(
        _ method: Method.Type, endsWithConnection: Bool,
        _ body: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .deferred(Self.deferred(method, body), endsWithConnection: endsWithConnection)
    }

    private static func deferred<Method: GuardedMethod>(
        _ method: Method.Type,
        _ body: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) -> Deferred {
        { (scope, params) throws(WireError) in
            let (parameters, admission) = try scope.admit(method, params)
            return Work(admission: admission) { () async throws(WireError) in
                try await body(scope, parameters)
            }
        }
    }

    /// Adds a method that hands over a change.
    mutating func change<Method: GuardedMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> HandOver
    ) {
        answers[Method.name] = .change { (scope, params) throws(WireError) in
            let (parameters, admission) = try scope.admit(Method.self, params)
            return (try body(scope, parameters), admission)
        }
    }

    /// Adds a method that the connection answers, now or later.
    mutating func own<Method: GuardedMethod>(
        _ method: Method.Type,
        _ body: @escaping (Connection, OwnRequest<Method>) throws(WireError) -> Void
    ) {
        answers[Method.name] = .own { (connection, request, place, words) throws(WireError) in
            let (parameters, admission) = try connection.scope.admit(method, request.params)
            try body(
                connection,
                OwnRequest(id: request.id, parameters: parameters, admission: admission, place: place, words: words))
        }
    }

    /// Adds a method that changes the connection.
    /// - Parameter needsReply: whether it has no use, and so no effect, as a notification.
    mutating func connection<Method: GuardedMethod>(
        _ method: Method.Type, needsReply: Bool = false,
        _ body: @escaping (Connection, Method.Parameters) throws(WireError) -> ConnectionReply
    ) {
        answers[Method.name] = .connection(
            { (connection, params) throws(WireError) in
                try body(connection, connection.scope.admit(method, params).0)
            },
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
    /// What the peer may do.
    let rights: PeerRights
    /// Runs short tasks on that loop; nil where it is none of the agent's own.
    let taskExecutor: LoopTaskExecutor?

    /// Reads the parameters of a request and looks whether the peer may have it carried out.
    /// - Throws: `invalidParams`; `denied`, which is logged; `unknownNamespace`
    func admit<Method: GuardedMethod>(
        _ method: Method.Type, _ params: JSONValue?
    ) throws(WireError) -> (Method.Parameters, Admission) {
        let parameters = try Method.Parameters(params: params)
        let admission = Admission(method, parameters)
        if let refusal = refusal(of: admission) { throw refusal }
        return (parameters, admission)
    }

    /// Why the peer may not have a request carried out, or not any more; nil where it may. It is logged.
    func refusal(of admission: Admission) -> WireError? {
        guard let refusal = rights.refusal(of: admission.need, context.namespaces) else { return nil }
        context.refusals.addRequest(refusal, to: admission.method, of: peer)
        return refusal
    }

    /// A namespace.
    /// - Throws: `unknownNamespace`, naming those that exist.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = context.namespaces[name] { return namespace }
        throw rights.unknownNamespace(name, context.namespaces)
    }

    /// The namespaces that the peer may read.
    var readableNamespaces: [ConfigNamespace] { context.namespaces.all.filter { rights.mayRead($0.name) } }

    /// What has to be masked in a namespace's values for the peer; nothing for one that may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        rights.rights(in: namespace.name).contains(.secrets) ? .none : namespace.configuration.secrets
    }
}
