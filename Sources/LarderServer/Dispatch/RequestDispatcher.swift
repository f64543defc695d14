import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore

/// A request whose reply is not written yet. Touched on its connection's loop only.
final class PendingRequest {
    let id: RequestID?
    /// What it was let in for.
    let admission: Admission
    /// Why it was given up since, because the peer lost the right to it.
    var denial: WireError?
    /// Gives it up, for a reason; it still gets its reply.
    var cancel: ((WireError) -> Void)?
    let place: BatchSlot?
    /// Why it was given up, where it was.
    var givenUp: WireError?
    /// What ends it at its deadline.
    var deadline: Scheduled<Void>?
    /// Whether it is given up when its connection ends.
    let endsWithConnection: Bool
    /// Bytes of its line, where that is long.
    let heldBytes: Int

    init(id: RequestID?, admission: Admission, place: BatchSlot?, endsWithConnection: Bool, heldBytes: Int) {
        self.id = id
        self.admission = admission
        self.place = place
        self.endsWithConnection = endsWithConnection
        self.heldBytes = heldBytes
    }
}

extension Connection {
    /// Serves one line: a request or a batch of them.
    /// - Returns: whether it was more than to repeat an answer.
    func handleLine(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let words = RequestTemplate(bytes)
        if let words, serveAgain(words) || serveImageAgain(words) { return false }
        serveAnew(bytes, words)
        return true
    }

    private func serveAnew(_ bytes: UnsafeRawBufferPointer, _ words: RequestTemplate?) {
        identifyPeer()
        let message: JSONValue
        do {
            message = try loop.parser.parse(bytes)
        } catch {
            loop.traffic.refused.malformed += 1
            return refuse(WireError(.parseError, error.description))
        }
        lineBytes = bytes.count
        defer { lineBytes = 0 }
        if message.kind == .array { return handleBatch(message) }
        serve(message, in: nil, words.flatMap { $0.confirms(idOf: message) ? $0 : nil })
    }

    /// Answers something that has no id.
    func refuse(_ error: WireError) {
        loop.traffic.requestsTotal += 1
        reply(id: .null, error, in: nil)
    }

    // MARK: One request

    /// Serves one request.
    func serve(_ message: JSONValue, in place: BatchSlot?, _ words: RequestTemplate? = nil) {
        loop.traffic.requestsTotal += 1
        let request: Request
        do {
            request = try Request(message)
        } catch {
            return reply(id: error.id, error.error, in: place)
        }
        if let place, let error = refusal(inBatch: place.batch, request) {
            return reply(id: request.id, error, in: place)
        }
        guard let name = request.method.string, let answer = loop.methods[name] else {
            let error = WireError(
                .methodNotFound, "there is no method \(request.method.compactText); rpc.discover lists them")
            return reply(id: request.id, error, in: place)
        }
        // Nobody is left to be answered, but what was handed over is carried out all the same.
        if isClosed, !answer.isDeferred { return }
        switch answer {
        case .immediate(let body): serveNow(request, body, in: place)
        case .reading(let body, let later): serveReading(request, body, orLater: later, in: place, words)
        case .deferred(let body, let endsWithConnection):
            do throws(WireError) {
                try serveLater(request, body, endsWithConnection: endsWithConnection, in: place)
            } catch {
                reply(id: request.id, error, in: place)
            }
        case .change(let body):
            do throws(WireError) {
                try handOver(request, body, in: place)
            } catch {
                reply(id: request.id, error, in: place)
            }
        case .waiting(let body): serveWhenMet(request, body, in: place)
        case .own(let body):
            do throws(WireError) {
                try body(self, request, place, words)
            } catch {
                reply(id: request.id, error, in: place)
            }
        case .connection(let body, let needsReply):
            if needsReply, request.id == nil {
                place?.leaveEmpty()
                return
            }
            serveHere(request, body, in: place)
        }
    }

    var scope: RequestScope {
        RequestScope(
            context: loop.server, connections: loop.registry, peer: peer, rights: rights,
            taskExecutor: loop.taskExecutor)
    }

    private func serveNow(_ request: Request, _ body: MethodTable.Immediate, in place: BatchSlot?) {
        guard let id = request.id else {
            var nowhere = JSONWriter()
            // A notification has no reply, not even for an error (JSON-RPC 2.0 section 4.1).
            try? body(scope, request.params, &nowhere)
            place?.leaveEmpty()
            return
        }
        let mark = loop.output.mark
        do throws(WireError) {
            try write(in: place) { (writer) throws(WireError) in
                try Envelope.writeResult(id: id, to: &writer) { (writer) throws(WireError) in
                    try body(scope, request.params, &writer)
                }
            }
            if place == nil { withholdIfTooMuch(id, from: mark) }
        } catch {
            loop.output.rewind(to: mark)
            reply(id: id, error, in: place)
        }
    }

    private func serveHere(_ request: Request, _ body: MethodTable.InConnection, in place: BatchSlot?) {
        do throws(WireError) {
            let answer = try body(self, request.params)
            reply(id: request.id, answer.result, in: place)
            guard let afterwards = answer.afterwards else { return }
            // An event never comes before the reply that announces it, also where that one waits for its batch.
            if let place { place.batch.then(afterwards) } else { afterwards() }
        } catch {
            reply(id: request.id, error, in: place)
        }
    }

    /// Has a task answer a request.
    /// - Throws: why it is refused.
    func serveLater(
        _ request: Request, _ body: @escaping MethodTable.Deferred, endsWithConnection: Bool, in place: BatchSlot?
    ) throws(WireError) {
        try serveLater(
            request.id, try body(scope, request.params), endsWithConnection: endsWithConnection, in: place)
    }

