public import JSON

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

    private let difference: Difference?

    /// Where alone a snapshot differs from an earlier one.
    struct Difference: Sendable {
        /// The earlier one's revision.
        let revision: Int
        let paths: [[String]]
    }

    /// A snapshot of a value.
    /// - Parameters:
    ///   - digest: the value's, where it is known; else it is worked out when somebody asks
    ///   - difference: how it came of another snapshot, where that is known
    init(
        value: JSONValue, revision: Int, digest: SnapshotDigest? = nil, publishedAt: Int, difference: Difference? = nil
    ) {
        self.value = value
        self.revision = revision
        contentDigest = digest ?? SnapshotDigest(of: value)
        self.publishedAt = publishedAt
        self.difference = difference
    }

    /// Whether it is known, without a look at the values, that the value at a path is that of an earlier snapshot.
    public func isKnownToAgree(with earlier: ConfigSnapshot, at path: [String]) -> Bool {
        guard let difference, difference.revision == earlier.revision else { return false }
        // What changed at a path changed also what is above it and below.
        return !difference.paths.contains { changed in zip(changed, path).allSatisfy { $0.isSpelled(as: $1) } }
    }

    /// SHA-256 of ``value``'s compact text, in lower-case hex.
    public var digest: String { contentDigest.text }

    /// The size of the compact text in bytes.
    public var bytes: Int { value.withTextBytes { $0.count } }
}
