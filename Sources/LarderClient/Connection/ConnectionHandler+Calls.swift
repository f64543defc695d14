import LarderJSON
import LarderProtocol
import NIOCore

extension ConnectionHandler {
    /// Takes a call and writes it as soon as its turn has come.
    func start(
        _ id: Int, _ line: ByteBuffer, timeout: Duration?, purpose: CallPurpose,
        _ caller: @escaping @Sendable (CallOutcome) -> Void
    ) {
        guard end == nil, let context else { return caller(.notSent) }
        var call = PendingCall(
            line: line, byteCount: line.readableBytes, purpose: purpose, caller: caller)
        if let timeout {
            call.timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timeout)) {
                self.abandon(id, LarderClientError(.timeout, "the agent did not answer within \(timeout)"))
            }
        }
        calls[id] = call
        waiting.append(id)
        writeWaiting()
    }

    /// Ends a call on this side at once; the agent is asked to stop its work.
    func abandon(_ id: Int, _ error: LarderClientError) {
        guard var call = calls[id], !call.isAbandoned else { return }
        call.resume(.failure(error))
        guard call.isSent else {
            calls[id] = nil
            return
        }
        call.caller = nil
        call.timer = nil
        calls[id] = call
        let parameters = RequestCancel.Parameters(id: RequestID(id))
        writeNotification(RequestCancel.name) { parameters.write(to: &$0) }
    }

    /// Writes the calls that wait, as far as the agent's limit and the socket allow.
    func writeWaiting() {
        guard end == nil, let context else { return }
        var hasWritten = false
        while inFlight < maximumRequestsInFlight, context.channel.isWritable, let id = waiting.popFirst() {
            guard let line = calls[id]?.line else { continue }
            calls[id]?.line = nil
            inFlight += 1
            hasWritten = true
            context.write(wrapOutboundOut(line), promise: nil)
        }
        if hasWritten { flush(context) }
    }

    /// Hands a reply to who waits for it.
    func receive(reply message: JSONValue, id: JSONValue) {
        guard let number = id.int, let call = calls[number], call.isSent else {
            return violation("the agent answered a request that was not sent (id \(id))")
        }
        calls[number] = nil
        inFlight -= 1
        if let result = message.member("result") {
            receive(result, of: call)
        } else if let error = message.member("error") {
            call.resume(.failure(LarderClientError(remote: WireError(from: error))))
        } else {
            call.resume(.failure(LarderClientError(.protocolViolation, "the reply has neither result nor error")))
        }
        writeWaiting()
    }

    /// An error that the agent could not assign to a request: it did not read the line to its end, because it is too
    /// long. Of the requests that it still owes an answer, that is the longest.
    func receive(errorWithoutID error: WireError) {
        let sent = calls.filter { $0.value.isSent }
        guard error.code == .lineTooLong, let (id, call) = sent.max(by: { $0.value.byteCount < $1.value.byteCount })
        else { return violation("the agent could not read a request: \(error)") }
        calls[id] = nil
        inFlight -= 1
        call.resume(.failure(LarderClientError(remote: error)))
        writeWaiting()
    }

    private func receive(_ result: JSONValue, of call: PendingCall) {
        switch call.purpose {
        case .answer, .prefetch:
            call.resume(.result(result))
        case .lease:
            if call.isAbandoned, let lease = result["lease"]?.int { writeRelease(lease) }
            call.resume(.result(result))
        case .subscription(let receiver):
            let subscription = result["subscription"]?.int
            if call.isAbandoned {
                if let subscription { writeUnsubscribe(subscription) }
            } else if let subscription {
                // Before the next line is looked at: the first event may be in the same bytes.
                subscriptions[subscription] = receiver
                call.resume(.result(result))
            } else {
                call.resume(.failure(LarderClientError(.protocolViolation, "the reply names no subscription")))
            }
        }
    }
}
