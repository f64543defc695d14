import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderProtocol
import NIOCore

/// Serves the request lines of a connection: from a cache if the line differs from an earlier one only in its id,
/// otherwise with the method of the parsed request.
struct RequestDispatcher {
    /// The maximum number of requests in a batch.
    static let maxBatchRequests = 64

    /// The requests of a connection that have no reply yet. Only ``RequestDispatcher`` changes it.
    struct State {
        fileprivate var batches = BatchState()
        fileprivate var pending = PendingRequests()
    }

    let connection: Connection

    private var loop: LoopContext { connection.loop }
    private var output: ReplyWriter { connection.output }

    /// Whether requests of a batch wait to be started. Input that follows the batch waits too.
    var isBatchWaiting: Bool { connection.requestState.batches.waiting != nil }
    /// The number of started requests without a reply.
    var pendingCount: Int { connection.requestState.pending.count }
    /// The number of bytes buffered for batches.
    var bufferedBytes: Int { connection.requestState.batches.chargedBytes }

    // MARK: Lines

    /// Serves a line: a request or a batch of them.
    /// - Returns: whether serving the line took longer than sending a cached reply
    func dispatch(_ line: UnsafeRawBufferPointer) -> Bool {
        let template = RequestTemplate(line)
        if let template, writeCachedReply(template) || CachedImageReply(connection: connection).write(for: template) {
            return false
        }
        parse(line, template)
        return true
    }

    private func parse(_ line: UnsafeRawBufferPointer, _ template: RequestTemplate?) {
        connection.identifyPeer()
        let message: JSONValue
        do {
            message = try loop.parser.parse(line)
        } catch {
            loop.traffic.refused.malformed += 1
            return output.refuse(WireError(.parseError, error.description))
        }
        if message.kind == .array { return dispatchBatch(message) }
        serve(message, in: nil, template)
    }

    /// Writes the cached reply to a request that reads configuration.
    /// - Returns: false if no valid reply is cached, or if the peer may not have it. The request is then parsed, and
    ///   denied in the second case.
    private func writeCachedReply(_ template: RequestTemplate) -> Bool {
        guard let entry = loop.caches.replies.lookup(template),
            loop.server.authorizer.decide(entry.value.requirement, connection.rights) == nil
        else { return false }
        let mark = loop.output.writer.mark
        if let rest = ReplyCache.append(entry, for: template, to: &loop.output.writer) {
            if rest.readableBytes > UserUsage.largeBytes, let error = connection.refusalOfLargeWork() {
                loop.output.writer.rewind(to: mark)
                output.reply(id: RequestID(template), error, in: nil)
            } else {
                output.flush(then: rest)
            }
        }
        loop.traffic.requestsTotal += 1
        return true
    }

    // MARK: Batches

    private func dispatchBatch(_ message: JSONValue) {
        let count = message.count
        if count == 0 {
            return output.refuse(
                WireError(.invalidRequest, "the batch is empty; send 1 to \(Self.maxBatchRequests) requests"))
        }
        if count > Self.maxBatchRequests {
            return output.refuse(
                WireError(
                    .invalidRequest, "the batch has \(count) requests; send at most \(Self.maxBatchRequests)"))
        }
        connection.requestState.batches.waiting = BatchReply(message)
        connection.requestState.batches.keepsRequests = false
        startBatch()
        // The requests are charged only while the batch waits. The batch no longer waits if all its requests were
        // started, or refused because too much is buffered.
        if connection.requestState.batches.waiting != nil {
            connection.requestState.batches.keepsRequests = true
            connection.chargeBufferedBytes()
        }
    }

    /// Starts the requests of the waiting batch as if each had arrived on a separate line. Stops when too many requests
    /// are pending, when output is pending, or when the time slice ends.
    func startBatch() {
        startBatch { connection.hasRoomForRequest && !loop.isSliceOver }
        if connection.requestState.batches.waiting != nil, connection.hasRoomForRequest { connection.input.deferRest() }
    }

