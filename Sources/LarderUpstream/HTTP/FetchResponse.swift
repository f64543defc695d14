package import LarderHTTPSemantics

/// A usable answer to a ``FetchRequest``.
package enum FetchResponse: Sendable, Hashable {
    /// 304: what the caller's validator stands for is still current. The fields update what the caller remembers of it.
    case notModified(FetchMetadata)
    /// 200 or 203 with a complete, non-empty body.
    case document(FetchDocument)
    /// Any other status with a complete, non-empty body; only if ``FetchRequest/readsProblems`` is set. The error is the one
    /// that the request fails with otherwise.
    case problem(UpstreamError, FetchDocument)
}

/// A complete body and what the origin said about it.
package struct FetchDocument: Sendable, Hashable {
    /// The body after content decoding, never empty.
    package let body: [UInt8]
    /// The fields of the answer.
    package let metadata: FetchMetadata

    /// What to send along next time, if the origin gave anything.
    package var validator: Validator? { metadata.validator }
}

/// The fields of an answer that our callers use.
package struct FetchMetadata: Sendable, Hashable {
    /// The status code: 200, 203 or 304, unless ``FetchRequest/readsProblems`` is set.
    package let status: Int
    /// The address that answered, after redirects.
    package let url: String
    /// `ETag` and `Last-Modified` as they came.
    package let validator: Validator?
    /// The media type in lower case, without parameters.
    package let mediaType: String?
    /// `Retry-After`; some origins send it with a success to slow their pollers down.
    package let retryAfter: Duration?
}
