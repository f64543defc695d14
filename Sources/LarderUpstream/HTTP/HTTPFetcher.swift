internal import AsyncHTTPClient
package import NIOCore
internal import NIOHTTP1
private import NIOPosix
internal import Synchronization

/// Sends HTTP/1.1 and HTTP/2 requests for documents and event streams. The sources of configuration share one fetcher.
///
/// The HTTP client is created by the first request, so an agent without an HTTP source does not pay for it. The owner
/// must call ``shutdown()``. After that, every request fails with ``UpstreamError/Code/shutDown``.
package final class HTTPFetcher: Sendable {
    /// Settings that apply to all requests of this fetcher or of an ``ImageFetcher``.
    package struct Configuration: Sendable {
        /// Sent as `User-Agent`.
        package var userAgent: String
        /// The maximum time to open a connection, including TLS.
        package var connectTimeout: Duration
        /// How long an idle connection is kept. This is shorter than any sensible poll interval: an origin need not
        /// hold an idle connection for each host, and each poll uses the current DNS entries.
        package var idleConnectionTimeout = Duration.seconds(15)
        /// The maximum number of redirects of one request.
        package var maximumRedirects = 5

        /// - Parameter version: the version of Larder, for `User-Agent: larder/<version>`
        package init(version: String, connectTimeout: Duration = .seconds(5)) {
            userAgent = "larder/" + version
            self.connectTimeout = connectTimeout
        }
    }

    private enum State {
        case unused
        case running(HTTPClient)
        case shutDown
    }

    private let configuration: Configuration
    private let eventLoopGroup: (any EventLoopGroup)?
    /// The clients for requests through a proxy.
    private let proxied: GuardedClients
    /// The tasks of all requests share the client.
    private let state = Mutex(State.unused)

    /// Makes a fetcher. Opens no connection.
    ///
    /// - Parameters:
    ///   - resolver: resolves names for requests through a proxy; nil for the resolver of the system on the process-wide
    ///     threads of SwiftNIO. Names for other requests are resolved by the HTTP client.
    ///   - eventLoopGroup: the event loops of the connections; nil for the process-wide group of SwiftNIO. The caller keeps
    ///     ownership.
    package init(
        configuration: Configuration, resolver: (any HostResolver)? = nil,
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.configuration = configuration
        self.eventLoopGroup = eventLoopGroup
        // The settings name the hosts of sources, so all addresses are allowed.
        let everything = ["0.0.0.0/0", "::/0"].compactMap { AddressRange($0) }
        proxied = GuardedClients(
            addressGuard: AddressGuard(allowed: everything), resolver: resolver ?? SharedResolver(),
            configuration: HTTPClient.Configuration(configuration), eventLoopGroup: eventLoopGroup)
    }

    /// Fetches one document.
    ///
    /// A body that is truncated, empty or too large is an error; no part of it is returned. Cancelling the task aborts
    /// the request and closes its connection. If a 304 refers to another document than the validator of the request,
    /// the request is repeated once without the validator, within the same time limits.
    ///
    /// - Throws: ``UpstreamError``
    package func fetch(_ request: FetchRequest) async throws(UpstreamError) -> FetchResponse {
        let deadline = Deadline(request.timeouts)
        if let response = try await fetch(request, deadline) { return response }
        var unconditional = request
        unconditional.validator = nil
        guard let response = try await fetch(unconditional, deadline) else {
            preconditionFailure("a 304 to an unconditional request is an error")
        }
        return response
    }

    private func fetch(_ request: FetchRequest, _ deadline: Deadline) async throws(UpstreamError) -> FetchResponse? {
        try await exchange(request, deadline).run { response, target throws(UpstreamError) in
            try await BodyReader(response, to: request, from: target).read(deadline)
        }
    }

    /// Fetches a response as a stream, which may never end.
    ///
    /// When `consume` returns or throws, or when the task is cancelled, the connection is closed, unless the body has
    /// been read to its end. `consume` must limit how much it reads.
    ///
    /// - Parameters:
    ///   - request: the request. `timeouts.whole` limits only the time until the head of the response. `timeouts.idle`
    ///     applies to the body, too. `maximumBytes` is ignored.
    ///   - clock: measures the time limits
    ///   - consume: reads the response, which can have any status except a redirect
    /// - Throws: the errors of `consume`; `timeout` if a limit is exceeded, even while the body is read; other
    ///   ``UpstreamError``s if there is no response
    package func stream<Output: Sendable>(
        _ request: FetchRequest, clock: any Clock<Duration> = ContinuousClock(),
        _ consume: @escaping @Sendable (StreamHead, inout StreamBody) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        let deadline = Deadline(request.timeouts, clock: clock)
        return try await exchange(request, deadline).run { response, target throws(UpstreamError) in
            deadline.allow(nil)
            var body = StreamBody(decoding: response, from: target, deadline: deadline)
            return try await consume(StreamHead(response, from: target), &body)
        }
    }

    /// Sends a report, and ignores the body of the response. Closes the connection if there is a body.
    ///
    /// - Parameter request: a POST. `timeouts.whole` limits the time until the head of the response.
    /// - Throws: ``UpstreamError``; `status` for a response whose status is not a success, `tooManyRedirects` for a redirect
    package func send(report request: FetchRequest) async throws(UpstreamError) {
        var request = request
        request.isReport = true
        try await stream(request) { head, _ throws(UpstreamError) in
            if !(200..<300).contains(head.status) { throw head.failure(insteadOf: "a success") }
        }
    }

    private func exchange(_ request: FetchRequest, _ deadline: Deadline) throws(UpstreamError) -> HTTPExchange {
        HTTPExchange(
            clients: .shared(try client(), proxied: proxied),
            fields: [
                ("User-Agent", configuration.userAgent), ("Accept", "*/*"), ("Accept-Encoding", "gzip, deflate"),
            ],
            maximumRedirects: request.isReport ? 0 : configuration.maximumRedirects, request: request,
            url: try FetchURL(request.url),
            deadline: deadline)
    }

    /// Cancels all requests and closes all connections. Can be called more than once.
    package func shutdown() async {
        let last = state.withLock { state in
            defer { state = .shutDown }
            return state
        }
        await proxied.shutdown()
        guard case .running(let client) = last else { return }
        // shutdown() throws only if it has been called before. That is impossible, because only the caller that changes
        // the state from `running` to `shutDown` gets here.
        try? await client.shutdown()
    }

    private func client() throws(UpstreamError) -> HTTPClient {
        let client: HTTPClient? = state.withLock { state in
            switch state {
            case .running(let client): return client
            case .shutDown: return nil
            case .unused:
                var configuration = HTTPClient.Configuration(configuration)
                configuration.addRequestHandlers()
                let client = HTTPClient(
                    eventLoopGroup: eventLoopGroup ?? HTTPClient.defaultEventLoopGroup, configuration: configuration)
                state = .running(client)
                return client
            }
        }
        guard let client else { throw .shutDown }
        return client
    }
}

