import LarderProtocol
import NIOCore
import LarderJSON

/// Runs the requests of a connection that wait for an actor or an event, and completes them.
struct RequestRunner {
    /// The requests of a connection that have no reply yet. Only ``RequestRunner`` changes it.
    struct State {
        fileprivate var pending = PendingRequests()
    }

    let connection: Connection

    private var loop: LoopContext { connection.loop }
    private var output: ReplyWriter { connection.output }

    /// The number of started requests without a reply.
    var count: Int { connection.requestState.pending.count }

    /// Completes a pending request and writes its reply.
    /// - Parameter reservation: the memory that the task of the request has reserved for the reply
    func complete(
        _ ticket: PendingRequests.Ticket, _ result: Result<any WireResult, WireError>,
        reservation: ReplyReservation? = nil
    ) {
        switch connection.requestState.pending.complete(ticket) {
        case .unknown: break
        case .orphaned(let bytes):
            loop.registry.users.removeOrphanedRequest(connection.usage.user, chargedBytes: bytes)
        case .answer(let request):
            loop.traffic.requestsInFlight -= 1
            connection.usage.removeRequests(1, chargedBytes: request.chargedBytes)
            connection.replacing(reservation ?? request.reservation) {
                output.complete(request, result)
                output.flush()
            }
            connection.resumeRequests()
            connection.closeIfDone()
        }
    }

    /// Cancels the pending requests with an id. A client may use an id for several requests.
    /// - Returns: whether there were any
    func cancel(_ id: RequestID, _ reason: WireError) -> Bool {
        let tickets = connection.requestState.pending.tickets(id: id)
        for ticket in tickets { connection.requestState.pending[ticket]?.cancel(reason) }
        return !tickets.isEmpty
    }

    /// Cancels the pending requests that the peer has lost the right to. Those with the lifetime
    /// ``PendingRequests/Lifetime/committed`` continue.
    func reviewAccess() {
        for ticket in connection.requestState.pending.tickets(.connection) {
            guard let request = connection.requestState.pending[ticket],
                let denial = connection.denial(of: request.admission.requirement, by: request.admission.method),
                denial.isDenied
            else { continue }
            request.denial = denial.error
            request.cancel(denial.error)
        }
    }

    /// Cancels the pending requests that are not committed, because the agent stops or the connection is closed.
    func cancelAll() {
        if connection.requestState.pending.isEmpty { return }
        let reason = WireError(.shuttingDown, "the agent is stopping; retry after it has restarted")
        for ticket in connection.requestState.pending.tickets(.connection) {
            connection.requestState.pending[ticket]?.cancel(reason)
        }
    }

    /// Drops the pending requests, because the connection is closed.
    func close() {
        let ended = connection.requestState.pending.connectionClosed()
        loop.traffic.requestsInFlight -= ended.requests
        connection.usage.removeRequests(ended.places, chargedBytes: ended.bytes)
    }

    /// Starts the task of an admitted request.
    func start<Result: WireResult>(
        _ reply: TaskReply<Result>, id: RequestID?, _ params: JSONValue?, _ admission: Admission,
        _ lifetime: PendingRequests.Lifetime, in slot: BatchSlot?
    ) throws(WireError) {
        let ticket: PendingRequests.Ticket
        let reservation: ReplyReservation?
        do throws(WireError) {
            let bytes = reply.retainedBytes + Self.retainedBytes(id: id, params?.detachedMemory ?? 0)
            reservation = try reserve(reply.size, for: bytes)
            ticket = try begin(id, bytes, admission, lifetime, in: slot)
        } catch {
            reply.onRefusal?()
            throw error
        }
        reply.start(self, ticket, reservation)
        if let deadline = reply.deadline { expire(ticket, deadline) }
    }

