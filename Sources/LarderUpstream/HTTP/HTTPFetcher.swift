internal import AsyncHTTPClient
package import NIOCore
internal import NIOHTTPCompression
internal import Synchronization

/// Requests over HTTP/1.1 and HTTP/2 whose answers are documents or streams, for everything in this process that fetches.
///
/// The HTTP client behind it is made by the first request: an agent without an HTTP source pays for none of it. Whoever
/// makes a fetcher shuts it down; after that every request fails with ``UpstreamError/Code/shutDown``.
package final class HTTPFetcher: Sendable {
    /// What all requests of a fetcher have in common.
    package struct Configuration: Sendable {
        /// Sent as `User-Agent`.
        package var userAgent: String
        /// The time for one connection, TLS included.
        package var connectTimeout: Duration
        /// How long an unused connection is kept. Shorter than any sensible poll interval: an origin should not have to
        /// hold a connection for each of its hosts while nothing happens, and a new connection sees a changed DNS entry.
        package var idleConnectionTimeout: Duration
        /// How many redirects one request follows.
        package var maximumRedirects: Int
        /// The largest size, in bytes, that a compressed body may have after decoding. Each request has its own limit
        /// too, but what a single packet can expand to (a thousandfold) is stopped here, before it is all in memory.
        package var maximumDecodedBytes: Int

        /// Makes a configuration.
        ///
        /// - Parameter version: the version of Larder, for `User-Agent: larder/<version>`
        package init(version: String) {
            userAgent = "larder/" + version
            connectTimeout = .seconds(5)
            idleConnectionTimeout = .seconds(15)
            maximumRedirects = 5
            maximumDecodedBytes = 32 << 20
        }
    }

    private enum State {
        case unused
        case running(HTTPClient)
        case shutDown
    }

    private let configuration: Configuration
    private let eventLoopGroup: (any EventLoopGroup)?
    private let state = Mutex(State.unused)

    /// Makes a fetcher. Nothing is started.
    ///
    /// - Parameters:
    ///   - configuration: what all requests have in common
    ///   - eventLoopGroup: where connections live; nothing means NIO's process-wide group. The caller keeps its
    ///     ownership.
    package init(configuration: Configuration, eventLoopGroup: (any EventLoopGroup)? = nil) {
        self.configuration = configuration
        self.eventLoopGroup = eventLoopGroup
    }

    /// Asks for one document.
    ///
    /// The answer is complete or it is an error: a body that ends early, an empty one, and one larger than allowed are
    /// never returned in part. Cancelling the task aborts the request and closes its connection.
    ///
    /// - Parameter request: what to ask, and the limits
    /// - Throws: ``UpstreamError``
    package func fetch(_ request: FetchRequest) async throws(UpstreamError) -> FetchResponse {
        let deadline = Deadline(request.timeouts)
        return try await exchange(request, deadline).run { response, target throws(UpstreamError) in
            try await BodyReader(response, to: request, from: target).read(deadline)
        }
    }

    /// Asks for an answer that comes piece by piece and may never end.
    ///
    /// The answer belongs to `consume`: once that returns or throws, or when the task is cancelled, its connection is
    /// closed unless the answer was read to its end. How much it takes is for the caller to limit.
    ///
    /// - Parameters:
    ///   - request: what to ask. `timeouts.whole` ends with the head of the answer, `timeouts.idle` is the longest silence
    ///     afterwards too; `maximumBytes` is without effect
    ///   - clock: what measures the limits in time
    ///   - consume: reads the answer, which may have any status but that of a redirect
    /// - Throws: ``UpstreamError``: what `consume` throws; `timeout` when a limit has passed, in the body too
    package func stream<Output: Sendable>(
        _ request: FetchRequest, clock: any Clock<Duration> = ContinuousClock(),
        _ consume: @escaping @Sendable (StreamHead, inout StreamBody) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        let deadline = Deadline(request.timeouts, clock: clock)
        return try await exchange(request, deadline).run { response, target throws(UpstreamError) in
            deadline.allow(nil)
            var body = StreamBody(response, from: target, deadline: deadline)
            return try await consume(StreamHead(response, from: target), &body)
        }
    }

    private func exchange(_ request: FetchRequest, _ deadline: Deadline) throws(UpstreamError) -> HTTPExchange {
        HTTPExchange(
            clients: .shared(try client()),
            fields: [("User-Agent", configuration.userAgent), ("Accept", "*/*")],
            maximumRedirects: configuration.maximumRedirects, request: request, url: try FetchURL(request.url),
            deadline: deadline)
    }

    /// Ends all requests and closes all connections. Safe to call more than once, and without a request ever made.
    package func shutdown() async {
        let last = state.withLock { state in
            defer { state = .shutDown }
            return state
        }
        guard case .running(let client) = last else { return }
        // It fails only for a second shutdown, which the state above rules out.
        try? await client.shutdown()
    }

    private func client() throws(UpstreamError) -> HTTPClient {
        let client: HTTPClient? = state.withLock { state in
            switch state {
            case .running(let client): return client
            case .shutDown: return nil
            case .unused:
                let client = HTTPClient(
                    eventLoopGroup: eventLoopGroup ?? HTTPClient.defaultEventLoopGroup,
                    configuration: HTTPClient.Configuration(configuration))
                state = .running(client)
                return client
            }
        }
        guard let client else {
            throw UpstreamError(.shutDown, "the agent is shutting down; ask again after its restart")
        }
        return client
    }
}

extension HTTPClient.Configuration {
    fileprivate init(_ own: HTTPFetcher.Configuration) {
        self.init(
            // Each hop is checked and counted by us, and a 304 with a Location field is not a hop.
            redirectConfiguration: .disallow,
            // Idle and whole limits differ from request to request, so Deadline keeps them.
            timeout: .init(connect: TimeAmount(own.connectTimeout), read: nil),
            connectionPool: .init(idleTimeout: TimeAmount(own.idleConnectionTimeout)),
            decompression: .enabled(limit: .size(own.maximumDecodedBytes)))
        // A refused connection is known at once; whether and when to try again is the refresher's decision.
        connectionPool.retryConnectionEstablishment = false
        // A stream keeps its connection for as long as it lasts; with the usual eight for a host, a ninth namespace that
        // follows the same server would wait for ever.
        connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1024
    }
}
