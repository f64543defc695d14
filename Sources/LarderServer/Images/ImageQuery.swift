import LarderJSON
import LarderImages
import LarderProtocol

/// The query of one `image.get`: the same for all lines with the same template.
final class ImageQuery {
    let request: ImageRequest
    private let prepared: PreparedImageRequest?
    /// Whether an open descriptor is to come with the reply.
    let wantsDescriptor: Bool
    /// For how many seconds the file is to stay; 0 until the connection ends, nil for what the settings say.
    let leaseSeconds: Int?
    /// When to give up, in milliseconds.
    let deadline: Int?
    /// The origin, if only the users whom it names may have its images.
    let restriction: ImageOrigin?
    /// The settings that this was concluded from.
    let settingsVersion: Int
    /// The beginning of the result, which stays the same until the bytes or the details change.
    private var constant: (digest: BlobDigest, details: ImageDetails, bytes: [UInt8])?

    init(_ parameters: ImageGet.Parameters, _ images: ImageService) {
        // First: whatever changes meanwhile makes this one too old, and not the next.
        settingsVersion = images.settingsVersion
        request = ImageRequest(parameters)
        wantsDescriptor = parameters.delivery == .descriptor
        leaseSeconds = parameters.leaseSeconds
        deadline = parameters.deadlineMilliseconds
        restriction = images.restriction(of: request.url)
        prepared = images.cache.prepare(request)
    }

    /// The cached image; nil if a task has to get it.
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
