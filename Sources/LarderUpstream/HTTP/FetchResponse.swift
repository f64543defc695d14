package import LarderHTTPSemantics

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
