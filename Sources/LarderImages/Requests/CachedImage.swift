public import LarderImageFormats

/// An image that answers a request. It carries one reference to its blob, so that the file stays; whoever has it gives the
/// reference back with ``ImageCache/release(_:)``.
public struct CachedImage: Sendable, Hashable {
    /// How good the answer is.
    public enum Freshness: String, Sendable, Hashable {
        /// Within its lifetime, or fetched for this request, however short that is.
        case fresh
        /// Past its lifetime, and allowed all the same.
        case stale
        /// The origin was asked for this request and said that it is current.
        case revalidated
    }

    /// Where it came from.
    public enum Source: String, Sendable, Hashable {
        /// It was held.
        case hit
        /// It was fetched for this request.
        case miss
        /// It was being fetched for another one already.
        case joined
    }

    /// The SHA-256 of its bytes, which is its file's name.
    public var digest: BlobDigest
    /// Its format, as its header says.
    public var type: ImageType
    /// Its width in pixels, as it is meant to be seen.
    public var width: Int
    /// Its height in pixels, as it is meant to be seen.
    public var height: Int
    /// Its size in bytes.
    public var bytes: Int
    /// How good the answer is.
    public var freshness: Freshness
    /// Where it came from.
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
