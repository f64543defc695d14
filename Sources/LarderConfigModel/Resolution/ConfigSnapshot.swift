package import LarderJSON

/// A complete, resolved configuration. It is immutable.
///
/// It is a class, so that passing it to many readers costs a reference count each and no copy.
package final class ConfigSnapshot: Sendable {
    /// The resolved configuration, an object. Its text is compact JSON.
    package let value: JSONValue
    /// The local revision; 0 for the placeholder before the first publication.
    package let revision: Int
    /// The digest of the compact text of ``value``.
    package let contentDigest: SnapshotDigest
    /// In milliseconds since 1970.
    package let publishedAt: Int

    /// - Parameter digest: the digest of the value if it is known; nil to compute it
    package init(value: JSONValue, revision: Int, digest: SnapshotDigest? = nil, publishedAt: Int) {
        self.value = value
        self.revision = revision
        contentDigest = digest ?? SnapshotDigest(of: value)
        self.publishedAt = publishedAt
    }

    /// SHA-256 of the compact text of ``value``, in lowercase hex.
    package var digest: String { contentDigest.text }

    /// The size of the compact text in bytes.
    package var bytes: Int { value.textSize }
}
