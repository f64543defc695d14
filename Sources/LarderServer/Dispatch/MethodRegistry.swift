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
        var requirement: Requirement
        var result: ConfigGet.Result
        /// Whether lines with the same template get the same reply as long as the snapshot is current.
        var isRepeatable: Bool
    }

    /// A request that the connection answers by itself.
    struct OwnRequest<Method: AuthorizedMethod> {
        /// Nil for a notification.
        var id: RequestID?
        var parameters: Method.Parameters
        var admission: Admission
        /// Where its reply belongs, if it came in a batch.
        var slot: BatchSlot?
        /// The line's, if it is certain that its id is the request's.
        var template: RequestTemplate?
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
    mutating func immediate<Method: AuthorizedMethod>(
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
    mutating func reading<Method: AuthorizedMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> SnapshotReading?,
        orLater later: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .reading(
            { (scope, params) throws(WireError) in try body(scope, scope.admit(Method.self, params).0) },
            orLater: Self.deferred(Method.self, later))
    }

    /// Adds a method that is answered when a condition holds in the current snapshot.
    mutating func waiting<Method: AuthorizedMethod>(
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
    mutating func deferred<Method: AuthorizedMethod>(
        _ method: Method.Type, endsWithConnection: Bool,
        _ body: @escaping @Sendable (RequestScope, Method.Parameters) async throws(WireError) -> Method.Result
    ) {
        answers[Method.name] = .deferred(Self.deferred(method, body), endsWithConnection: endsWithConnection)
    }

    private static func deferred<Method: AuthorizedMethod>(
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
    mutating func change<Method: AuthorizedMethod>(
        _ method: Method.Type,
        _ body: @escaping (RequestScope, Method.Parameters) throws(WireError) -> HandOver
    ) {
        answers[Method.name] = .change { (scope, params) throws(WireError) in
            let (parameters, admission) = try scope.admit(Method.self, params)
            return (try body(scope, parameters), admission)
        }
    }

    /// Adds a method that the connection answers, now or later.
    mutating func own<Method: AuthorizedMethod>(
        _ method: Method.Type,
        _ body: @escaping (Connection, OwnRequest<Method>) throws(WireError) -> Void
    ) {
        answers[Method.name] = .own { (connection, request, slot, template) throws(WireError) in
            let (parameters, admission) = try RequestScope(connection).admit(method, request.params)
            try body(
                connection,
                OwnRequest(id: request.id, parameters: parameters, admission: admission, slot: slot, template: template)
            )
        }
    }

    /// Adds a method that changes the connection.
    /// - Parameter needsReply: whether it has no use, and so no effect, as a notification.
    mutating func connection<Method: AuthorizedMethod>(
        _ method: Method.Type, needsReply: Bool = false,
        _ body: @escaping (Connection, Method.Parameters) throws(WireError) -> ConnectionReply
    ) {
        answers[Method.name] = .connection(
            { (connection, params) throws(WireError) in
                try body(connection, RequestScope(connection).admit(method, params).0)
            },
            needsReply: needsReply)
    }
}
