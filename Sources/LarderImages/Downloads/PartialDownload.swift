internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// The bytes of an image so far, kept from one attempt to the next, and for how long the last response may be reused. One
/// attempt at a time uses it.
final class PartialDownload: Sendable {
    struct Part: Sendable {
        /// Where the bytes are.
        let writer: BlobWriter
        /// What the answer said that they began with.
        let response: StoredResponse
        /// Where it came from after redirects.
        let url: String
        /// How many bytes there will be, where an answer said so.
        var total: Int?

        /// The entity tag to go on with, if the bytes can be fetched from where they ended. Only a strong one stands for these
        /// very bytes (RFC 9110, section 13.1.5).
        var tag: String? { writer.written > 0 ? response.strongTag : nil }
    }

    private let state = Mutex<Part?>(nil)
    private let reuse = Mutex<Int?>(nil)

    /// For how many seconds the last response may be reused (``ResponseFreshness/explicitLifetime(of:)``).
    var lifetime: Int? {
        get { reuse.withLock { $0 } }
        set { reuse.withLock { $0 = newValue } }
    }

    /// What there is.
    var part: Part? { state.withLock { $0 } }

    /// Begins anew. What was there before is removed.
    func replace(with part: Part?, _ blocking: BlockingWork) async {
        let last = state.withLock { state in
            defer { state = part }
            return state
        }
        guard let last else { return }
        await blocking.run { last.writer.discard() }
    }

    /// Notes how many bytes there will be.
    func expect(_ total: Int) { state.withLock { $0?.total = total } }
}
