internal import AsyncHTTPClient
package import NIOCore
internal import Synchronization

/// Requests for images that somebody else named: to allowed addresses only, with redirects followed by hand and each hop
/// checked, and never decoded.
///
/// The HTTP clients behind it are made by the first request. Whoever makes a fetcher shuts it down; after that every
/// request fails with ``UpstreamError/Code/shutDown``.
package final class ImageFetcher: Sendable {
    /// What all requests have in common.
    package struct Configuration: Sendable {
        /// Sent as `User-Agent`.
        package var userAgent: String
        /// Blocks of addresses that are fetched from although they are not of the Internet.
        package var allowedNetworks: [AddressRange] = []
        /// The time for one connection, TLS included.
        package var connectTimeout = Duration.seconds(5)
        /// How long an unused connection is kept.
        package var idleConnectionTimeout = Duration.seconds(15)
        /// How many redirects one request follows.
        package var maximumRedirects = 5
        /// The longest silence, and the time for one image, all attempts included. Requests add the slowest transfer.
        package var timeouts = FetchTimeouts(idle: .seconds(10), whole: .seconds(600))

        /// Makes a configuration.
        ///
        /// - Parameter version: the version of Larder, for `User-Agent: larder/<version>`
        package init(version: String) { userAgent = "larder/" + version }
    }

    /// What all requests have in common, as it was given; ``update(allowedNetworks:)`` is not seen in it.
    package let configuration: Configuration
    private let clients: GuardedClients

    /// Makes a fetcher. Nothing is started.
    ///
    /// - Parameters:
    ///   - configuration: what all requests have in common
    ///   - resolver: what makes addresses of names
    ///   - eventLoopGroup: where connections live; nothing means NIO's process-wide group. The caller keeps its
    ///     ownership.
    package init(
        configuration: Configuration, resolver: any HostResolver,
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.configuration = configuration
        clients = GuardedClients(
            addressGuard: AddressGuard(allowed: configuration.allowedNetworks), resolver: resolver,
            configuration: HTTPClient.Configuration(configuration), eventLoopGroup: eventLoopGroup)
    }

    /// Allows other blocks of addresses, from the next request on.
    package func update(allowedNetworks: [AddressRange]) { clients.update(AddressGuard(allowed: allowedNetworks)) }

    /// All fields of a request for an image, for `Vary`: ours, and those that the caller adds or puts in their place.
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
            // What is hashed, counted and looked at are the image's own bytes.
            ("Accept-Encoding", "identity"),
        ]
    }

    /// Asks for an answer whose body comes piece by piece.
    ///
    /// The answer belongs to `consume`: once that returns or throws, or when the task is cancelled, its connection is
    /// closed unless the answer was read to its end. How much it takes is for the caller to limit.
    ///
    /// - Parameters:
    ///   - request: what to ask; its `headers` go to the URL's own origin only. `maximumBytes` is without effect
    ///   - fields: what to say to every origin that a redirect leads to
    ///   - isAwaited: whether other requests wait for the end of this one, which raises the slowest rate that is allowed
    ///     (``FetchTimeouts/slowestWhileAwaited``). It must not block
    ///   - consume: reads the answer, which may have any status but that of a redirect
    /// - Throws: ``UpstreamError``: what `consume` throws; ``UpstreamError/Code/forbiddenAddress`` if a hop is at an address
    ///   that is not allowed; ``UpstreamError/Code/timeout`` when a limit has passed, in the body too
    package func stream<Output: Sendable>(
        _ request: FetchRequest, fields: [(name: String, value: String)] = [],
        isAwaited: @escaping @Sendable () -> Bool = { false },
        _ consume: @escaping @Sendable (StreamHead, inout StreamBody) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        let deadline = Deadline(request.timeouts, isAwaited: isAwaited)
        let exchange = HTTPExchange(
            clients: .guarded(clients), fields: ownFields + fields, maximumRedirects: configuration.maximumRedirects,
            request: request, url: try FetchURL(request.url), deadline: deadline)
        return try await exchange.run { response, target throws(UpstreamError) in
            deadline.bodyBegins()
            var body = StreamBody(response, from: target, deadline: deadline)
            return try await consume(StreamHead(response, from: target), &body)
        }
    }

    /// Ends all requests and closes all connections.
    package func shutdown() async { await clients.shutdown() }
}

extension HTTPClient.Configuration {
    fileprivate init(_ own: ImageFetcher.Configuration) {
        self.init(
            redirectConfiguration: .disallow,
            timeout: .init(connect: TimeAmount(own.connectTimeout), read: nil),
            connectionPool: .init(idleTimeout: TimeAmount(own.idleConnectionTimeout)),
            decompression: .disabled)
        // A refused connection is known at once; whether and when to try again is the download's decision.
        connectionPool.retryConnectionEstablishment = false
        // How many run at once is decided before they get here; here they would wait and look silent.
        connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1024
    }
}