    /// Has a task answer a request that was let in.
    /// - Throws: why it is refused.
    func serveLater(
        _ id: RequestID?, _ work: MethodTable.Work, endsWithConnection: Bool, in place: BatchSlot?
    ) throws(WireError) {
        let ticket = try ticket(for: id, work.admission, in: place, endsWithConnection: endsWithConnection)
        let connection = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let eventLoop = loop.eventLoop
        // The task runs here and now up to its first suspension, so that what requests hand to an actor arrives there
        // in the order of the requests.
        let task = Task.immediate {
            let result: Result<any WireResult, WireError>
            do throws(WireError) {
                result = .success(try await work.run())
            } catch {
                result = .failure(error)
            }
            eventLoop.execute { connection.value.complete(ticket, result) }
        }
        inFlight[ticket]?.cancel = { _ in task.cancel() }
    }

    /// Hands over a change; its reply is written when it is committed. Changes are handed over in the order of their requests.
    /// - Throws: why it is refused.
    private func handOver(_ request: Request, _ body: MethodTable.Change, in place: BatchSlot?) throws(WireError) {
        let (handOver, admission) = try body(scope, request.params)
        let ticket = try ticket(for: request.id, admission, in: place, endsWithConnection: false)
        let connection = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let eventLoop = loop.eventLoop
        let change = handOver { result in
            eventLoop.execute { connection.value.complete(ticket, result) }
        }
        inFlight[ticket]?.cancel = { _ in change.cancel() }
    }

    /// Counts a request among those that are not answered yet.
    /// - Throws: where its user has too many, or too much is held for them.
    func ticket(
        for id: RequestID?, _ admission: Admission, in place: BatchSlot?, endsWithConnection: Bool
    ) throws(WireError) -> Int {
        let heldBytes = try admitToFlight()
        nextTicket += 1
        inFlight[nextTicket] = PendingRequest(
            id: id, admission: admission, place: place, endsWithConnection: endsWithConnection, heldBytes: heldBytes)
        loop.traffic.requestsInFlight += 1
        return nextTicket
    }

    /// Answers a request that was counted so.
    func complete(_ ticket: Int, _ result: Result<any WireResult, WireError>) {
        guard let request = inFlight.removeValue(forKey: ticket) else { return endOwed(ticket) }
        loop.traffic.requestsInFlight -= 1
        endFlight(of: request)
        request.deadline?.cancel()
        switch request.denial.map({ .failure($0) }) ?? result {
        // What was asked for only to be told can be asked for again; that a change was made must be said.
        case .success where request.endsWithConnection && request.place?.batch.isFull ?? false:
            reply(id: request.id, BatchReply.noRoom, in: request.place)
        case .success(let value) where request.endsWithConnection:
            let mark = loop.output.mark
            reply(id: request.id, value, in: request.place)
            if request.place == nil { withholdIfTooMuch(request.id, from: mark) }
        case .success(let value): reply(id: request.id, value, in: request.place)
        case .failure(let error): reply(id: request.id, error, in: request.place)
        }
        if let batch = request.place?.batch { writeIfComplete(batch) }
        flush()
        resumeInput()
        closeIfDone()
    }

    /// Cancels what only waits for something, because the agent is stopping or the client is gone; each request gets its
    /// own reply. What a client handed over goes on to its end.
    func cancelWaiting() {
        let reason = WireError(.shuttingDown, "the agent is stopping; ask again once it is back")
        for request in inFlight.values where request.endsWithConnection { request.cancel?(reason) }
    }

    /// Looks at the peer's rights anew: what it may have no more ends. A change that it handed over before goes on.
    func review() {
        let scope = scope
        for subscription in subscriptions.values.sorted(by: { $0.id < $1.id }) {
            let name = subscription.topic.feed.publication.namespace
            let denial = scope.refusal(of: Admission(ConfigSubscribe.name, .inNamespace(.read, name)))
            // A namespace that is gone ends its subscriptions by itself.
            if denial?.right != nil { end(subscription, .denied) }
        }
        for (ticket, request) in inFlight where request.endsWithConnection {
            guard let denial = scope.refusal(of: request.admission), denial.right != nil else { continue }
            inFlight[ticket]?.denial = denial
            request.cancel?(denial)
        }
        flush()
    }

    /// Cancels a request that waits; it gets its own reply.
    func cancel(_ id: RequestID) -> Bool {
        var isFound = false
        let reason = WireError(.cancelled, "request \(id.text) was cancelled by request.cancel")
        for request in inFlight.values where request.id == id {
            request.cancel?(reason)
            isFound = true
        }
        return isFound
    }

    // MARK: Replies

    func reply(id: RequestID?, _ error: WireError, in place: BatchSlot?) {
        guard let id else {
            place?.leaveEmpty()
            return
        }
        loop.traffic.requestErrors += 1
        write(in: place) { writer in Envelope.writeError(id: id, error, to: &writer) }
    }

    func reply(id: RequestID?, _ result: any WireResult, in place: BatchSlot?) {
        guard let id else {
            place?.leaveEmpty()
            return
        }
        write(in: place) { writer in Envelope.writeResult(id: id, to: &writer) { result.write(to: &$0) } }
    }

    private func write<Failure: Error>(
        in place: BatchSlot?, _ body: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        if let place {
            return try counting(place.batch) { () throws(Failure) in try place.put(body) }
        }
        try body(&loop.output)
        loop.output.endLine()
    }
}
