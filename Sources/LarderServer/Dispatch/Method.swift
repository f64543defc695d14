import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

/// The implementation of a protocol method in the agent. The name, parameters, result, requirement and registration
/// (``MethodRegistry/agent``) of the method are generated from its schema.
protocol Method: AuthorizedMethod {
    /// The fate of a pending request when its client disconnects. After the disconnection, a waiting batch still starts
    /// its requests with the lifetime `committed`, but no others.
    static var lifetime: PendingRequests.Lifetime { get }
    /// Whether a notification (a request without an id) of this method is ignored, because the method is useless
    /// without a reply.
    static var needsReply: Bool { get }
    /// Carries out a request that was admitted.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result>
}

extension Method {
    static var lifetime: PendingRequests.Lifetime { .connection }
    static var needsReply: Bool { false }
}

/// How a request gets its reply. This can differ between requests of the same method.
enum Outcome<Result: WireResult> {
    /// The reply is written on the event loop. Its documents are shared with other owners, so that only the encoded
    /// reply takes memory.
    /// - source: the snapshot that the reply was read from. While that snapshot is current, the reply cache sends this
    ///   reply to lines that differ only in their id (``RequestTemplate``). Nil if the reply must not be cached.
    /// - afterReply: runs after the reply was written, even if the reply has to wait for its batch
    case now(Result, source: SnapshotSource? = nil, afterReply: (() -> Void)? = nil)
    /// A task computes the reply.
    case task(TaskReply<Result>)
    /// The store or the subscription hub completes the request.
    /// - size: the memory that the reply takes
    /// - deadline: when the request fails unless it is completed first
    /// - parameterBytes: the memory of the parameters that the request retains while it waits; nil if that is at most
    ///   one copy of them (``JSONValue/detached()``)
    /// - retainedBytes: the other memory that the request retains while it waits
    /// - begin: starts to wait, and returns a function that cancels the wait
    case later(
        size: ReplySize, deadline: ReplyDeadline? = nil, parameterBytes: Int? = nil, retainedBytes: Int = 0,
        begin: (Completion<Result>) -> Cancellation)
}

/// The memory that a reply takes from its creation until it is written to the socket or queued. Memory for a large
/// reply is reserved before the reply is built, and the request is refused if the user's limit does not permit that.
/// Otherwise a client that sends many requests and reads no reply could make the agent build all replies at once.
enum ReplySize {
    /// The reply takes little memory, or consists of documents that have other owners, such as the current snapshot.
    case small
    /// The reply takes at most this number of bytes.
    case atMost(Int)
    /// The closure returns an upper bound in bytes. It runs in the task of the request, before its operation.
    case measured(@Sendable () async -> Int)
}

/// The memory that is reserved for the reply of a task.
struct ReplyMemory: Sendable {
    let usage: ConnectionUsage
    /// Nil for a small reply.
    var reservation: ReplyReservation?
    /// The refusal that ended the task; nil if the task was not refused.
    private(set) var refusal: UsageRefusal?

    init(of usage: ConnectionUsage, _ reservation: ReplyReservation?) {
        (self.usage, self.reservation) = (usage, reservation)
    }

    /// Makes or changes the reservation.
    /// - Parameter bytes: an upper bound of the memory of the reply
    mutating func reserve(_ bytes: Int) throws(UsageRefusal) {
        if let reservation {
            try reservation.resize(to: bytes, usage.limits)
        } else {
            reservation = try usage.reserveReply(bytes)
        }
    }

    /// The error of a request that a refusal ends. Records the refusal, so that it is counted.
    mutating func error(of refusal: UsageRefusal) -> WireError {
        self.refusal = refusal
        return refusal.error
    }
}

/// Cancels the work of a request, for the given reason. The work still completes the request unless the request's
/// deadline has passed.
typealias Cancellation = (WireError) -> Void

/// The time after which a request fails unless it has been completed, and the error that it then fails with.
struct ReplyDeadline {
    let time: TimeAmount
    let error: WireError
    /// Called before the reply if the time has passed.
    var onExpiry: (() -> Void)?
}

/// A reply that a task computes. The task runs on the event loop up to its first suspension, so that requests reach an
/// actor in the order of arrival.
struct TaskReply<Result: WireResult> {
    /// The memory that the reply takes, including what the operation builds before.
    let size: ReplySize
    var deadline: ReplyDeadline?
    /// The memory in bytes that the task retains while it runs, in addition to one copy of the request's parameters. The
    /// task must not retain a value of the request that is not detached, because that value would retain the memory of
    /// the whole line.
    var retainedBytes = 0
    /// Called if the request is not admitted, to release resources that were acquired for the task.
    var onRefusal: (() -> Void)?
    /// Starts the task of a pending request, with the memory that is reserved for its reply.
    let start: (RequestDispatcher, PendingRequests.Ticket, ReplyReservation?) -> Void