    /// Starts an admitted request that the store or the subscription hub completes.
    /// - Parameters:
    ///   - parameterBytes: the memory of the parameters that the request retains
    ///   - retainedBytes: the other memory that the request retains
    ///   - begin: starts to wait, and returns a function that cancels the wait
    func start<Result: WireResult>(
        _ size: ReplySize, _ deadline: ReplyDeadline?, id: RequestID?, parameterBytes: Int, retainedBytes: Int,
        _ admission: Admission, _ lifetime: PendingRequests.Lifetime, in slot: BatchSlot?,
        _ begin: (Completion<Result>) -> Cancellation
    ) throws(WireError) {
        let bytes = retainedBytes + Self.retainedBytes(id: id, parameterBytes)
        let ticket = try self.begin(
            id, bytes, admission, lifetime, in: slot, reservation: try reserve(size, for: bytes))
        let cancellation = begin(Completion(connection, ticket))
        if let pending = connection.requestState.pending[ticket] {
            pending.onCancel = cancellation
        } else if lifetime == .connection {
            // The request is no longer pending, because the connection was closed while `begin` ran.
            cancellation(.disconnected)
        }
        if let deadline { expire(ticket, deadline) }
    }

    /// Runs the operation of a ``TaskReply``, and completes the request.
    func run<Value: Sendable, Result: WireResult>(
        _ operation: @escaping @Sendable (inout ReplyMemory) async throws(WireError) -> Value,
        for ticket: PendingRequests.Ticket, _ size: ReplySize, _ reservation: ReplyReservation?,
        endsOnCancellation: Bool,
        finish: @escaping (Swift.Result<Value, WireError>, PendingRequest?) -> Swift.Result<Result, WireError>
    ) {
        let bound = NIOLoopBound((connection, finish), eventLoop: loop.eventLoop)
        let (eventLoop, usage) = (loop.eventLoop, connection.usage)
        // The task runs synchronously up to its first suspension, so that requests reach an actor in the order of
        // arrival.
        let task = Task.immediate {
            var memory = ReplyMemory(of: usage, reservation)
            let value: Swift.Result<Value, WireError>
            do throws(WireError) {
                if case .measured(let measure) = size {
                    let bytes = await measure()
                    do throws(UsageRefusal) { try memory.reserve(bytes) } catch { throw memory.error(of: error) }
                }
                value = .success(try await operation(&memory))
            } catch {
                value = .failure(error)
            }
            eventLoop.execute { [memory] in
                let (connection, finish) = bound.value
                if let refusal = memory.refusal { connection.loop.count(refusal, of: connection.credentials) }
                let result = finish(value, connection.requestState.pending[ticket])
                connection.requests.complete(ticket, result.map { $0 }, reservation: memory.reservation)
            }
        }
        connection.requestState.pending[ticket]?.onCancel = { [connection] reason in
            task.cancel()
            if endsOnCancellation { connection.requests.complete(ticket, .failure(reason)) }
        }
    }

    /// An upper bound of the memory that a pending request retains in bytes: its id, its parameters, and the state of
    /// the request.
    private static func retainedBytes(id: RequestID?, _ parameterBytes: Int) -> Int {
        stateBytes + (id?.text.utf8.count ?? 0) + parameterBytes
    }

    /// An upper bound of the memory of a pending request without parameters: the request, its closures and its task.
    private static let stateBytes = 2048

    /// Reserves memory for a reply, unless the task of the request does that. Also reserves memory for another copy of
    /// the parameters, because the reply to a dry run contains them.
    /// - Parameter parameterBytes: the memory of the parameters
    /// - Throws: `limitExceeded`
    private func reserve(_ size: ReplySize, for parameterBytes: Int) throws(WireError) -> ReplyReservation? {
        // A request of a closed connection has no reply, and must be executed.
        guard case .atMost(let bytes) = size, connection.phase != .closed else { return nil }
        return try connection.counted { usage throws(UsageRefusal) in try usage.reserveReply(bytes + parameterBytes) }
    }

