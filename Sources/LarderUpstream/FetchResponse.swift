/// A usable answer to a ``FetchRequest``.
public enum FetchResponse: Sendable, Hashable {
    /// 304: what the caller's validator stands for is still current. The fields update what the caller remembers of it.
    case notModified(FetchMetadata)
    /// 200 or 203 with a complete, non-empty body.
    case document(FetchDocument)
}

/// A complete body and what the origin said about it.
public struct FetchDocument: Sendable, Hashable {
    /// The body after content decoding, never empty.
    public let body: [UInt8]
    /// The fields of the answer.
    public let metadata: FetchMetadata

    /// What to send along next time, if the origin gave anything.
    public var validator: Validator? { metadata.validator }
    /// The media type in lower case, without parameters.
    public var mediaType: String? { metadata.mediaType }
    /// When the origin says that the document changed.
    public var lastModified: HTTPDate? { metadata.lastModified }
}

/// The fields of an answer that our callers use.
public struct FetchMetadata: Sendable, Hashable {
    /// 200, 203 or 304.
    public let status: Int
    /// The address that answered, after redirects.
    public let url: String
    /// `ETag` and `Last-Modified` as they came.
    public let validator: Validator?
    /// The media type in lower case, without parameters.
    public let mediaType: String?
    /// `Last-Modified` as a point in time.
    public let lastModified: HTTPDate?
    /// `Date` as a point in time.
    public let date: HTTPDate?
    /// `Expires` as a point in time; a value that is no date means "already expired" and is absent here, so look at
    /// ``hasExpires`` too.
    public let expires: HTTPDate?
    /// Whether there was an `Expires` field at all.
    public let hasExpires: Bool
    /// `Age` in seconds.
    public let age: Int?
    /// `Cache-Control`, all its lines joined with commas.
    public let cacheControl: String?
    /// `Vary`, all its lines joined with commas.
    public let vary: String?
    /// `Retry-After`; some origins send it with a success to slow their pollers down.
    public let retryAfter: Duration?
}
