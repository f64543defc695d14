package import LarderHTTPSemantics

/// One request: a conditional GET, or a POST.
package struct FetchRequest: Sendable {
    /// An absolute `http` or `https` URL without user information.
    package var url: String
    /// Additional header fields. They are sent only to the origin of the URL, not to another origin after a redirect.
    package var headers: [(name: String, value: String)]
    /// Validator of the cached document, sent as `If-None-Match` and `If-Modified-Since`. Nil for an unconditional
    /// request. Ignored for a POST.
    package var validator: Validator?
    /// The body of a POST; nil for a GET. Its content type is `application/json` unless ``headers`` has another one.
    /// The request fails if a redirect would send the body to another origin or change the method.
    package var body: [UInt8]?
    /// The trusted authorities and the client certificate; nil for the authorities of the system and no certificate.
    /// The certificate is presented only to the origin of the URL.
    package var tls: TLSOptions?
    package var timeouts: FetchTimeouts
    /// The maximum size of the body in bytes, after content decoding.
    package var maximumBytes: Int
    /// Whether to read the body of a response with an error status, and return it as ``FetchResponse/problem(_:_:)``.
    package var readsProblems = false

    package init(
        url: String,
        headers: [(name: String, value: String)] = [],
        validator: Validator? = nil,
        body: [UInt8]? = nil,
        tls: TLSOptions? = nil,
        timeouts: FetchTimeouts = FetchTimeouts(),
        maximumBytes: Int = 16 << 20
    ) {
        self.url = url
        self.headers = headers
        self.validator = validator
        self.body = body
        self.tls = tls
        self.timeouts = timeouts
        self.maximumBytes = maximumBytes
    }
}

/// The time limits of one request. The time to connect is configured per fetcher, because requests share connections;
/// see ``HTTPFetcher/Configuration/connectTimeout``.
package struct FetchTimeouts: Sendable, Hashable {
    /// The longest silence: until the host name is resolved, between the request and the head of the response, and
    /// between two pieces of the body.
    package var idle: Duration
    /// The maximum time for the whole exchange, including redirects, even if data keeps arriving.
    package var whole: Duration
    /// The lowest transfer rate of the body; nil for no limit.
    package var slowest: TransferRate?
    /// Replaces the rate of ``slowest`` while other requests wait for this one to end; nil to keep the rate. The window
    /// of ``slowest`` still applies.
    package var slowestWhileAwaited: TransferRate?

    package init(
        idle: Duration = .seconds(10), whole: Duration = .seconds(30), slowest: TransferRate? = nil,
        slowestWhileAwaited: TransferRate? = nil
    ) {
        self.idle = idle
        self.whole = whole
        self.slowest = slowest
        self.slowestWhileAwaited = slowestWhileAwaited
    }
}

/// A number of bytes per window of time. Only time spent waiting for the origin counts.
package struct TransferRate: Sendable, Hashable {
    /// At least 1.
    package let bytes: Int
    package let window: Duration

    package init(bytes: Int, in window: Duration) {
        self.bytes = max(1, bytes)
        self.window = window
    }
}