/// The resolver of the system. Starts the process-wide threads of SwiftNIO at the first lookup, not before.
private struct SharedResolver: HostResolver {
    func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] {
        try await SystemResolver(.singleton).addresses(of: name)
    }
}

extension HTTPClient.Configuration {
    init(_ own: HTTPFetcher.Configuration) {
        self.init(
            // HTTPExchange checks and counts redirects itself, and does not treat a 304 with a Location as a redirect.
            redirectConfiguration: .disallow,
            // The time limits differ per request, so Deadline enforces them.
            timeout: .init(connect: TimeAmount(own.connectTimeout), read: nil),
            connectionPool: .init(idleTimeout: TimeAmount(own.idleConnectionTimeout)),
            // `Inflater` decodes bodies piece by piece, so that the limit of each request applies. The limit of the
            // client would apply to all bytes of an event stream together. An image is not compressed for transfer.
            decompression: .disabled)
        // ConfigRefreshService, the sources and ImageDownloader decide whether and when to try again.
        connectionPool.retryConnectionEstablishment = false
        // A stream occupies its connection as long as it lasts. With the default limit of eight connections per host,
        // the ninth namespace that follows the same server would wait indefinitely. The callers limit concurrent
        // downloads of images. The idle limit of a request also applies while it waits for a free connection.
        connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1024
    }
}

/// An HTTP server inside this process, for tests. It responds to the requests of an ``ImageFetcher`` in place of the
/// network.
package protocol InProcessOrigin: Sendable {
    /// Responds to a `GET` request. If it throws, the connection to the origin counts as failed.
    func respond(to request: InProcessRequest) async throws(UpstreamError) -> InProcessResponse
}

/// A request to an ``InProcessOrigin``.
package struct InProcessRequest: Sendable {
    package let url: String
    /// The header fields, with names in lower case.
    package let fields: [String: String]
}

/// A response of an ``InProcessOrigin``.
package struct InProcessResponse: Sendable {
    package let status: Int
    package let fields: [(name: String, value: String)]
    /// The pieces of the body, in order.
    package let body: AsyncStream<[UInt8]>

    package init(status: Int, fields: [(name: String, value: String)], body: AsyncStream<[UInt8]>) {
        (self.status, self.fields, self.body) = (status, fields, body)
    }
}

extension InProcessOrigin {
    func execute(_ message: HTTPClientRequest, to url: FetchURL) async throws(UpstreamError) -> HTTPClientResponse {
        var fields: [String: String] = [:]
        for field in message.headers { fields[field.name.lowercased()] = field.value }
        let response = try await respond(to: InProcessRequest(url: url.text, fields: fields))
        return HTTPClientResponse(
            status: HTTPResponseStatus(statusCode: response.status),
            headers: HTTPHeaders(response.fields.map { ($0.name, $0.value) }),
            body: .stream(response.body.map { ByteBuffer(bytes: $0) }))
    }
}
