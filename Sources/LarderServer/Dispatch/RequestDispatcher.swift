import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore

/// Serves the request lines of a connection: from a cache if the same line came before with another id, otherwise by the
/// method of the parsed request.
struct RequestDispatcher {
    /// The most requests in a batch.
    static let maxBatchRequests = 64

    let connection: Connection

    private var loop: LoopContext { connection.loop }
    private var output: ReplyWriter { connection.output }

    // MARK: Lines

    /// Serves a line: a request or a batch of them.
    /// - Returns: whether it took longer than a cached reply.
    func dispatch(_ line: UnsafeRawBufferPointer) -> Bool {
        let template = RequestTemplate(line)
        if let template, writeCachedReply(template) || ImageGetMethod(connection: connection).serveKnown(template) {
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
        connection.usage.lineBytes = line.count
        defer { connection.usage.lineBytes = 0 }
        if message.kind == .array { return dispatchBatch(message) }
        serve(message, in: nil, template.flatMap { $0.confirms(idOf: message) ? $0 : nil })
    }

    /// Writes the reply to a read that came before with another id.
    /// - Returns: false if the reply is not cached or not valid, or if the peer may not have it: the parsed request is then
    ///   denied.
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
        if count == 0 { return output.refuse(WireError(.invalidRequest, "a batch has at least one request")) }
        if count > Self.maxBatchRequests {
            return output.refuse(
                WireError(
                    .invalidRequest, "a batch has at most \(Self.maxBatchRequests) requests, this one has \(count)"))
        }
        let lineBytes = connection.usage.lineBytes
        let isLong = lineBytes > UserUsage.largeBytes
        connection.batches.waiting = BatchReply(Array(message.elements), lineBytes: isLong ? lineBytes : 0)
        startBatch()
        // If too much is buffered, the requests that wait were refused and nothing of the batch is left.
        if isLong, connection.batches.waiting != nil { connection.countHeldBytes() }
    }

    /// Starts the requests of the batch that waits, as if each had come on a line of its own: as many as there are places
    /// and time for.
    func startBatch() {
        startBatch { connection.hasRoomForRequest && !loop.isSliceOver }
        if connection.batches.waiting != nil, connection.hasRoomForRequest { connection.input.deferRest() }
    }

    /// Starts all requests of the batch that waits, because the connection or the agent ends.
    func startRestOfBatch() { startBatch { true } }

    private func startBatch(while hasRoom: () -> Bool) {
        guard let batch = connection.batches.waiting else { return }
        while hasRoom(), let (request, slot) = batch.next() { serve(request, in: slot, nil) }
        guard batch.isStarted else { return }
        connection.batches.waiting = nil
        if connection.usage.heldBytes > 0 { connection.countHeldBytes() }
        output.writeIfComplete(batch)
    }

    /// Why a request of a batch is not carried out: it waited too long, or there is no room for its result.
    private func refusal(of request: Request, in batch: BatchReply) -> WireError? {
        if connection.phase == .draining {
            return WireError(.shuttingDown, "the agent is stopping; ask again once it is back")
        }
        if request.id == nil { return nil }
        if batch.heldBytes > UserUsage.largeBytes, let error = connection.refusalOfLargeWork() { return error }
        return batch.isFull ? BatchReply.noRoom : nil
    }

    // MARK: Requests

    private func serve(_ message: JSONValue, in slot: BatchSlot?, _ template: RequestTemplate?) {
        loop.traffic.requestsTotal += 1
        let request: Request
        do {
            request = try Request(message)
        } catch {
            return output.reply(id: error.id, error.error, in: slot)
        }
        if let slot, let error = refusal(of: request, in: slot.batch) {
            return output.reply(id: request.id, error, in: slot)
        }
        guard let name = request.method.string, let answer = loop.methods[name] else {
            let error = WireError(
                .methodNotFound, "there is no method \(request.method.compactText); rpc.discover lists them")
            return output.reply(id: request.id, error, in: slot)
        }
        // Of a client that is gone only requests that a task or the store carries out are started.
        if connection.phase == .closed, !answer.isDeferred { return }
        do throws(WireError) {
            switch answer {
            case .immediate(let body): serveNow(request, body, in: slot)
            case .reading(let body, let later): try serveReading(request, body, orLater: later, in: slot, template)
            case .deferred(let body, let endsWithConnection):
                try serveLater(request, body, endsWithConnection ? .connection : .committed, in: slot)
            case .change(let body): try submit(request, body, in: slot)
            case .waiting(let body):
                try ConfigWaitMethod(connection: connection).serve(request, body, in: slot)
            case .own(let body): try body(connection, request, slot, template)
            case .connection(let body, let needsReply):
                if needsReply, request.id == nil {
                    slot?.leaveEmpty()
                    return
                }
                try serveHere(request, body, in: slot)
            }
        } catch {
            output.reply(id: request.id, error, in: slot)
        }
    }

    private func serveNow(_ request: Request, _ body: MethodTable.Immediate, in slot: BatchSlot?) {
        let scope = RequestScope(connection)
        guard let id = request.id else {
            var nowhere = JSONWriter()
            // A notification has no reply, not even for an error (JSON-RPC 2.0 section 4.1).
            try? body(scope, request.params, &nowhere)
            slot?.leaveEmpty()
            return
        }
        let mark = loop.output.writer.mark
        do throws(WireError) {
            try output.write(in: slot) { (writer) throws(WireError) in
                try Envelope.writeResult(id: id, to: &writer) { (writer) throws(WireError) in
                    try body(scope, request.params, &writer)
                }
            }
            if slot == nil { output.withholdIfTooMuch(id, from: mark) }
        } catch {
            loop.output.writer.rewind(to: mark)
            output.reply(id: id, error, in: slot)
        }
    }

