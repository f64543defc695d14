package import LarderConfigModel
package import LarderJSON

/// A source that is asked over HTTP.
package struct HTTPSourceSettings: Sendable, Equatable {
    /// Requests that the origin answers only when it has something new.
    package struct LongPoll: Sendable, Equatable {
        /// How long the origin may wait, in seconds.
        package var waitSeconds: Int
        /// The member of the query that tells it so; nil for `Prefer: wait=N` (RFC 7240).
        package var queryMember: String?

        package init(waitSeconds: Int, queryMember: String? = nil) {
            self.waitSeconds = waitSeconds
            self.queryMember = queryMember
        }
    }

    /// What to do with data that came with errors (GraphQL).
    package enum PartialData: String, Sendable, CaseIterable {
        /// The response counts as a failure.
        case refuse
        /// The data is used.
        case accept
    }

    /// The document's address, `http` or `https`.
    package var url: String
    /// What is sent by POST; nil for a GET.
    package var body: [UInt8]?
    /// Where in the answer the document is; nil where it is the answer.
    package var answerPath: JSONPath?
    /// What to do with data that came with errors (GraphQL).
    package var partialData = PartialData.refuse
    /// The time between two requests; each host has its own phase in it.
    package var interval: Duration
    /// The longest time for one request, from connecting to the last byte; that of a long poll comes on top.
    package var timeout: Duration
    /// The time over which hosts that have nothing to serve spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// How the origin is asked to wait for something new; nil where it is not.
    package var longPoll: LongPoll?
    /// How long what is held counts as stale when the origin fails; after that the state is `failed`. Nil for ever.
    package var staleIfError: Duration?
    /// Where the document says its own version; nil where it does not.
    package var versionPath: JSONPath?
    /// Whether a document without a version is rejected.
    package var versionRequirement: VersionRequirement
    /// What requests show, and whom they trust.
    package var access: HTTPAccess
    /// The largest answer taken.
    package var maximumBytes: Int

    package init(
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
    package var description: String {
        "HTTP(url: \(url), method: \(body == nil ? "GET" : "POST"), answerPath: \(answerPath?.description ?? "none"), "
            + "interval: \(interval), timeout: \(timeout), longPoll: \(longPoll.map { "\($0.waitSeconds) s" } ?? "no"), "
            + "versionPath: \(versionPath?.description ?? "none"), access: \(access))"
    }

    package var debugDescription: String { description }
}
