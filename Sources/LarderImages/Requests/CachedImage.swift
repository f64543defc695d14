internal import LarderHTTPSemantics
package import LarderImageFormats

/// An image that answers a request. It includes a reference to its blob, which keeps the file on disk, unless
/// ``ImageRequest/takesReference`` was false. Release the reference with ``ImageCacheView/release(_:)``.
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

/// Details of an image from its header and its response, in addition to its type and size. They are loaded when the
/// image is first used, because the in-memory table of all images does not contain them.
package final class ImageDetails: Sendable, Hashable {
    /// As in ``ImageHeader/frameCount``.
    package let frames: Int?
    /// As in ``ImageHeader/isAnimated``.
    package let isAnimated: Bool?
    /// As in ``ImageHeader/hasAlpha``.
    package let hasAlpha: Bool?
    /// As in ``ImageHeader/orientation``.
    package let orientation: Int?
    /// The `Last-Modified` field, in seconds since 1970.
    package let lastModified: Int?
    /// The `ETag` field, including its quotes.
    package let etag: String?

    /// All details are nil.
    package static let unknown = ImageDetails(header: nil, response: nil)

    init(header: ImageHeader?, response: StoredResponse?) {
        frames = header?.frameCount
        isAnimated = header?.isAnimated
        hasAlpha = header?.hasAlpha
        orientation = header?.orientation
        lastModified = Self.lastModified(response)
        etag = Self.etag(response)
    }

    private init(_ other: ImageDetails, _ response: StoredResponse) {
        (frames, isAnimated) = (other.frames, other.isAnimated)
        (hasAlpha, orientation) = (other.hasAlpha, other.orientation)
        lastModified = Self.lastModified(response)
        etag = Self.etag(response)
    }

    /// The details of the same bytes with a newer response.
    func with(_ response: StoredResponse) -> ImageDetails { ImageDetails(self, response) }

    private static func lastModified(_ response: StoredResponse?) -> Int? {
        response?.fields.first("last-modified").flatMap {
            HTTPDate(parsing: $0, now: HTTPDate(secondsSinceEpoch: Int64(ImageClock.system.now)))
        }.map {
            Int($0.secondsSinceEpoch)
        }
    }

    private static func etag(_ response: StoredResponse?) -> String? { response?.fields.first("etag") }

    package static func == (left: ImageDetails, right: ImageDetails) -> Bool {
        left === right
            || left.frames == right.frames && left.isAnimated == right.isAnimated && left.hasAlpha == right.hasAlpha
                && left.orientation == right.orientation && left.lastModified == right.lastModified
                && left.etag.map { Array($0.utf8) } == right.etag.map { Array($0.utf8) }
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(etag)
        hasher.combine(lastModified)
        hasher.combine(frames)
    }
}