    /// Adds a request to the pending requests.
    /// - Parameter bytes: the memory that the request retains
    /// - Throws: `limitExceeded` if the user has too many requests or too much is buffered for the user
    private func begin(
        _ id: RequestID?, _ bytes: Int, _ admission: Admission, _ lifetime: PendingRequests.Lifetime,
        in slot: BatchSlot?, reservation: ReplyReservation? = nil
    ) throws(WireError) -> PendingRequests.Ticket {
        if connection.phase == .closed {
            connection.usage.admitOrphan(bytes)
        } else {
            try connection.counted { usage throws(UsageRefusal) in
                try usage.admitRequest(bytes, batchBytes: slot?.batch.ownRequestBytes ?? 0)
            }
        }
        loop.traffic.requestsInFlight += 1
        return connection.requestState.pending.add(
            PendingRequest(
                id: id, admission: admission, slot: slot, lifetime: lifetime, chargedBytes: bytes,
                reservation: reservation))
    }

    /// Fails a pending request after a time, unless it is completed first.
    private func expire(_ ticket: PendingRequests.Ticket, _ deadline: ReplyDeadline) {
        connection.requestState.pending[ticket]?.deadline = loop.eventLoop.assumeIsolated().scheduleTask(
            in: deadline.time
        ) {
            [connection] in
            connection.requestState.pending[ticket]?.cancel(deadline.error)
            deadline.onExpiry?()
            // The reply is deferred, so that other connections are served first if thousands of requests have the same
            // deadline.
            connection.loop.deferWork { connection.requests.complete(ticket, .failure(deadline.error)) }
        }
    }
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
    let start: (RequestRunner, PendingRequests.Ticket, ReplyReservation?) -> Void

    init(size: ReplySize, _ operation: @escaping @Sendable () async throws(WireError) -> Result) {
        self.init(size: size, operation) { result, _ in result }
    }

    /// - Parameter operation: makes a result that is encoded in the task, so that the event loop only copies it
    init(encoding size: ReplySize, _ operation: @escaping @Sendable () async throws(WireError) -> Result) {
        self.size = size
        start = { runner, ticket, reservation in
            runner.run(
                { (_) async throws(WireError) in EncodedResult(try await operation()) }, for: ticket, size, reservation,
                endsOnCancellation: false
            ) { result, _ in result }
        }
    }

    /// - Parameter operation: makes the result in chunks, and reserves memory before each of them
    init(_ operation: @escaping @Sendable (inout ReplyMemory) async throws(WireError) -> Result) {
        size = .small
        start = { runner, ticket, reservation in
            runner.run(operation, for: ticket, .small, reservation, endsOnCancellation: false) { result, _ in
                result
            }
        }
    }

    /// - Parameter start: starts the task of a pending request
    private init(size: ReplySize, start: @escaping (RequestRunner, PendingRequests.Ticket, ReplyReservation?) -> Void) {
        (self.size, self.start) = (size, start)
    }

    /// - Parameter operation: reserves memory, and makes a result that is encoded in the task
    static func encoding(
        _ operation: @escaping @Sendable (inout ReplyMemory) async throws(WireError) -> Result
    ) -> Self {
        Self(
            size: .small,
            start: { runner, ticket, reservation in
                runner.run(
                    { (memory) async throws(WireError) in EncodedResult(try await operation(&memory)) }, for: ticket,
                    .small, reservation, endsOnCancellation: false
                ) { result, _ in result }
            })
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
        start = { runner, ticket, reservation in
            runner.run(
                { (_) async throws(WireError) in try await operation() }, for: ticket, size, reservation,
                endsOnCancellation: endsOnCancellation, finish: finish)
        }
    }
}

/// A result as JSON text.
private struct EncodedResult: WireResult {
    private let text: [UInt8]

    init(_ result: some WireResult) {
        var writer = JSONWriter()
        result.write(to: &writer)
        text = writer.bytes
    }

    init(from value: JSONValue) throws(WireError) { text = Array(value.compactText.utf8) }

    func write(to writer: inout JSONWriter) { text.withUnsafeBytes { writer.raw($0) } }
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
        eventLoop.execute { connection.value.requests.complete(ticket, result.map { $0 }) }
    }

    /// Completes the request on its event loop, after all connections with input were served.
    func completeDeferred(_ result: Result<Value, WireError>) {
        let (connection, ticket) = (connection.value, ticket)
        connection.loop.deferWork { connection.requests.complete(ticket, result.map { $0 }) }
    }
}
