internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// The received part of an image, which is kept between the attempts of a download, and the ``lifetime`` of the last
/// response. One attempt uses it at a time.
final class PartialDownload: Sendable {
    struct Part: Sendable {
        /// Writes the bytes.
        let writer: BlobWriter
        /// The response to which the first bytes belong.
        let response: StoredResponse
        /// The URL of that response, after redirects.
        let url: String
        /// The size of the image in bytes; nil until a response declares it.
        var total: Int?

        /// The entity tag for resumption; nil if the rest cannot be requested. Only a strong tag identifies the bytes
        /// (RFC 9110, section 13.1.5).
        var tag: String? { writer.written > 0 ? response.strongTag : nil }
    }

    private let state = Mutex<Part?>(nil)
    private let reuse = Mutex<Int?>(nil)

    /// The number of seconds for which the last response may be reused; nil if it does not specify a lifetime
    /// (``ResponseFreshness/explicitLifetime(of:)``).
    var lifetime: Int? {
        get { reuse.withLock { $0 } }
        set { reuse.withLock { $0 = newValue } }
    }

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
