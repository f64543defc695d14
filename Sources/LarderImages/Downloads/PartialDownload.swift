internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// The received part of an image, which is kept between the attempts of a download, and the freshness of the responses
/// to the last attempt. One attempt uses it at a time.
final class PartialDownload: Sendable {
    struct Part: Sendable {
        /// Writes the bytes.
        let writer: BlobWriter
        /// The response to which the first bytes belong.
        let response: StoredResponse
        /// The URL of that response, after redirects.
        let url: String
        /// Whether the bytes are those of the body, so that an offset in the body is one in the image.
        let isResumable: Bool
        /// The size of the image in bytes; nil until a response declares it.
        var total: Int?

        /// The entity tag for resumption; nil if the rest cannot be requested. Only a strong tag identifies the bytes
        /// (RFC 9110, section 13.1.5).
        var tag: String? { isResumable && writer.written > 0 ? response.strongTag : nil }

        /// The rest of the image; nil if it cannot be requested.
        var missing: MissingPart? { tag.map { MissingPart(url: url, offset: writer.written, tag: $0) } }
    }

    private let state = Mutex<Part?>(nil)
    private let attempt = Mutex((redirects: RedirectFreshness(), lifetime: Int?.none))

    func beginAttempt() { attempt.withLock { $0 = (RedirectFreshness(), nil) } }

    /// Adds a redirect of the last attempt.
    func add(_ redirect: StoredResponse) { attempt.withLock { $0.redirects.add(redirect) } }

    /// Adds the response that ended the redirects of the last attempt.
    func end(with response: StoredResponse) {
        attempt.withLock { $0.lifetime = ResponseFreshness.explicitLifetime(of: response) }
    }

    /// The redirects of the last attempt.
    var redirects: RedirectFreshness { attempt.withLock { $0.redirects } }

    /// How long the responses to the last attempt allow its failure to be remembered, in seconds; nil if they do not
    /// specify it.
    var lifetime: Int? { attempt.withLock { $0.redirects.lifetime(ofFailure: $0.lifetime) } }

    var part: Part? { state.withLock { $0 } }

    /// Replaces the part, and removes the file of the previous one.
    func replace(with part: Part?, _ blocking: BlockingWork) async {
        let last = state.withLock { state in
            defer { state = part }
            return state
        }
        guard let last else { return }
        await blocking.run { last.writer.discard() }
    }

    /// Sets the size of the image in bytes.
    func expect(_ total: Int) { state.withLock { $0?.total = total } }
}
