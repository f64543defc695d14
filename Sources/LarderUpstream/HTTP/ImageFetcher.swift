internal import AsyncHTTPClient
package import NIOCore
internal import Synchronization

/// Sends requests for images whose URLs come from clients. It connects only to allowed addresses, checks the target of
/// each redirect, and does not decode bodies.
///
/// The HTTP clients are created by the first request. The owner must call ``shutdown()``. After that, every request
/// fails with ``UpstreamError/Code/shutDown``.
package final class ImageFetcher: Sendable {
    /// Settings that apply to all requests of a fetcher.
    package struct Configuration: Sendable {
        /// Sent as `User-Agent`.
        package var userAgent: String
        /// Address blocks that are allowed although they are not globally routable.
        package var allowedNetworks: [AddressRange] = []
        /// The maximum time to open a connection, including TLS.
        package var connectTimeout = Duration.seconds(5)
        /// How long an idle connection is kept.
        package var idleConnectionTimeout = Duration.seconds(15)
        /// The maximum number of redirects of one request.
        package var maximumRedirects = 5
        /// The idle limit of a request, unless the caller sets one, and the maximum time for one image over all attempts.
        /// The minimum transfer rates are set by the caller.
        package var timeouts = FetchTimeouts(idle: .seconds(10), whole: .seconds(600))

        /// - Parameter version: the version of Larder, for `User-Agent: larder/<version>`
        package init(version: String) { userAgent = "larder/" + version }
    }

    /// The initial configuration. ``update(allowedNetworks:)`` does not change it.
    package let configuration: Configuration
    private let clients: ClientSource

    /// Makes a fetcher. Opens no connection.
    ///
    /// - Parameter eventLoopGroup: the event loops of the connections; nil for the process-wide group of SwiftNIO. The
    ///   caller keeps ownership.
    package init(
        configuration: Configuration, resolver: any HostResolver,
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.configuration = configuration
        clients = .guarded(
            GuardedClients(
                addressGuard: AddressGuard(allowed: configuration.allowedNetworks), resolver: resolver,
                configuration: HTTPClient.Configuration(configuration), eventLoopGroup: eventLoopGroup))
    }

    /// Makes a fetcher that sends all requests to an origin inside this process. Responses have no time limits, because
    /// a test may hold them.
    package init(configuration: Configuration, origin: any InProcessOrigin) {
        self.configuration = configuration
        clients = .inProcess(origin)
    }

    /// Replaces the allowed address blocks for all later requests.
    package func update(allowedNetworks: [AddressRange]) {
        if case .guarded(let clients) = clients { clients.update(AddressGuard(allowed: allowedNetworks)) }
    }

    /// Returns all header fields of an image request. The cache compares these fields to apply `Vary`. A field in
    /// `headers` replaces a default field of the same name.
    package func fields(
        adding headers: [(name: String, value: String)] = []
    ) -> [(name: String, value: String)] {
        var fields = ownFields
        for header in headers {
            fields.removeAll { $0.name.lowercased() == header.name.lowercased() }
            fields.append(header)
        }
        return fields
    }

    private var ownFields: [(name: String, value: String)] {
        [
            ("User-Agent", configuration.userAgent),
            ("Accept", "image/avif,image/webp,image/apng,image/svg+xml,image/*;q=0.8"),
            // The hash, the size and the format checks apply to the image itself, so it must not be compressed for
            // transfer.
            ("Accept-Encoding", "identity"),
        ]
    }

    /// Fetches a response as a stream.
    ///
    /// When `consume` returns or throws, or when the task is cancelled, the connection is closed, unless the body has
    /// been read to its end. `consume` must limit how much it reads.
    ///
    /// - Parameters:
    ///   - request: the request. Its `headers` are sent only to the origin of the URL. `maximumBytes` is ignored.
    ///   - onRedirect: called with each redirect, usable or not, before it is followed
    ///   - isAwaited: returns whether other requests wait for this one to end. If they do,
    ///     ``FetchTimeouts/slowestWhileAwaited`` applies. The function must not block.
    ///   - consume: reads the response, which can have any status except a redirect
    /// - Throws: the errors of `consume`; ``UpstreamError/Code/forbiddenAddress`` if the URL or the target of a
    ///   redirect has no allowed address; ``UpstreamError/Code/timeout`` if a limit is exceeded, even while the body is
    ///   read; other ``UpstreamError``s if there is no response
    package func stream<Output: Sendable>(
        _ request: FetchRequest, onRedirect: @escaping @Sendable (RedirectResponse) -> Void = { _ in },
        isAwaited: @escaping @Sendable () -> Bool = { false },
        _ consume: @escaping @Sendable (StreamHead, inout StreamBody) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        let deadline = Deadline(timeouts(of: request), isAwaited: isAwaited)
        let exchange = HTTPExchange(
            clients: clients, fields: ownFields, maximumRedirects: configuration.maximumRedirects,
            request: request, url: try FetchURL(request.url), deadline: deadline, onRedirect: onRedirect)
        return try await exchange.run { response, target throws(UpstreamError) in
            deadline.bodyBegins()
            var body = StreamBody(response, from: target, deadline: deadline)
            return try await consume(StreamHead(response, from: target), &body)
        }
    }

    private func timeouts(of request: FetchRequest) -> FetchTimeouts {
        if case .inProcess = clients { return FetchTimeouts(idle: Self.unlimited, whole: Self.unlimited) }
        return request.timeouts
    }

    private static let unlimited = Duration.seconds(1 << 30)

    /// Cancels all requests and closes all connections.
    package func shutdown() async {
        if case .guarded(let clients) = clients { await clients.shutdown() }
    }
}

extension HTTPClient.Configuration {
    fileprivate init(_ own: ImageFetcher.Configuration) {
        self.init(connectTimeout: own.connectTimeout, idleTimeout: own.idleConnectionTimeout)
        // The caller limits concurrent downloads. The limit per host is high, because the idle limit of a request also
        // applies while the request waits for a free connection.
        connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1024
    }
}
