import LarderJSON
import NIOCore
import NIOHTTP1

/// One connection: reads requests, counts what they need before it is buffered, and writes responses one at a time. Used on
/// the event loop.
final class HTTPConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// The maximum time between two requests, and of a whole request or response.
    private static let (maxIdle, maxBusy) = (TimeAmount.seconds(60), TimeAmount.seconds(10))
    /// The time between two comments of a stream, which keep proxies from closing it.
    private static let streamPause = TimeAmount.seconds(15)
    /// The maximum size of a request header.
    private static let maxHeaderBytes = 16 << 10
    private static let maxHeaderFields = 64

    private enum Phase {
        /// No request is in progress.
        case idle
        /// A request arrives.
        case receiving
        /// A response is prepared or written.
        case responding
        case streaming(ConfigStream)
        /// The last response was written.
        case closing
    }

    private struct Request {
        let head: HTTPRequestHead
        /// The route, or the response for a request that is refused.
        var route: Result<Route, Response>
        /// The origin that the response must allow.
        let origin: String?
        var body = ByteBuffer()
        /// The bytes of the body that have arrived, including those that are not kept.
        var receivedBytes = 0
    }

    private let core: GatewayCore
    private var context: ChannelHandlerContext?
    private var phase = Phase.idle {
        didSet { phaseStart = .now() }
    }
    private var phaseStart = NIODeadline.now()
    /// The request in progress.
    private var request: Request?
    /// The bytes that this connection has reserved.
    private var reservedBytes = 0
    /// Whether no header of a request has arrived.
    private var isNew = true
    /// Whether the connection closes after the response in progress, or the next one.
    private var isLast = false

    init(_ core: GatewayCore) { self.core = core }

    func addHandlers(to channel: any Channel) throws {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = Self.maxHeaderBytes
        limits.maxHeaderListSize = Self.maxHeaderBytes
        limits.maxHeaderFieldCount = Self.maxHeaderFields
        let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: limits)
        try channel.pipeline.syncOperations.addHandlers([
            ArrivalHandler(self), HTTPResponseEncoder(),
            ByteToMessageHandler(decoder, maximumBufferSize: 4 * Self.maxHeaderBytes), HTTPServerPipelineHandler(),
        ])
        try channel.pipeline.syncOperations.addHandler(self)
    }

    // MARK: State

    /// Since when the connection has not made progress; nil for a stream. If there are too many connections, the one with the
    /// longest time is closed.
    var stalledSince: NIODeadline? {
        if case .streaming = phase { nil } else { phaseStart }
    }

    /// Called when bytes arrive: a request begins, if none is in progress.
    fileprivate func bytesArrived() {
        if case .idle = phase { phase = .receiving }
    }

    /// Called every second.
    func tick(_ now: NIODeadline) {
        switch phase {
        case .streaming(let stream) where stream.isWriting:
            if now - stream.lastWrite >= Self.maxBusy { close() }
        case .streaming(let stream) where stream.isDirty: refreshStream()
        case .streaming(let stream):
            if now - stream.lastWrite >= Self.streamPause { write(ByteBuffer(string: ":\n\n"), stream) }
        case .idle: if now - phaseStart >= Self.maxIdle { close() }
        case .receiving, .responding, .closing: if now - phaseStart >= Self.maxBusy { close() }
        }
    }

    func close() { context?.close(promise: nil) }

    /// Closes the connection after the response in progress. A new connection is kept for its first request, which may be on
    /// its way.
    func quiesce() {
        if case .streaming = phase { endStream() }
        if isNew {
            isLast = true
            return
        }
        context?.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        if case .streaming(let stream) = phase { stream.namespace.streams[ObjectIdentifier(self)] = nil }
        core.release(reservedBytes)
        reservedBytes = 0
        core.remove(self)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is HTTPParserError, case .receiving = phase, request == nil {
            let isLong = (error as? HTTPParserError) == .headerOverflow
            // The decoder cannot read what follows.
            isLast = true
            send(
                isLong
                    ? .error(
                        .requestHeaderFieldsTooLarge,
                        "the header exceeds \(Self.maxHeaderBytes) bytes or \(Self.maxHeaderFields) fields")
                    : .error(.badRequest, "the request is not valid HTTP/1.1"))
        } else {
            close()
        }
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch Self.unwrapInboundIn(data) {
        case .head(let head): begin(head)
        case .body(let bytes): receive(bytes)
        case .end: respond()
        }
    }

    private func begin(_ head: HTTPRequestHead) {
        bytesArrived()
        guard case .receiving = phase else { return }
        // The decoder stops at the end of a request to change the protocol, and would buffer all bytes after it.
        isNew = false
        isLast =
            isLast || !head.isKeepAlive || head.version != .http1_1 || head.method == .CONNECT
            || head.headers.contains(name: "upgrade")
        do throws(Response) {
            let origin = try core.access.origin(of: head)
            request = Request(head: head, route: Result { () throws(Response) in try core.route(head) }, origin: origin)
        } catch {
            request = Request(head: head, route: .failure(error), origin: nil)
        }
        if let length = head.headers.first(name: "content-length").flatMap({ Int($0) }),
            length > core.settings.maxBodyBytes
        {
            return refuseBody()
        }
        if head.headers[canonicalForm: "expect"].contains(where: { $0.lowercased() == "100-continue" }) {
            answerExpectation()
        }
    }

    /// Answers a client that waits before it sends the body (RFC 9110, section 10.1.1).
    private func answerExpectation() {
        switch request?.route {
        case .success(let route)? where route.hasBody:
            let head = HTTPResponseHead(version: .http1_1, status: .continue)
            context?.writeAndFlush(Self.wrapOutboundOut(.head(head)), promise: nil)
        case .failure(let response)?:
            isLast = true
            send(response)
        case .success?, nil: break
        }
    }

    private func receive(_ bytes: ByteBuffer) {
        // After an early response, the rest of the body is dropped.
        guard case .receiving = phase, let route = request?.route else { return }
        request?.receivedBytes += bytes.readableBytes
        if request?.receivedBytes ?? 0 > core.settings.maxBodyBytes { return refuseBody() }
        guard case .success(let route) = route, route.hasBody else { return }
        guard core.reserve(bytes.readableBytes) else {
            request?.route = .failure(GatewayCore.busy)
            return
        }
        reservedBytes += bytes.readableBytes
        request?.body.writeImmutableBuffer(bytes)
    }

    /// Ends the connection, because a body is too long to be read.
    private func refuseBody() {
        isLast = true
        send(.error(.payloadTooLarge, "the body exceeds \(core.settings.maxBodyBytes) bytes"))
    }

    private func respond() {
        guard case .receiving = phase, let request else { return }
        phase = .responding
        do throws(Response) {
            switch try request.route.get() {
            case .health: send(core.health)
            case .readiness: send(core.readiness)
            case .flag(let key, let name): send(try core.evaluate(key, in: name, request.body))
            case .flags(let name): advance(try core.evaluateAll(in: name, request.body), reserved: 0)
            case .config(let path, let name):
                let accept = request.head.headers[canonicalForm: "accept"]
                guard accept.contains(where: { $0.lowercased().hasPrefix("text/event-stream") }),
                    request.head.method == .GET
                else {
                    return send(try core.config(at: path, in: name, for: request.head))
                }
                stream(path, of: try core.namespaceToStream(name, head: request.head))
            }
        } catch {
            send(error)
        }
    }

    /// Evaluates flags for one time slice, and continues after other connections have been served.
    private func advance(_ evaluation: BulkEvaluation, reserved: Int) {
        guard context != nil, let head = request?.head else { return }
        // All evaluations together delay other requests by a millisecond.
        let isComplete = evaluation.advance(for: .microseconds(1000 / Int64(core.waitingEvaluations + 1)))
        let size = evaluation.writer.bytes.count
        guard core.reserve(size - reserved) else { return send(GatewayCore.busy) }
        reservedBytes += size - reserved
        if isComplete {
            let etag = ServedValue.etag(evaluation.writer.bytes)
            return send(Response.json(.ok, evaluation.writer.bytes).tagged(etag, for: head))
        }
        // A task without delay would run before the event loop reads from other connections.
        core.waitingEvaluations += 1
        core.loop.assumeIsolated().scheduleTask(in: .milliseconds(1)) {
            self.core.waitingEvaluations -= 1
            self.advance(evaluation, reserved: size)
        }
    }

    // MARK: Responses

    private func send(_ response: Response) {
        guard let context else { return }
        core.release(reservedBytes)
        let size = response.body.readableBytes
        reservedBytes = core.reserve(size) ? size : 0
        let response = reservedBytes == size ? response : GatewayCore.busy
        phase = .responding
        context.write(Self.wrapOutboundOut(.head(head(of: response))), promise: nil)
        // The end is written once the client has taken the body, because the next request is read after the end.
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { self.bodyWritten($0) }
        let body = request?.head.method == .HEAD ? ByteBuffer() : response.body
        context.writeAndFlush(Self.wrapOutboundOut(.body(.byteBuffer(body))), promise: written)
    }

    /// Ends the response in a job of its own: the end delivers the next request, and a write can complete or fail at once, so
    /// that a client with many requests would otherwise exhaust the stack.
    private func bodyWritten(_ result: Result<Void, any Error>) {
        guard case .success = result else { return close() }
        core.loop.assumeIsolated().execute { self.finish() }
    }

    private func head(of response: Response) -> HTTPResponseHead {
        var headers = response.headers
        if response.status != .noContent, response.status != .notModified {
            headers.replaceOrAdd(name: "Content-Length", value: String(response.body.readableBytes))
        }
        if isLast { headers.replaceOrAdd(name: "Connection", value: "close") }
        addCommon(&headers)
        return HTTPResponseHead(version: .http1_1, status: response.status, headers: headers)
    }

    private func addCommon(_ headers: inout HTTPHeaders) {
        headers.add(name: "X-Content-Type-Options", value: "nosniff")
        if let origin = request?.origin {
            headers.add(name: "Access-Control-Allow-Origin", value: origin)
            headers.add(name: "Access-Control-Expose-Headers", value: "ETag, Larder-State, Larder-Masked")
        }
        if !core.settings.origins.isEmpty { headers.add(name: "Vary", value: "Origin") }
        let name: String? =
            switch try? request?.route.get() {
            case .flag(_, let name)?, .flags(let name)?, .config(_, let name)?: name
            case .health?, .readiness?, nil: nil
            }
        if let namespace = name.flatMap({ core.namespaces[$0] }), namespace.isStale, namespace.snapshot != nil {
            headers.add(name: "Larder-State", value: "stale")
        }
    }

    /// Ends the response. The next request can arrive, unless the connection closes.
    private func finish() {
        core.release(reservedBytes)
        reservedBytes = 0
        guard let context else { return }
        request = nil
        phase = isLast ? .closing : .idle
        let isLast = isLast
        context.writeAndFlush(Self.wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { _ in
            if isLast { self.close() }
        }
    }

    // MARK: Streams

    private func stream(_ path: JSONPath, of namespace: ServedNamespace) {
        let last = request?.head.headers.first(name: "last-event-id")
        phase = .streaming(ConfigStream(path, of: namespace, after: last))
        namespace.streams[ObjectIdentifier(self)] = self
        var headers: HTTPHeaders = ["Content-Type": "text/event-stream", "Cache-Control": "no-store"]
        addCommon(&headers)
        let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: headers)
        context?.writeAndFlush(Self.wrapOutboundOut(.head(head)), promise: nil)
        refreshStream()
    }

    /// Sends the value of the stream, unless the client has it. If an event is being written, or too many bytes are
    /// buffered, the value is sent later.
    func refreshStream() {
        guard context != nil, case .streaming(let stream) = phase else { return }
        guard stream.namespace.snapshot != nil else { return endStream() }
        stream.isDirty = stream.isWriting
        guard !stream.isWriting, let event = stream.nextEvent() else { return }
        guard core.reserve(event.body.readableBytes) else {
            stream.isDirty = true
            return
        }
        reservedBytes += event.body.readableBytes
        stream.lastID = event.id
        let start = ByteBuffer(string: "event: \(event.name)\nid: \(event.id)\ndata: ")
        for part in [start, event.body] { context?.write(Self.wrapOutboundOut(.body(.byteBuffer(part))), promise: nil) }
        write(ByteBuffer(string: "\n\n"), stream)
    }

    private func write(_ bytes: ByteBuffer, _ stream: ConfigStream) {
        guard let context else { return }
        (stream.isWriting, stream.lastWrite) = (true, .now())
        context.writeAndFlush(Self.wrapOutboundOut(.body(.byteBuffer(bytes)))).assumeIsolated().whenComplete { result in
            guard case .success = result else { return self.close() }
            self.core.release(self.reservedBytes)
            self.reservedBytes = 0
            stream.isWriting = false
            if stream.isDirty { self.refreshStream() }
        }
    }

    private func endStream() {
        guard case .streaming(let stream) = phase else { return }
        stream.namespace.streams[ObjectIdentifier(self)] = nil
        isLast = true
        finish()
    }
}

