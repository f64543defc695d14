internal import AsyncHTTPClient
package import LarderHTTPSemantics
internal import LarderPlatform
internal import NIOHTTP1

/// One request: a conditional GET, or a POST.
package struct FetchRequest: Sendable {
    /// An absolute `http` or `https` URL without user information.
    package var url: String
    /// Additional header fields. They are sent only to the origin of the URL, not to another origin after a redirect.
    package var headers: [(name: String, value: String)]
    /// Additional header fields that are sent only to the URL itself, and not to the target of a redirect.
    package var ownHeaders: [(name: String, value: String)] = []
    /// Whether the request sends a report instead of asking for a document. A report is not redirected.
    var isReport = false
    /// A member that is added to the query of ``url``, such as `wait=60`; nil for none. It does not select another
    /// document: validators belong to ``url`` without it. Redirects do not inherit it.
    package var addedQuery: String?
    /// Validator of the cached document, sent as `If-None-Match` and `If-Modified-Since` to the URL that issued it. Nil
    /// for an unconditional request. Ignored for a POST.
    package var validator: Validator?
    /// The part of the body to request, from the URL that sent the rest; nil for the whole body.
    package var missingPart: MissingPart?
    /// The body of a POST; nil for a GET. Its content type is `application/json` unless ``headers`` has another one.
    /// The request fails if a redirect would send the body to another origin or change the method.
    package var body: [UInt8]?
    /// The trusted authorities and the client certificate; nil for the authorities of the system and no certificate.
    /// The certificate is presented only to the origin of the URL.
    package var tls: TLSOptions?
    /// Whether the authorities of ``tls`` are trusted only for the origin of the URL, and not for another origin after a
    /// redirect.
    package var limitsAuthoritiesToOrigin = false
    /// The proxies for the URL and for the targets of redirects; nil for none.
    package var proxy: ProxyOptions?
    package var timeouts: FetchTimeouts
    /// The maximum size of the body in bytes, after content decoding.
    package var maximumBytes: Int
    /// Whether the origin may withhold its response until something changes, as for a long poll or a stream. Such a
    /// request is not repeated if a reused connection ends before the response, because the origin may have ended the
    /// wait.
    package var awaitsChange = false
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

    /// The validator that a request to `target` contains; nil if the request is unconditional. `target` is the URL of
    /// the request or the target of a redirect.
    func validator(for target: FetchURL) -> Validator? {
        guard body == nil, let validator, validator.isIssued(by: target.text) else { return nil }
        return validator
    }

    /// The part of the body that a request to `target` asks for; nil for the whole body.
    func missingPart(for target: FetchURL) -> MissingPart? {
        guard let missingPart, missingPart.belongs(to: target.text) else { return nil }
        return missingPart
    }
}

/// The end of a body whose start has been received (RFC 9110, section 14.2).
package struct MissingPart: Sendable, Hashable {
    /// The URL that sent the start, after redirects.
    package let url: String
    /// The number of bytes that have been received.
    package let offset: Int
    /// The strong entity tag of the body. If the body has changed, the origin sends the new one from its start.
    package let tag: String

    package init(url: String, offset: Int, tag: String) { (self.url, self.offset, self.tag) = (url, offset, tag) }

    /// Whether a request to `url` may ask for the part.
    package func belongs(to url: String) -> Bool { self.url.utf8.elementsEqual(url.utf8) }
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

extension FetchMetadata {
    /// Reads the header fields of a response.
    init(_ response: HTTPClientResponse, from url: FetchURL) {
        let fields = response.headers
        let now = HTTPDate(secondsSinceEpoch: Int64(WallClock.system.now / 1000))
        let date = fields.first(name: "Date").flatMap { HTTPDate(parsing: $0, now: now) }
        status = Int(response.status.code)
        self.url = url.text
        validator = Validator(
            etag: fields.first(name: "ETag"), lastModified: fields.first(name: "Last-Modified"),
            date: fields.first(name: "Date"), receivedAt: now, url: url.text)
        mediaType = Self.mediaType(fields.first(name: "Content-Type"))
        retryAfter = fields.first(name: "Retry-After").flatMap { RetryAfter.duration($0, date: date, now: now) }
    }

    private static func mediaType(_ field: String?) -> String? {
        guard let type = field?.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false).first else {
            return nil
        }
        let trimmed = type.split(whereSeparator: \.isWhitespace).first
        return trimmed.map { $0.lowercased() }
    }
}

/// A usable response to a ``FetchRequest``.
package enum FetchResponse: Sendable, Hashable {
    /// 304: the document that the validator identifies is still current.
    case notModified(FetchMetadata)
    /// 200 or 203 with a complete, non-empty body.
    case document(FetchDocument)
    /// Another status, except 204 and 205, with a complete, non-empty body. Returned only if
    /// ``FetchRequest/readsProblems`` is set; otherwise the request throws this error.
    case problem(UpstreamError, FetchDocument)
}

/// A response that redirects a request.
package struct RedirectResponse: Sendable {
    package let status: Int
    /// All header fields in their original order, one per line of the header.
    package let fields: [(name: String, value: String)]
}

/// A complete body with its metadata.
package struct FetchDocument: Sendable, Hashable {
    /// The body after content decoding, never empty.
    package let body: [UInt8]
    package let metadata: FetchMetadata

    package var validator: Validator? { metadata.validator }
}

/// Values from the header of a response.
package struct FetchMetadata: Sendable, Hashable {
    /// The status code. In a result of ``HTTPFetcher/fetch(_:)`` it is 200, 203 or 304, unless
    /// ``FetchRequest/readsProblems`` is set.
    package let status: Int
    /// The URL that responded, after redirects.
    package let url: String
    /// `ETag` and `Last-Modified`, unchanged; nil if neither can identify the document.
    package let validator: Validator?
    /// The media type in lower case, without parameters.
    package let mediaType: String?
    /// The value of `Retry-After`; nil if absent. Some origins send it with a success to make clients poll less often.
    package let retryAfter: Duration?
}
