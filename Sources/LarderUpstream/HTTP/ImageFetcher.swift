internal import AsyncHTTPClient
package import NIOCore

/// Sends requests for images whose URLs come from clients. It connects only to allowed addresses, checks the target of
/// each redirect, and does not decode bodies.
///
/// The HTTP clients are created by the first request. The owner must call ``shutdown()``. After that, every request
/// fails with ``UpstreamError/Code/shutDown``.
package final class ImageFetcher: Sendable {
    /// The idle limit of a request, unless the caller sets one, and the maximum time for one image over all attempts.
    /// The minimum transfer rates are set by the caller.
    package let timeouts: FetchTimeouts
    package static let defaultTimeouts = FetchTimeouts(whole: .seconds(600))
    private let configuration: HTTPFetcher.Configuration
    private let clients: ClientSource

    /// Makes a fetcher that allows only globally routable addresses. Opens no connection.
    ///
    /// - Parameter eventLoopGroup: the event loops of the connections; nil for the process-wide group of SwiftNIO. The
    ///   caller keeps ownership.
    package init(
        configuration: HTTPFetcher.Configuration, resolver: any HostResolver,
        timeouts: FetchTimeouts = defaultTimeouts, eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.configuration = configuration
        self.timeouts = timeouts
        clients = .guarded(
            GuardedClients(
                addressGuard: AddressGuard(), resolver: resolver,
                configuration: HTTPClient.Configuration(configuration), eventLoopGroup: eventLoopGroup))
    }

    /// Makes a fetcher that sends all requests to an origin inside this process. Responses have no time limits, because
    /// a test may hold them.
    package init(configuration: HTTPFetcher.Configuration, origin: any InProcessOrigin) {
        self.configuration = configuration
        timeouts = Self.defaultTimeouts
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

/// The settings of one origin of images.
package struct ImageOrigin: Sendable {
    /// What only requests to the origin need. It is a class, because each image query copies the settings of an origin.
    private final class Access: Sendable {
        let credential: HTTPAccess?
        let tls: TLSFiles
        let proxy: ProxyChoice

        init(_ credential: HTTPAccess?, _ tls: TLSFiles, _ proxy: ProxyChoice) {
            (self.credential, self.tls, self.proxy) = (credential, tls, proxy)
        }
    }

    private var access: Access
    /// `scheme://host`, with the port unless it is the default port of the scheme.
    package let name: String
    /// The credentials for requests to the origin, if any. Images that are fetched with them are cached separately, and
    /// only permitted users can have them.
    package var credential: HTTPAccess? {
        get { access.credential }
        set { access = Access(newValue, access.tls, access.proxy) }
    }
    /// The files with the authorities that are trusted for the origin, and with the client certificate. A client
    /// certificate is also a credential.
    package var tls: TLSFiles { access.tls }
    package var proxy: ProxyChoice { access.proxy }
    /// The query members that do not affect the image, such as signatures. Each element is the name of a member, or the
    /// start of names followed by `*`.
    package var ignoredQuery: [String]
    /// The users who may have images fetched with the credential, besides root and the agent's own user.
    package var users: Set<UInt32>
    /// The groups whose members may have images fetched with the credential.
    package var groups: Set<UInt32>

    /// Creates the settings of an origin.
    ///
    /// - Parameter name: an absolute `http` or `https` URL without a path
    /// - Throws: ``UpstreamError/Code/invalidURL``
    package init(
        _ name: String, credential: HTTPAccess? = nil, tls: TLSFiles = TLSFiles(), proxy: ProxyChoice = .inherited,
        ignoredQuery: [String] = [], users: Set<UInt32> = [], groups: Set<UInt32> = []
    ) throws(UpstreamError) {
        guard let address = try? FetchURL(parsing: name), address.path == "/", address.query == nil else {
            throw UpstreamError(
                .invalidURL, "\"\(name)\" is not an origin; write https://host or https://host:port, without a path")
        }
        self.name = address.origin
        access = Access(credential, tls, proxy)
        self.ignoredQuery = ignoredQuery
        self.users = users
        self.groups = groups
    }

    /// Whether the query member of this name does not affect the image.
    package func ignores(_ member: Substring) -> Bool {
        ignoredQuery.contains { pattern in
            pattern.hasSuffix("*") ? member.hasPrefix(pattern.dropLast()) : member == pattern
        }
    }
}