    private func startBatch(while hasRoom: () -> Bool) {
        guard let batch = connection.requestState.batches.waiting else { return }
        while hasRoom(), let (request, slot) = batch.next() { serve(request, in: slot, nil) }
        guard batch.isStarted else { return }
        connection.requestState.batches.waiting = nil
        if connection.usage.chargedBytes > 0 { connection.chargeBufferedBytes() }
        finishIfComplete(batch)
    }

    /// Counts the replies that a batch has gained. Large replies are charged to the user immediately, because they stay
    /// buffered until the last request of the batch has its reply, which may take arbitrarily long.
    func countReplies(of batch: BatchReply) {
        connection.requestState.batches.update(batch)
        if batch.chargedBytes > UserUsage.largeBytes { connection.chargeBufferedBytes() }
    }

    /// Writes the line of a batch if the batch has all its replies.
    func finishIfComplete(_ batch: BatchReply) {
        guard batch.isComplete, connection.phase != .closed else { return }
        connection.requestState.batches.complete(batch)
        let (line, afterwards) = batch.finish()
        if let line { output.write(line) }
        if connection.usage.chargedBytes > 0 { connection.chargeBufferedBytes() }
        for action in afterwards { action() }
    }

    /// Returns the error if a request of a batch is refused; nil if the request may be executed. A request is refused
    /// if the agent is stopping, if too much is buffered for the user, or if the batch has no room for the result. The
    /// last two reasons do not apply to a notification, which has no result.
    private func refusal(of request: Request, in batch: BatchReply) -> WireError? {
        if connection.phase == .draining {
            return WireError(.shuttingDown, "the agent is stopping; retry after it has restarted")
        }
        if request.isNotification { return nil }
        if batch.chargedBytes > UserUsage.largeBytes, let error = connection.refusalOfLargeWork() { return error }
        return batch.isFull ? BatchReply.noRoom : nil
    }

    // MARK: Requests

    private func serve(_ message: consuming JSONValue, in slot: BatchSlot?, _ template: RequestTemplate?) {
        let loop = connection.loop
        loop.traffic.requestsTotal += 1
        let request: Request
        do {
            request = try Request(message)
        } catch {
            return output.reply(id: error.id, error.error, in: slot)
        }
        let template = template.flatMap { $0.confirms(idAt: request.idRange) ? $0 : nil }
        if let slot, let error = refusal(of: request, in: slot.batch) {
            return output.reply(id: request.id, error, in: slot)
        }
        guard let handler = loop.methods[request] else {
            let error = WireError(
                .methodNotFound, "unknown method \(request.method.compactText.excerpt)")
            return output.reply(id: request.id, error, in: slot)
        }
        if connection.phase == .closed, handler.lifetime == .connection { return }
        if handler.needsReply, request.isNotification {
            slot?.leaveEmpty()
            return
        }
        do throws(WireError) {
            try handler.serve(self, request, slot, template)
        } catch {
            output.reply(id: request.id, error, in: slot)
        }
    }

