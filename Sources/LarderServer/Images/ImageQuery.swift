import LarderJSON
import LarderImages
import LarderProtocol

/// A parsed `image.get` request. All lines with the same template share one instance.
final class ImageQuery {
    let request: ImageRequest
    private let prepared: PreparedImageRequest?
    /// Whether the reply is to include an open descriptor.
    let wantsDescriptor: Bool
    /// The duration of the lease in seconds; 0 for a lease that lasts until the connection ends, nil for the default
    /// from the settings.
    let leaseSeconds: Int?
    /// Whether the client is notified of the progress of a download.
    let reportsProgress: Bool
    /// The deadline in milliseconds; nil for no deadline.
    let deadline: Int?
    /// The origin, if only certain users may have its images; otherwise nil.
    let restriction: ImageOrigin?
    /// The version of the settings that this query is based on.
    let settingsVersion: Int
    /// The beginning of the result for the image that was returned last. It can be reused until the digest or the
    /// details of the image change.
    private var constant: (digest: BlobDigest, details: ImageDetails, bytes: [UInt8])?

    init(_ parameters: ImageGet.Parameters, _ images: ImageService) {
        // The version is read first: if the settings change while the next lines run, this query counts as outdated and
        // is made again.
        settingsVersion = images.settingsVersion
        request = ImageRequest(parameters)
        wantsDescriptor = parameters.delivery == .descriptor
        leaseSeconds = parameters.leaseSeconds
        reportsProgress = parameters.reportsProgress
        deadline = parameters.deadlineMilliseconds
        restriction = images.restriction(of: request.url)
        prepared = images.cache.prepare(request)
    }

    /// The cached image; nil if a task must request it from the cache.
    func hit(_ images: ImageService) -> CachedImage? {
        prepared.flatMap { images.cache.hit($0, now: images.clock.now) }
    }

    /// The beginning of the result for an image.
    func constant(for image: CachedImage, _ cache: ImageCache) -> [UInt8] {
        if let constant, constant.digest == image.digest, constant.details === image.details { return constant.bytes }
        var writer = JSONWriter()
        ImageGet.Result.writeConstant(path: cache.path(of: image.digest), image: WireImage(image), to: &writer)
        constant = (image.digest, image.details, writer.bytes)
        return writer.bytes
    }
}
