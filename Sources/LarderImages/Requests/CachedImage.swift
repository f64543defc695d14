package import LarderImageFormats

/// An image that answers a request. It includes a reference to its blob, which keeps the file on disk, unless
/// ``ImageRequest/takesReference`` was false. Release the reference with ``ImageCache/release(_:)``.
package struct CachedImage: Sendable, Hashable {
    package enum Freshness: String, Sendable, Hashable {
        /// Within its lifetime, or downloaded for this request.
        case fresh
        /// Past its lifetime, but permitted by the request or the origin.
        case stale
        /// The origin confirmed for this request that the image is current.
        case revalidated
    }

    package enum Source: String, Sendable, Hashable {
        /// The image was cached.
        case hit
        /// The image was downloaded for this request.
        case miss
        /// The request waited for a download of the image that was already in progress.
        case joined
    }

    /// The SHA-256 of the bytes, which names the file.
    package var digest: BlobDigest
    package var type: ImageType
    /// The width in pixels, after the orientation has been applied.
    package var width: Int
    /// The height in pixels, after the orientation has been applied.
    package var height: Int
    /// The size in bytes.
    package var bytes: Int
    package var freshness: Freshness
    package var source: Source
    /// The age in seconds (RFC 9111, section 4.2.3).
    package var age: Int
    package var details = ImageDetails.unknown
}
