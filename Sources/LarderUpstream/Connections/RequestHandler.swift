internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2
internal import NIOSSL

/// The failure of a connection before the head of the response to a request.
struct ConnectionFailure: Error {
    let cause: any Error
    /// Whether the connection had carried another request.
    let isReused: Bool
}

/// Sends the requests of one HTTP/1.1 connection, or the request of one HTTP/2 stream, with unchanged targets, and
/// reports whether a failed connection was a reused one.
///
/// AsyncHTTPClient takes the target of a request from Foundation's `URL`, which encodes percent signs again, and has no
/// path if its percent-encoded bytes are not UTF-8. Therefore ``ClientRoute`` passes the target in a header field, which
/// this handler removes.
final class RequestHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    /// The field that contains the target of the request. A request without it is not sent.
    static let targetField = "larder-request-target"
    /// The field of a request that must not be sent over a reused connection.
    static let newConnectionField = "larder-new-connection"

    private enum State {
        case idle
        case awaitingHead
        /// The current request is not sent.
        case refusing
    }

    private var state = State.idle
    private var requests = 0

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            requests += 1
            let target = head.headers.first(name: Self.targetField)
            let isNewRequired = head.headers.contains(name: Self.newConnectionField)
            head.headers.remove(name: Self.targetField)
            head.headers.remove(name: Self.newConnectionField)
            guard let target else {
                return refuse(UpstreamError(.other, "a request has no target; report this fault"), context, promise)
            }
            guard requests == 1 || !isNewRequired else {
                return refuse(
                    ConnectionFailure(cause: HTTPClientError.remoteConnectionClosed, isReused: true), context, promise)
            }
            head.uri = target
            state = .awaitingHead
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body, .end:
            if case .refusing = state {
                promise?.fail(HTTPClientError.remoteConnectionClosed)
            } else {
                context.write(data, promise: promise)
            }
        }
    }

    /// Fails the current request instead of sending it. The client then closes the connection.
    private func refuse(_ error: any Error, _ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) {
        state = .refusing
        promise?.fail(error)
        // The client must have returned from its write before it handles the error.
        context.eventLoop.assumeIsolated().execute { context.fireErrorCaught(error) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head = unwrapInboundIn(data) { state = .idle }
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // After an unclean end of TLS the channel becomes inactive.
        guard case .awaitingHead = state, requests > 1, (error as? NIOSSLError) != .uncleanShutdown else {
            return context.fireErrorCaught(error)
        }
        state = .idle
        context.fireErrorCaught(ConnectionFailure(cause: error, isReused: true))
    }

    func channelInactive(context: ChannelHandlerContext) {
        if case .awaitingHead = state {
            state = .idle
            context.fireErrorCaught(
                ConnectionFailure(cause: HTTPClientError.remoteConnectionClosed, isReused: requests > 1))
        }
        context.fireChannelInactive()
    }
}

extension HTTPClient.Configuration {
    /// Adds a ``RequestHandler`` to each connection.
    ///
    /// - Parameter check: called for each new connection before any byte of a request is sent. If it throws, the
    ///   connection is not used.
    mutating func addRequestHandlers(check: @escaping @Sendable (any Channel) throws -> Void = { _ in }) {
        http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                try check(channel)
                try channel.addRequestHandler(after: ByteToMessageHandler<HTTPResponseDecoder>.self)
            }
        }
        http2ConnectionDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture { try check(channel) }
        }
        http2StreamChannelDebugInitializer = { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.addRequestHandler(after: HTTP2FramePayloadToHTTP1ClientCodec.self)
            }
        }
    }
}

extension Channel {
    fileprivate func addRequestHandler<Codec: ChannelHandler>(after codec: Codec.Type) throws {
        let operations = pipeline.syncOperations
        try operations.addHandler(RequestHandler(), position: .after(operations.handler(type: codec)))
    }
}
