package import LarderHTTPSemantics

/// One request: a conditional GET, or a POST.
package struct FetchRequest: Sendable {
    /// An absolute `http` or `https` URL without user information.
    package var url: String
    /// Fields to send besides our own; they are not sent on to another origin after a redirect.
    package var headers: [(name: String, value: String)]
    /// What the caller holds; sent as `If-None-Match` and `If-Modified-Since`.
    package var validator: Validator?
    /// What to POST, as `application/json` unless ``headers`` say otherwise; nil for a GET. It goes to no other origin, and
    /// its answer is not conditional.
    package var body: [UInt8]?
    /// What to trust and to show over TLS; nil for the system's authorities and no certificate. After a redirect to another
    /// origin the client's certificate is not shown.
    package var tls: TLSOptions?
    /// How long to wait, and for what.
    package var timeouts: FetchTimeouts
    /// The largest body, in bytes after content decoding, that the caller accepts.
    package var maximumBytes: Int
    /// Whether the body of a response with an error status is read, for what it says about the failure.
    package var readsProblems = false

    /// Makes a request.
    ///
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL
    ///   - headers: fields to send besides our own
    ///   - validator: what the caller holds of an earlier answer
    ///   - body: what to POST; nil for a GET
    ///   - tls: what to trust and to show; nil for the system's authorities
    ///   - timeouts: the limits in time
    ///   - maximumBytes: the limit in bytes
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

/// The limits in time of one request. The time to connect is a property of the fetcher, because its connections are
/// shared: see ``HTTPFetcher/Configuration/connectTimeout``.
package struct FetchTimeouts: Sendable, Hashable {
    /// The longest silence: from the request to the head of the answer, and between two pieces of its body.
    package var idle: Duration
    /// The time for everything together, redirects included. An origin that trickles cannot stretch it.
    package var whole: Duration
    /// What has to come of a body in a time, or the origin trickles; nil where any speed will do.
    package var slowest: TransferRate?
    /// The rate that counts instead of ``slowest`` while other requests wait for the end of this one; nil for none.
    /// Its window is that of ``slowest``.
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

/// So many bytes in so much time, of which only what was spent waiting for the origin counts.
package struct TransferRate: Sendable, Hashable {
    /// Bytes, at least 1.
    package let bytes: Int
    /// The time that they may take.
    package let window: Duration

    package init(bytes: Int, in window: Duration) {
        self.bytes = max(1, bytes)
        self.window = window
    }
}
