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

    /// The batch of a connection that is not completely started. Only ``RequestDispatcher`` changes it.
    struct State {
        /// The batch whose remaining requests wait until the connection may start more requests or gets its next time
        /// slice; nil if no batch waits. Input that follows the batch waits too.
        fileprivate var waiting: BatchReply?
        /// Whether requests of ``waiting`` have been kept for later, so that its memory counts. While the requests are
        /// first started, it does not: the limit applies to what outlives that.
        fileprivate var keepsRequests = false
    }

    let reader: SocketReader

    var connection: Connection { reader.connection }
    private var loop: LoopContext { reader.loop }
    private var output: ReplyWriter { reader.connection.output }

    /// Whether requests of a batch wait to be started. Input that follows the batch waits too.
    var isBatchWaiting: Bool { reader.dispatcherState.waiting != nil }
    /// The number of bytes of the requests of the waiting batch.
    var bufferedBytes: Int {
        reader.dispatcherState.keepsRequests ? reader.dispatcherState.waiting?.requestBytes ?? 0 : 0
    }

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
        reader.dispatcherState.waiting = BatchReply(message)
        reader.dispatcherState.keepsRequests = false
        startBatch()
        // The requests are charged only while the batch waits. The batch no longer waits if all its requests were
        // started, or refused because too much is buffered.
        if reader.dispatcherState.waiting != nil {
            reader.dispatcherState.keepsRequests = true
            connection.chargeBufferedBytes()
        }
    }

    /// Starts the requests of the waiting batch as if each had arrived on a separate line. Stops when too many requests
    /// are pending, when output is pending, or when the time slice ends.
    func startBatch() {
        startBatch { connection.hasRoomForRequest && !loop.isSliceOver }
        if reader.dispatcherState.waiting != nil, connection.hasRoomForRequest { reader.deferRest() }
    }

    private func startBatch(while hasRoom: () -> Bool) {
        guard let batch = reader.dispatcherState.waiting else { return }
        while hasRoom(), let (request, slot) = batch.next() { serve(request, in: slot, nil) }
        guard batch.isStarted else { return }
        reader.dispatcherState.waiting = nil
        if connection.usage.chargedBytes > 0 { connection.chargeBufferedBytes() }
        output.finishIfComplete(batch)
    }

    /// Takes the remaining requests from a waiting batch. If the connection is closed, only the requests with the
    /// lifetime `committed` are started, because the batch was received as a whole. If the agent is stopping, all
    /// requests are refused.
    func stop() { startBatch { true } }

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
        // Each of these is read once, because each read retains the object.
        let (connection, loop) = (reader.connection, reader.loop)
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
        guard let handler = reader.server.methods[request] else {
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
        let connection = reader.connection
        if let denial = connection.denial(of: requirement, by: M.name) { throw denial.error }
        let call = MethodCall<M>(
            parameters: consume parameters, request: request, isInBatch: slot != nil, template: template,
            connection: connection, hub: reader.server.hub, descriptors: reader.descriptors)
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
            try connection.requests.start(reply, id: request.id, request.params, admission, M.lifetime, in: slot)
        case .later(let size, let deadline, let parameterBytes, let retainedBytes, let begin):
            let parameterBytes = parameterBytes ?? request.params?.detachedMemory ?? 0
            let (id, admission) = (request.id, Admission(method: M.name, requirement: requirement))
            try connection.requests.start(
                size, deadline, id: id, parameterBytes: parameterBytes, retainedBytes: retainedBytes, admission,
                M.lifetime, in: slot, begin)
        }
    }

    /// Writes a reply as a separate line, and caches it if it has a source.
    private func reply<M: Method>(
        _ method: M.Type, _ result: M.Result, to request: Request, _ template: RequestTemplate?,
        _ source: SnapshotSource?, _ requirement: Requirement
    ) {
        let (connection, loop) = (reader.connection, reader.loop)
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
        if M.lifetime == .connection { connection.output.withholdIfOverLimit(request.id, from: mark) }
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
