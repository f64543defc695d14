/// One conditional GET.
public struct FetchRequest: Sendable {
    /// An absolute `http` or `https` URL without user information.
    public var url: String
    /// Fields to send besides our own; they are not sent on to another origin after a redirect.
    public var headers: [(name: String, value: String)]
    /// What the caller holds; sent as `If-None-Match` and `If-Modified-Since`.
    public var validator: Validator?
    /// How long to wait, and for what.
    public var timeouts: FetchTimeouts
    /// The largest body, in bytes after content decoding, that the caller accepts.
    public var maximumBytes: Int

    /// Makes a request.
    ///
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL
    ///   - headers: fields to send besides our own
    ///   - validator: what the caller holds of an earlier answer
    ///   - timeouts: the limits in time
    ///   - maximumBytes: the limit in bytes
    public init(
        url: String,
        headers: [(name: String, value: String)] = [],
        validator: Validator? = nil,
        timeouts: FetchTimeouts = FetchTimeouts(),
        maximumBytes: Int = 16 << 20
    ) {
        self.url = url
        self.headers = headers
        self.validator = validator
        self.timeouts = timeouts
        self.maximumBytes = maximumBytes
    }
}

/// The limits in time of one request. The time to connect is a property of the fetcher, because its connections are
/// shared: see ``HTTPFetcher/Configuration/connectTimeout``.
public struct FetchTimeouts: Sendable, Hashable {
    /// The longest silence: from the request to the head of the answer, and between two pieces of its body.
    public var idle: Duration
    /// The time for everything together, redirects included. An origin that trickles cannot stretch it.
    public var whole: Duration

    /// Makes a pair of limits.
    public init(idle: Duration = .seconds(10), whole: Duration = .seconds(30)) {
        self.idle = idle
        self.whole = whole
    }
}
