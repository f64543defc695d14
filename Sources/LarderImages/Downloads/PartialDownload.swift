internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// The part of an image that a download has received, kept from one attempt to the next, and for how long the last response
/// may be reused. One attempt at a time uses it.
final class PartialDownload: Sendable {
    struct Part: Sendable {
        /// Writes the bytes.
        let writer: BlobWriter
        /// The response that the first bytes came with.
        let response: StoredResponse
        /// The URL that it came from after redirects.
        let url: String
        /// The size of the image, if a response declared it.
        var total: Int?

        /// The entity tag to resume with; nil if the rest cannot be requested. Only a strong one identifies the bytes
        /// (RFC 9110, section 13.1.5).
        var tag: String? { writer.written > 0 ? response.strongTag : nil }
    }

    private let state = Mutex<Part?>(nil)
    private let reuse = Mutex<Int?>(nil)

    /// For how many seconds the last response may be reused (``ResponseFreshness/explicitLifetime(of:)``).
    var lifetime: Int? {
        get { reuse.withLock { $0 } }
        set { reuse.withLock { $0 = newValue } }
    }

    var part: Part? { state.withLock { $0 } }

    /// Replaces the part, and removes the bytes of the previous one.
    func replace(with part: Part?, _ blocking: BlockingWork) async {
        let last = state.withLock { state in
            defer { state = part }
            return state
        }
        guard let last else { return }
        await blocking.run { last.writer.discard() }
    }

    /// Sets the size of the image.
    func expect(_ total: Int) { state.withLock { $0?.total = total } }
}
