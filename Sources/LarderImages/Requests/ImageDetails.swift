internal import LarderHTTPSemantics
internal import LarderImageFormats
internal import LarderUpstream

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
