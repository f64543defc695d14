import LarderDigest
import LarderEncoding
package import LarderJSON
import Synchronization

/// A complete, resolved configuration. Copies share their content, so passing a snapshot to many readers costs a reference
/// count each.
package struct ConfigSnapshot: Sendable {
    private final class Content: Sendable {
        let value: JSONValue
        let revision: Int
        let digest: SnapshotDigest
        let publishedAt: Int

        init(_ value: JSONValue, _ revision: Int, _ digest: SnapshotDigest, publishedAt: Int) {
            (self.value, self.revision, self.digest, self.publishedAt) = (value, revision, digest, publishedAt)
        }
    }

    private let content: Content

    /// - Parameter digest: the digest of the value if it is known; nil to compute it
    package init(value: JSONValue, revision: Int, digest: SnapshotDigest? = nil, publishedAt: Int) {
        content = Content(value, revision, digest ?? SnapshotDigest(of: value), publishedAt: publishedAt)
    }

    /// The resolved configuration, an object. Its text is compact JSON.
    package var value: JSONValue { content.value }
    /// The local revision; 0 for the placeholder before the first publication.
    package var revision: Int { content.revision }
    /// The digest of the compact text of ``value``.
    package var contentDigest: SnapshotDigest { content.digest }
    /// In milliseconds since 1970.
    package var publishedAt: Int { content.publishedAt }

    /// SHA-256 of the compact text of ``value``, in lowercase hex.
    package var digest: String { contentDigest.text }

    /// The size of the compact text in bytes.
    package var bytes: Int { content.value.textSize }
}

/// SHA-256 of a snapshot's text, computed when it is first read.
///
/// Most snapshots are replaced before a client reads their digest, and hashing would delay their publication. The
/// digest of a large document is computed soon after its publication (``computeConcurrently()``), and at the latest when
/// the next snapshot is made, for two reasons. The first reader may be a thread that serves clients. Until that first
/// read, each of the newest generations would also retain its document.
package final class SnapshotDigest: Sendable {
    private enum State {
        case of(JSONValue)
        case known(String)
    }

    /// The memory in bytes above which a document is large. Sixteen documents of this size take 64 MiB, and hashing a
    /// smaller one takes less than 10 ms.
    private static let largeBytes = 4 << 20

    /// All threads share the digest. The first that reads it replaces the document, which an atomic reference could not
    /// release.
    private let state: Mutex<State>
    /// Whether the document is too large to be retained until the first read.
    package let isLarge: Bool

    /// The digest of a value's compact text.
    package init(of value: JSONValue) {
        isLarge = value.documentMemory > Self.largeBytes
        state = Mutex(.of(value))
    }

    /// A known digest, in lowercase hex.
    package init(known text: String) {
        isLarge = false
        state = Mutex(.known(text))
    }

    /// Whether ``text`` can be read on a thread that must not block: the digest is known, or the document is small.
    package var isReady: Bool {
        !isLarge || state.withLockIfAvailable { if case .known = $0 { true } else { false } } ?? false
    }

    /// Computes the digest off every actor, unless it is known.
    @concurrent
    package func computeConcurrently() async { _ = text }

    /// The digest in lowercase hex. Concurrent readers wait until it is computed.
    package var text: String {
        state.withLock { state in
            switch state {
            case .known(let text): return text
            case .of(let value):
                let text = Self.text(of: value)
                state = .known(text)
                return text
            }
        }
    }

    /// Computes the digest of a value's compact text, in lowercase hex.
    package static func text(of value: JSONValue) -> String { value.withTextBytes { SHA256.hash($0).hex } }
}
