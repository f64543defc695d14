public import LarderJSON

/// A complete, resolved configuration that never changes any more.
///
/// A class, so that handing it to a thousand readers costs one reference count each and no copy.
public final class ConfigSnapshot: Sendable {
    /// The resolved configuration, always an object; its text is compact JSON.
    public let value: JSONValue
    /// The local revision; 0 only for the placeholder before anything was published.
    public let revision: Int
    /// The digest of ``value``'s compact text, which may not have been worked out yet.
    let contentDigest: SnapshotDigest
    /// When it was published, in milliseconds since 1970.
    public let publishedAt: Int

    /// A snapshot of a value.
    /// - Parameter digest: the value's, where it is known; else it is worked out when somebody asks
    init(value: JSONValue, revision: Int, digest: SnapshotDigest? = nil, publishedAt: Int) {
        self.value = value
        self.revision = revision
        contentDigest = digest ?? SnapshotDigest(of: value)
        self.publishedAt = publishedAt
    }

    /// SHA-256 of ``value``'s compact text, in lower-case hex.
    public var digest: String { contentDigest.text }

    /// The size of the compact text in bytes.
    public var bytes: Int { value.withTextBytes { $0.count } }
}
