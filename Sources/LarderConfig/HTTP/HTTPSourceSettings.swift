public import LarderJSON

/// A source that is asked over HTTP.
public struct HTTPSourceSettings: Sendable, Equatable {
    /// Requests that the origin answers only when it has something new.
    public struct LongPoll: Sendable, Equatable {
        /// How long the origin may wait, in seconds.
        public var waitSeconds: Int
        /// The member of the query that tells it so; nil for `Prefer: wait=N` (RFC 7240).
        public var queryMember: String?

        public init(waitSeconds: Int, queryMember: String? = nil) {
            self.waitSeconds = waitSeconds
            self.queryMember = queryMember
        }
    }

    /// What to do with data that came with errors (GraphQL).
    public enum PartialData: String, Sendable, CaseIterable {
        /// The response counts as a failure.
        case refuse
        /// The data is used.
        case accept
    }

    /// The document's address, `http` or `https`.
    public var url: String
    /// What is sent by POST; nil for a GET.
    public var body: [UInt8]?
    /// Where in the answer the document is; nil where it is the answer.
    public var answerPath: JSONPath?
    /// What to do with data that came with errors (GraphQL).
    public var partialData = PartialData.refuse
    /// The time between two requests; each host has its own phase in it.
    public var interval: Duration
    /// The longest time for one request, from connecting to the last byte; that of a long poll comes on top.
    public var timeout: Duration
    /// The time over which hosts that have nothing to serve spread their first requests.
    public var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// How the origin is asked to wait for something new; nil where it is not.
    public var longPoll: LongPoll?
    /// How long what is held counts as stale when the origin fails; after that the state is `failed`. Nil for ever.
    public var staleIfError: Duration?
    /// Where the document says its own version; nil where it does not.
    public var versionPath: JSONPath?
    /// Whether a document without a version is rejected.
    public var versionRequirement: VersionRequirement
    /// What requests show, and whom they trust.
    public var access: HTTPAccess
    /// The largest answer taken.
    public var maximumBytes: Int

    public init(
        url: String, body: [UInt8]? = nil, answerPath: JSONPath? = nil, interval: Duration = .seconds(60),
        timeout: Duration = .seconds(10), longPoll: LongPoll? = nil, staleIfError: Duration? = nil,
        versionPath: JSONPath? = nil, versionRequirement: VersionRequirement = .onceSeen,
        access: HTTPAccess = HTTPAccess(), maximumBytes: Int = 16 << 20
    ) {
        self.url = url
        self.body = body
        self.answerPath = answerPath
        self.interval = interval
        self.timeout = timeout
        self.longPoll = longPoll
        self.staleIfError = staleIfError
        self.versionPath = versionPath
        self.versionRequirement = versionRequirement
        self.access = access
        self.maximumBytes = maximumBytes
    }
}

extension HTTPSourceSettings: CustomStringConvertible, CustomDebugStringConvertible {
    /// The configuration without the body and the values of the headers, which may be secrets.
    public var description: String {
        "HTTP(url: \(url), method: \(body == nil ? "GET" : "POST"), answerPath: \(answerPath?.description ?? "none"), "
            + "interval: \(interval), timeout: \(timeout), longPoll: \(longPoll.map { "\($0.waitSeconds) s" } ?? "no"), "
            + "versionPath: \(versionPath?.description ?? "none"), access: \(access))"
    }

    public var debugDescription: String { description }
}