    /// Answers a read, and caches the reply for the next line with the same template.
    /// - Parameters:
    ///   - later: answers it if the current snapshot is too old.
    ///   - template: the line's, if it is certain that its id is the request's.
    private func serveReading(
        _ request: Request, _ body: MethodTable.Reading, orLater later: @escaping MethodTable.Deferred,
        in slot: BatchSlot?, _ template: RequestTemplate?
    ) throws(WireError) {
        guard let reading = try body(RequestScope(connection), request.params) else {
            return try serveLater(request, later, .connection, in: slot)
        }
        if let slot { return output.reply(id: request.id, reading.result, deferredIn: slot) }
        guard let id = request.id else { return }
        let mark = loop.output.writer.mark
        var text = id.text
        text.withUTF8 { ReplyCache.appendHead(id: UnsafeRawBufferPointer($0), to: &loop.output.writer) }
        let start = loop.output.writer.bytes.count
        loop.output.writer.rawUnframed(",\"result\":")
        reading.result.write(to: &loop.output.writer)
        loop.output.writer.rawUnframed("}")
        loop.output.writer.endLine()
        if let template, reading.isRepeatable {
            loop.caches.replies.keep(
                loop.output.writer.bytes[start...], for: template, requiring: reading.requirement, reading.publication,
                reading.current)
        }
        output.withholdIfTooMuch(id, from: mark)
    }

    private func serveHere(
        _ request: Request, _ body: MethodTable.InConnection, in slot: BatchSlot?
    ) throws(WireError) {
        let answer = try body(connection, request.params)
        output.reply(id: request.id, answer.result, in: slot)
        guard let afterwards = answer.afterwards else { return }
        // An event never precedes the reply that announces its subscription, even if that reply waits for its batch.
        if let slot { slot.batch.then(afterwards) } else { afterwards() }
    }

    /// Answers a request by a task.
    private func serveLater(
        _ request: Request, _ body: @escaping MethodTable.Deferred, _ lifetime: PendingRequests.Lifetime,
        in slot: BatchSlot?
    ) throws(WireError) {
        try serveLater(request.id, try body(RequestScope(connection), request.params), lifetime, in: slot)
    }

    /// Answers an admitted request by a task.
    func serveLater(
        _ id: RequestID?, _ work: MethodTable.Work, _ lifetime: PendingRequests.Lifetime, in slot: BatchSlot?
    ) throws(WireError) {
        let ticket = try begin(id, work.admission, lifetime, in: slot)
        let (bound, eventLoop) = (NIOLoopBound(connection, eventLoop: loop.eventLoop), loop.eventLoop)
        // The task runs here up to its first suspension, so that requests reach an actor in their order.
        let task = Task.immediate {
            let result: Result<any WireResult, WireError>
            do throws(WireError) {
                result = .success(try await work.run())
            } catch {
                result = .failure(error)
            }
            eventLoop.execute { bound.value.complete(ticket, result) }
        }
        connection.pending[ticket]?.onCancel = { _ in task.cancel() }
    }

    /// Submits a change; its reply is written when it is committed. Changes are submitted in the order of their requests.
    private func submit(_ request: Request, _ body: MethodTable.Change, in slot: BatchSlot?) throws(WireError) {
        let (submit, admission) = try body(RequestScope(connection), request.params)
        let ticket = try begin(request.id, admission, .committed, in: slot)
        let (bound, eventLoop) = (NIOLoopBound(connection, eventLoop: loop.eventLoop), loop.eventLoop)
        let change = submit { result in
            eventLoop.execute { bound.value.complete(ticket, result) }
        }
        connection.pending[ticket]?.onCancel = { _ in change.cancel() }
    }

    /// Adds a request to the pending ones.
    /// - Throws: if its user has too many, or too much is buffered for the user.
    func begin(
        _ id: RequestID?, _ admission: Admission, _ lifetime: PendingRequests.Lifetime, in slot: BatchSlot?
    ) throws(WireError) -> PendingRequests.Ticket {
        var heldBytes = 0
        if connection.phase == .closed {
            connection.usage.admitOrphan()
        } else {
            do throws(UsageRefusal) {
                heldBytes = try connection.usage.admitRequest()
            } catch {
                throw loop.count(error, of: connection.principal.credentials)
            }
        }
        loop.traffic.requestsInFlight += 1
        return connection.pending.add(
            PendingRequest(id: id, admission: admission, slot: slot, lifetime: lifetime, heldBytes: heldBytes))
    }

    /// Ends a pending request with an error after a time, unless it is completed before.
    func expire(_ ticket: PendingRequests.Ticket, after time: TimeAmount, with error: WireError) {
        connection.pending[ticket]?.deadline = loop.eventLoop.assumeIsolated().scheduleTask(in: time) {
            [connection] in
            connection.pending[ticket]?.cancel(error)
            // Thousands of requests may have the same deadline.
            connection.loop.deferWork { connection.complete(ticket, .failure(error)) }
        }
    }
}