    init(size: ReplySize, _ operation: @escaping @Sendable () async throws(WireError) -> Result) {
        self.init(size: size, operation) { result, _ in result }
    }

    /// - Parameter operation: makes the result in chunks, and reserves memory before each of them
    init(_ operation: @escaping @Sendable (inout ReplyMemory) async throws(WireError) -> Result) {
        size = .small
        start = { dispatcher, ticket, reservation in
            dispatcher.run(operation, for: ticket, .small, reservation, endsOnCancellation: false) { result, _ in
                result
            }
        }
    }

    /// - Parameters:
    ///   - endsOnCancellation: whether a cancelled request is answered before the task has ended
    ///   - finish: makes the result on the event loop. It is called once. Its second argument is nil if the request is
    ///     no longer pending.
    init<Value: Sendable>(
        size: ReplySize, endsOnCancellation: Bool = false,
        _ operation: @escaping @Sendable () async throws(WireError) -> Value,
        finish: @escaping (Swift.Result<Value, WireError>, PendingRequest?) -> Swift.Result<Result, WireError>
    ) {
        self.size = size
        start = { dispatcher, ticket, reservation in
            dispatcher.run(
                { (_) async throws(WireError) in try await operation() }, for: ticket, size, reservation,
                endsOnCancellation: endsOnCancellation, finish: finish)
        }
    }
}

/// Completes one request with a result of its method.
struct Completion<Value: WireResult>: Sendable {
    private let connection: NIOLoopBound<Connection>
    private let eventLoop: any EventLoop
    private let ticket: PendingRequests.Ticket

    init(_ connection: Connection, _ ticket: PendingRequests.Ticket) {
        eventLoop = connection.loop.eventLoop
        self.connection = NIOLoopBound(connection, eventLoop: eventLoop)
        self.ticket = ticket
    }

    /// Completes the request. May be called from any thread.
    func complete(_ result: Result<Value, WireError>) {
        eventLoop.execute { connection.value.dispatcher.complete(ticket, result.map { $0 }) }
    }

    /// Completes the request on its event loop, after all connections with input were served.
    func completeDeferred(_ result: Result<Value, WireError>) {
        let (connection, ticket) = (connection.value, ticket)
        connection.loop.deferWork { connection.dispatcher.complete(ticket, result.map { $0 }) }
    }
}

/// The methods that the server implements, by name.
struct MethodRegistry {
    /// Carries out the requests of one method.
    struct Handler {
        typealias Serve = (RequestDispatcher, Request, BatchSlot?, RequestTemplate?) throws(WireError) -> Void

        let lifetime: PendingRequests.Lifetime
        let needsReply: Bool
        let serve: Serve
    }

    private var handlers: [Handler] = []
    /// The names of the methods, in the order of ``handlers``.
    private var registered: [String] = [] { didSet { index = NameIndex(registered) } }
    private var index = NameIndex([])

    /// The names of all methods, sorted.
    var names: [String] { registered.sorted() }

    /// The handler of the method of a request; nil if there is no such method.
    subscript(request: Request) -> Handler? { request.methodPosition(in: index).map { handlers[$0] } }

    /// Adds the handler of a method that has none.
    mutating func add(_ name: String, _ handler: Handler) {
        registered.append(name)
        handlers.append(handler)
    }

    mutating func register<M: Method>(_ method: M.Type) {
        add(
            M.name,
            Handler(lifetime: M.lifetime, needsReply: M.needsReply) {
                (dispatcher, request, slot, template) throws(WireError) in
                try dispatcher.call(M.self, request, in: slot, template)
            })
    }
}

/// An admitted request, with access to everything that its method may use.
struct MethodCall<Method: AuthorizedMethod> {
    let parameters: Method.Parameters
    let request: Request
    let isInBatch: Bool
    /// The template of the request's line; nil if the line has none or is a batch, or if the id that the template found
    /// is not the id of the request.
    let template: RequestTemplate?
    let connection: Connection

    /// Nil for a notification.
    var id: RequestID? { request.id }
    var loop: LoopContext { connection.loop }
    var server: ServerContext { connection.loop.server }
    var peer: PeerCredentials { connection.credentials }
    /// The peer, for the provenance of a change.
    var author: Peer { connection.author }

    /// Returns the namespace with a name.
    /// - Throws: `unknownNamespace`. The error lists the namespaces that the peer may know of.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = server.namespaces[name] { return namespace }
        throw server.authorizer.unknownNamespace(name, connection.rights)
    }

    /// The context for a task that executes this request.
    var context: RequestContext {
        RequestContext(server: server, connections: loop.registry, peer: peer, rights: connection.rights)
    }
}
