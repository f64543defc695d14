package import LarderJSON

/// A complete, resolved configuration that never changes.
///
/// A class, so that passing it to a thousand readers costs one reference count each and no copy.
package final class ConfigSnapshot: Sendable {
    /// The resolved configuration, always an object; its text is compact JSON.
    package let value: JSONValue
    /// The local revision; 0 only for the placeholder before anything was published.
    package let revision: Int
    /// The digest of ``value``'s compact text, which is computed on demand.
    package let contentDigest: SnapshotDigest
    /// When it was published, in milliseconds since 1970.
    package let publishedAt: Int

    /// A snapshot of a value.
    /// - Parameter digest: the digest of the value; nil to compute it on demand
    package init(value: JSONValue, revision: Int, digest: SnapshotDigest? = nil, publishedAt: Int) {
        self.value = value
        self.revision = revision
        contentDigest = digest ?? SnapshotDigest(of: value)
        self.publishedAt = publishedAt
    }

    /// SHA-256 of ``value``'s compact text, in lower-case hex.
    package var digest: String { contentDigest.text }

    /// The size of the compact text in bytes.
    package var bytes: Int { value.textSize }
}
