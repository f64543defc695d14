package import LarderImageFormats

/// An image that answers a request. It has one reference to its blob, so that the file stays: release it with
/// ``ImageCache/release(_:)``.
package struct CachedImage: Sendable, Hashable {
    package enum Freshness: String, Sendable, Hashable {
        /// Within its lifetime, or downloaded for this request.
        case fresh
        /// Past its lifetime, and allowed by the request or the origin.
        case stale
        /// The origin confirmed for this request that it is current.
        case revalidated
    }

    package enum Source: String, Sendable, Hashable {
        /// It was cached.
        case hit
        /// It was downloaded for this request.
        case miss
        /// It was already being downloaded for another request.
        case joined
    }

    /// The SHA-256 of its bytes, which is the name of its file.
    package var digest: BlobDigest
    package var type: ImageType
    /// Its width in pixels, with its orientation applied.
    package var width: Int
    /// Its height in pixels, with its orientation applied.
    package var height: Int
    /// Its size in bytes.
    package var bytes: Int
    package var freshness: Freshness
    package var source: Source
    /// Its age in seconds (RFC 9111, section 4.2.3).
    package var age: Int
    /// Further details from its header and its response.
    package var details: ImageDetails

    package init(
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