/// The values that one client follows.
private final class ConfigStream {
    let path: JSONPath
    let namespace: ServedNamespace
    /// The ID of the last event that the client has; nil for none.
    var lastID: String?
    /// Whether an event is being written.
    var isWriting = false
    /// Whether an event was deferred.
    var isDirty = false
    /// When the last write began.
    var lastWrite = NIODeadline.now()

    init(_ path: JSONPath, of namespace: ServedNamespace, after lastID: String?) {
        (self.path, self.namespace, self.lastID) = (path, namespace, lastID)
    }

    /// The event for the current value; nil if the client has it.
    func nextEvent() -> (name: String, id: String, body: ByteBuffer)? {
        let event =
            switch namespace.value(at: path) {
            case .found(let value): ("value", value.etag, value.body)
            case .missing: ("missing", "missing", ByteBuffer(string: "null"))
            case .secret: ("secret", "secret", ByteBuffer(string: "null"))
            case .tooLarge: ("tooLarge", "tooLarge", ByteBuffer(string: "null"))
            }
        return event.1 == lastID ? nil : event
    }
}

/// Notifies a connection of the arrival of bytes, before they are decoded.
private final class ArrivalHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: HTTPConnection

    init(_ connection: HTTPConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        connection.bytesArrived()
        context.fireChannelRead(data)
    }
}
