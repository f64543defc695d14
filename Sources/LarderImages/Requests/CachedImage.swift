public import LarderImageFormats

/// An image that answers a request. It has one reference to its blob, so that the file stays: release it with
/// ``ImageCache/release(_:)``.
public struct CachedImage: Sendable, Hashable {
    public enum Freshness: String, Sendable, Hashable {
        /// Within its lifetime, or downloaded for this request.
        case fresh
        /// Past its lifetime, and allowed by the request or the origin.
        case stale
        /// The origin confirmed for this request that it is current.
        case revalidated
    }

    public enum Source: String, Sendable, Hashable {
        /// It was cached.
        case hit
        /// It was downloaded for this request.
        case miss
        /// It was already being downloaded for another request.
        case joined
    }

    /// The SHA-256 of its bytes, which is the name of its file.
    public var digest: BlobDigest
    public var type: ImageType
    /// Its width in pixels, with its orientation applied.
    public var width: Int
    /// Its height in pixels, with its orientation applied.
    public var height: Int
    /// Its size in bytes.
    public var bytes: Int
    public var freshness: Freshness
    public var source: Source
    /// Its age in seconds (RFC 9111, section 4.2.3).
    public var age: Int
    /// Further details from its header and its response.
    public var details: ImageDetails

    public init(
        digest: BlobDigest, type: ImageType, width: Int, height: Int, bytes: Int, freshness: Freshness, source: Source,
        age: Int, details: ImageDetails = .unknown
    ) {
        self.digest = digest
        self.type = type
        self.width = width
        self.height = height
        self.bytes = bytes
        self.freshness = freshness
        self.source = source
        self.age = age
        self.details = details
    }
}
