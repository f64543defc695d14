internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// A proxy and the address that connections to it use.
struct ProxyRoute: Sendable, Hashable {
    let server: ProxyServer
    let address: IPAddress
}

/// A client and the address that it connects to.
struct ClientRoute: Sendable {
    let client: HTTPClient
    /// The only address that the client can connect to, or request from the proxy; nil for any address of the host.
    let address: IPAddress?
    /// The proxy; nil for none.
    var proxy: ProxyRoute?

    /// The maximum number of reused connections that are tried and closed for one request.
    private static let maximumReuses = 64

    /// Sends a request, and returns the response once its head has arrived.
    ///
    /// An idle connection may be closed by its server while a request is on the way. If a connection that has carried
    /// other requests fails before the head of the response, the request is sent once more, over a new connection (RFC
    /// 9112, section 9.3.1).
    ///
    /// - Parameters:
    ///   - message: the request; its URL is ignored
    ///   - isRepeatable: whether the request may be sent once more
    func execute(
        _ message: HTTPClientRequest, to url: FetchURL, isRepeatable: Bool
    ) async throws -> HTTPClientResponse {
        var message = message
        // The client gets only the origin, because it does not keep the bytes of a path.
        message.url = url.connectionOrigin + "/"
        if !message.headers.contains(name: "Host") { message.headers.add(name: "Host", value: String(url.authority)) }
        message.headers.replaceOrAdd(name: RequestHandler.targetField, value: url.target)
        message.headers.remove(name: RequestHandler.newConnectionField)
        var reuses = 0
        while true {
            do {
                // `Deadline` enforces the limits. `execute` also requires a deadline, so it gets one that never
                // expires.
                return try await client.execute(message, deadline: .distantFuture)
            } catch {
                guard isRepeatable, Self.isOfReusedConnection(error), reuses < Self.maximumReuses, !Task.isCancelled
                else { throw (error as? ConnectionFailure)?.cause ?? error }
                reuses += 1
                message.headers.replaceOrAdd(name: RequestHandler.newConnectionField, value: "1")
            }
        }
    }

    private static func isOfReusedConnection(_ error: any Error) -> Bool {
        switch error {
        case let error as ConnectionFailure: error.isReused
        // The connection was closed before the client wrote the request. `RequestHandler` replaces the error if the
        // request was written.
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case ChannelError.ioOnClosedChannel: true
        default: false
        }
    }
}