    /// Executes a request of a method.
    /// - Parameter template: the template of the line; nil if the line has none or is a batch, or if the id that the
    ///   template found is not the id of the request
    func call<M: Method>(
        _ method: M.Type, _ request: Request, in slot: BatchSlot?, _ template: RequestTemplate?
    ) throws(WireError) {
        // Parameters are read before the rights are checked: invalid parameters are reported even to a peer without the
        // right.
        let parameters = try M.Parameters(
            from: MemberReader(params: request.params, positional: M.Parameters.positional))
        let requirement = M.requirement(parameters)
        if let denial = connection.denial(of: requirement, by: M.name) { throw denial.error }
        let call = MethodCall<M>(
            parameters: consume parameters, request: request, isInBatch: slot != nil, template: template,
            connection: connection)
        switch try M.call(call) {
        case .now(let result, let source, let afterReply):
            if let slot {
                output.reply(id: request.id, result, in: slot)
            } else if !request.isNotification {
                reply(method, result, to: request, template, source, requirement)
            }
            guard let afterReply else { return }
            // Events must follow the reply that announces their subscription, even if that reply waits for its batch.
            if let slot { slot.batch.then(afterReply) } else { afterReply() }
        case .task(let reply):
            let admission = Admission(method: M.name, requirement: requirement)
            try start(reply, id: request.id, request.params, admission, M.lifetime, in: slot)
        case .later(let size, let deadline, let parameterBytes, let retainedBytes, let begin):
            let parameterBytes = parameterBytes ?? request.params?.detachedMemory ?? 0
            let (id, admission) = (request.id, Admission(method: M.name, requirement: requirement))
            let bytes = retainedBytes + Self.retainedBytes(id: id, parameterBytes)
            let ticket = try self.begin(
                id, bytes, admission, M.lifetime, in: slot, reservation: try reserve(size, for: bytes))
            let cancellation = begin(Completion(connection, ticket))
            if let pending = connection.requestState.pending[ticket] {
                pending.onCancel = cancellation
            } else if M.lifetime == .connection {
                // The request is no longer pending, because the connection was closed while `begin` ran.
                cancellation(.disconnected)
            }
            if let deadline { expire(ticket, deadline) }
        }
    }

    /// Writes a reply as a separate line, and caches it if it has a source.
    private func reply<M: Method>(
        _ method: M.Type, _ result: M.Result, to request: Request, _ template: RequestTemplate?,
        _ source: SnapshotSource?, _ requirement: Requirement
    ) {
        let loop = connection.loop
        let mark = loop.output.writer.mark
        if let template {
            ReplyCache.appendHead(id: template.id, then: ReplyCache.resultName, to: &loop.output.writer)
        } else {
            var id = (request.id ?? .null).text
            id.withUTF8 {
                ReplyCache.appendHead(
                    id: UnsafeRawBufferPointer($0), then: ReplyCache.resultName, to: &loop.output.writer)
            }
        }
        let start = loop.output.writer.bytes.count - ReplyCache.resultName.count
        result.write(to: &loop.output.writer)
        loop.output.writer.endLine(after: "}")
        if let template, source != nil, loop.caches.replies.isRepeated(template), let source {
            loop.caches.replies.keep(loop.output.writer.bytes[start...], for: template, requiring: requirement, source)
        }
        if M.lifetime == .connection { output.withholdIfOverLimit(request.id, from: mark) }
    }

    // MARK: Pending requests

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
            connection.input.resumeRequests()
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

    /// Stops to start requests, because the agent stops or the connection is closed: takes the remaining requests from
    /// a waiting batch, and cancels the pending requests that are not committed.
    func stop() {
        // If the connection is closed, only the requests with the lifetime `committed` are started, because the batch
        // was received as a whole. If the agent is stopping, all requests are refused.
        startBatch { true }
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
                connection.dispatcher.complete(ticket, result.map { $0 }, reservation: memory.reservation)
            }
        }
        connection.requestState.pending[ticket]?.onCancel = { [connection] reason in
            task.cancel()
            if endsOnCancellation { connection.dispatcher.complete(ticket, .failure(reason)) }
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
            connection.loop.deferWork { connection.dispatcher.complete(ticket, .failure(deadline.error)) }
        }
    }
}

/// The context of a task that executes a request.
struct RequestContext: Sendable {
    let server: ServerContext
    /// All connections, for the methods that report on them.
    let connections: ConnectionRegistry
    let peer: PeerCredentials
    let rights: PeerRights

    /// The namespaces that the peer may read.
    var readableNamespaces: [ConfigNamespace] { server.namespaces.all.filter { rights.mayRead($0.name) } }

    /// The patterns of values in a namespace that are masked for the peer; empty if it may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        rights.rights(in: namespace.name).contains(.secrets) ? .none : namespace.configuration.secrets
    }
}
