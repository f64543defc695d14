import LarderJSON
import LarderProtocol
import NIOCore
import Synchronization
import Glibc

/// Whether a connection accepts new calls. The value can be read from any thread.
final class UseFlag: Sendable {
    let value = Atomic(true)
}

/// The last handler of a connection's pipeline. It parses replies and events and passes each to its caller or
/// subscription. All methods run on the connection's event loop, so the state needs no lock.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The maximum nesting depth of a message. The agent accepts documents nested 128 deep and wraps them in a reply,
    /// so this limit only has to be clearly larger.
    private static let maximumDepth = 256

    private var calls: CallTable
    private var subscriptions: [Int: any EventReceiver] = [:]
    /// Whether new calls may use this connection.
    let isUsable: UseFlag
    /// Why the connection ended; nil while it is open.
    private var end: LarderClientError?
    private var context: ChannelHandlerContext?
    private var isFlushScheduled = false
    /// Whether a request has timed out since the last reply. The agent may hang, so calls may wait indefinitely for
    /// the replies to earlier requests.
    private var isUnresponsive = false
    private let maximumReplyBytes: Int
    private let monitor: ClientMonitor
    /// Measures the timeouts of calls.
    private let schedule: Transport.Schedule
    private var framer: LineFramer
    private var parser = JSONParser(maximumDepth: ConnectionHandler.maximumDepth)

    init(
        maximumRequestsInFlight: Int, maximumReplyBytes: Int, monitor: ClientMonitor, isUsable: UseFlag,
        schedule: @escaping Transport.Schedule
    ) {
        self.isUsable = isUsable
        self.monitor = monitor
        self.schedule = schedule
        calls = CallTable(maximumInFlight: maximumRequestsInFlight)
        self.maximumReplyBytes = maximumReplyBytes
        framer = LineFramer(maximumLineBytes: maximumReplyBytes)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        buffer.withUnsafeReadableBytes { bytes in
            var offset = 0
            while end == nil, let line = framer.next(in: bytes, at: &offset) { receive(line) }
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        writeWaiting()
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        finish(LarderClientError(.disconnected, "the agent closed the connection"))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        finish(LarderClientError(.disconnected, "the connection to the agent broke: \(Self.describe(error))"))
    }

    /// The text of an error. For a system error it is the text of strerror(3).
    private static func describe(_ error: any Error) -> String {
        // strerror(3) is thread-safe in glibc: it returns constant or thread-local text for every number.
        (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)"
    }

    /// Ends the connection: all calls and subscriptions fail with the error, and the channel closes. A call whose
    /// request was not written yet gets `notSent` instead.
    func finish(_ error: LarderClientError) {
        guard end == nil else { return }
        end = error
        isUsable.value.store(false, ordering: .relaxed)
        monitor.report?(error.code == .closed ? .closed : .disconnected(error))
        let calls = self.calls.removeAll()
        let subscriptions = self.subscriptions
        self.subscriptions = [:]
        for call in calls { call.resume(call.isSent ? .failure(error) : .notSent) }
        for receiver in subscriptions.values { receiver.interrupt(error) }
        context?.close(promise: nil)
    }

    /// Writes a notification, which gets no reply.
    private func writeNotification(_ method: String, _ params: (inout JSONWriter) -> Void) {
        guard end == nil, let context else { return }
        context.writeAndFlush(wrapOutboundOut(Self.line(id: nil, method: method, params)), promise: nil)
    }

    /// Flushes the output at once if at most one request is in flight. Otherwise flushes it at the end of this loop
    /// iteration, so that requests of calls that start together are sent in one write.
    private func flush(_ context: ChannelHandlerContext) {
        if calls.inFlight <= 1 { return context.flush() }
        guard !isFlushScheduled else { return }
        isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.context?.flush()
        }
    }

    static func line(id: Int?, method: String, _ params: (inout JSONWriter) -> Void) -> ByteBuffer {
        var writer = JSONWriter()
        Envelope.writeRequest(id: id.map { RequestID($0) }, method: method, to: &writer, params: params)
        var buffer = ByteBuffer()
        buffer.reserveCapacity(writer.bytes.count + 1)
        buffer.writeBytes(writer.bytes)
        buffer.writeInteger(UInt8(ascii: "\n"))
        return buffer
    }

    private func receive(_ line: consuming LineFramer.Line) {
        switch consume line {
        case .tooLong:
            violation("the agent sent a line longer than \(maximumReplyBytes) bytes, the client's maximumReplyBytes")
        case .whole(let bytes): receive(bytes)
        case .assembled(let bytes):
            bytes.withUnsafeBytes { receive($0) }
            framer.reuse(bytes)
        }
    }

    private func receive(_ line: UnsafeRawBufferPointer) {
        do {
            receive(try parser.parse(line))
        } catch {
            violation("the agent sent a line that is not JSON: \(error)")
        }
    }

    private func receive(_ message: JSONValue) {
        if let method = message.member("method") {
            // Unknown notifications are ignored, because later versions of the protocol may add some.
            if method.isString("config.event") {
                receive(event: message.member("params") ?? .null)
            } else if method.isString("image.progress") {
                receive(progress: message.member("params") ?? .null)
            }
        } else if let id = message.member("id"), !id.isNull {
            receive(reply: message, id: id)
        } else if let error = message.member("error") {
            receive(errorWithoutID: WireError(from: error))
        } else {
            violation("the agent sent a message that is neither a reply nor a notification")
        }
    }

    /// Ends the connection because the agent violated the protocol.
    private func violation(_ reason: String) {
        finish(LarderClientError(.protocolViolation, reason, advice: "check that larderd listens on this socket"))
    }

    // MARK: Calls

    /// Starts a call. Its request is written once fewer requests than the maximum are in flight and the socket is
    /// writable.
    func start(
        _ id: Int, _ method: String, _ line: ByteBuffer, timeout: Duration?, isLong: Bool, purpose: CallPurpose,
        _ caller: @escaping @Sendable (CallOutcome) -> Void
    ) {
        guard end == nil, context != nil else { return caller(.notSent) }
        let call = PendingCall(
            method: method, line: line, byteCount: line.readableBytes, purpose: purpose, isLong: isLong,
            timeout: timeout,
            caller: caller)
        calls.add(call, id)
        writeWaiting()
        if isUnresponsive, calls.active(id)?.isSent == false { startTimer(of: id, timeout) }
    }

    /// Starts the timeout of a call.
    private func startTimer(of id: Int, _ timeout: Duration?) {
        guard let context, let timeout else { return }
        let own = NIOLoopBound(self, eventLoop: context.eventLoop)
        let timer = schedule(context.eventLoop, TimeAmount(timeout)) { own.value.timeOut(id, after: timeout) }
        calls.setTimer(timer, of: id)
    }

    /// Fails a call whose timeout has passed. A timeout starts when the request is written. The exception are calls
    /// that wait while the agent does not respond: their timeouts start now.
    private func timeOut(_ id: Int, after timeout: Duration) {
        guard let call = calls.active(id) else { return }
        if call.isSent, !isUnresponsive {
            isUnresponsive = true
            for (id, timeout) in calls.waitingCalls { startTimer(of: id, timeout) }
        }
        abandon(id, .timeout(of: call.method, after: timeout, isSent: call.isSent))
    }

    /// Fails a call whose task was cancelled.
    func cancel(_ id: Int) {
        guard let call = calls.active(id) else { return }
        abandon(id, .cancelled(call.method, isSent: call.isSent))
    }

    /// Fails a call at once, and asks the agent to cancel its request.
    private func abandon(_ id: Int, _ error: LarderClientError) {
        guard let call = calls.abandon(id) else { return }
        call.resume(.failure(error))
        guard call.isSent else { return }
        let parameters = RequestCancel.Parameters(id: RequestID(id))
        writeNotification(RequestCancel.name) { parameters.write(to: &$0) }
    }

    /// Writes waiting requests until the limit of requests in flight is reached or the socket is not writable.
    private func writeWaiting() {
        guard end == nil, let context else { return }
        var hasWritten = false
        while context.channel.isWritable, let (id, line, timeout) = calls.next() {
            hasWritten = true
            startTimer(of: id, timeout)
            context.write(wrapOutboundOut(line), promise: nil)
        }
        if hasWritten { flush(context) }
    }

    /// Passes a reply to its caller.
    private func receive(reply message: JSONValue, id: JSONValue) {
        guard let number = id.int, let call = calls.answer(number) else {
            return violation("the agent replied to a request that was not sent (id \(id))")
        }
        if isUnresponsive {
            isUnresponsive = false
            for (id, _) in calls.waitingCalls { calls.setTimer(nil, of: id) }
        }
        if let result = message.member("result") {
            receive(result, of: call)
        } else if let error = message.member("error") {
            call.resume(.failure(LarderClientError(remote: WireError(from: error))))
        } else {
            call.resume(.failure(LarderClientError(.protocolViolation, "the reply has neither result nor error")))
        }
        writeWaiting()
    }

    /// Handles an error reply without an ID. With the codes `lineTooLong` and `limitExceeded`, the agent discarded a
    /// request without reading its ID. The discarded request is assumed to be the longest one in flight. Without one,
    /// `limitExceeded` means that the agent is about to close the connection.
    private func receive(errorWithoutID error: WireError) {
        switch error.code {
        case .lineTooLong, .limitExceeded:
            guard let call = calls.answerLongest() else { return finish(LarderClientError(remote: error)) }
            call.resume(.failure(LarderClientError(remote: error)))
            writeWaiting()
        default: violation("the agent could not parse a request: \(error)")
        }
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
                // Register the receiver before the next line is parsed, because that line may already be the first
                // event.
                subscriptions[subscription] = receiver
                call.resume(.result(result))
            } else {
                call.resume(.failure(LarderClientError(.protocolViolation, "the reply has no subscription ID")))
            }
        }
    }

    // MARK: Subscriptions

    /// Passes an event to its subscription. Events of a subscription that the client has just ended are dropped.
    private func receive(event params: JSONValue) {
        let event: ConfigEvent
        do {
            event = try ConfigEvent(params: params)
        } catch {
            return violation("the agent sent an invalid event: \(error.detail)")
        }
        guard let receiver = subscriptions[event.subscription] else { return }
        do throws(LarderClientError) {
            try receiver.receive(event)
            if case .unknown(let kind) = event.content { monitor.ignored(kind) }
            guard case .end(let reason) = event.content else { return }
            subscriptions[event.subscription] = nil
            if reason == .denied || reason == .namespaceRemoved { return receiver.withdraw() }
            // The agent is about to close this connection. It may still answer earlier requests, but answers no new
            // ones.
            if reason == .shutdown { isUsable.value.store(false, ordering: .relaxed) }
            receiver.interrupt(LarderClientError(.disconnected, "the agent ended the subscription (\(reason))"))
        } catch {
            finish(error)
        }
    }

    var subscriptionCount: Int { subscriptions.count }

    var isAwaitingReply: Bool { calls.isAwaitingReply }

    /// Ends a subscription, unless the agent has already ended it.
    func unsubscribe(_ subscription: Int) {
        guard subscriptions.removeValue(forKey: subscription) != nil else { return }
        writeUnsubscribe(subscription)
    }

    private func writeUnsubscribe(_ subscription: Int) {
        let parameters = ConfigUnsubscribe.Parameters(subscription: subscription)
        writeNotification(ConfigUnsubscribe.name) { parameters.write(to: &$0) }
    }

    // MARK: Images

    /// Passes a progress notification to its call. The progress of an abandoned call is dropped.
    private func receive(progress params: JSONValue) {
        guard let id = params.member("request")?.int else {
            return violation("the agent sent the progress of a request that was not sent")
        }
        guard let purpose = calls.active(id)?.purpose else { return }
        do {
            switch purpose {
            case .prefetch(let receive): receive(try ImageProgress(params: params))
            case .lease(let receive?): receive(try ImageGet.Progress(params: params))
            case .answer, .subscription, .lease(nil): break
            }
        } catch {
            violation("the agent sent an invalid progress notification: \(error.detail)")
        }
    }

    /// Releases a lease. No reply is requested.
    func writeRelease(_ lease: Int) {
        let parameters = ImageRelease.Parameters(lease: lease)
        writeNotification(ImageRelease.name) { parameters.write(to: &$0) }
    }
}
