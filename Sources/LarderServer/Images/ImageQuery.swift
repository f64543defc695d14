import CLinuxShims
import LarderJSON
import LarderImages
import LarderProtocol
import Glibc

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

/// Image queries by their templates, so that a repeated request is parsed once. One for each event loop.
struct ImageQueries {
    private struct Entry {
        let headCount: Int
        /// The text before the id, and the text behind it.
        let text: [UInt8]
        let query: ImageQuery

        func isFor(_ template: RequestTemplate) -> Bool {
            let (head, rest) = (template.head, template.rest)
            guard headCount == head.count, text.count == headCount + rest.count else { return false }
            return text.withUnsafeBytes { known in
                guard let known = known.baseAddress, let head = head.baseAddress, let start = rest.baseAddress else {
                    return false
                }
                return memcmp(known + headCount, start, rest.count) == 0 && memcmp(known, head, headCount) == 0
            }
        }
    }

    private static let slots = 1024
    private var entries = [Entry?](repeating: nil, count: slots)

    /// The query of a template, if it is known and was made by the settings in force.
    func query(for template: RequestTemplate, settingsVersion: Int) -> ImageQuery? {
        guard let entry = entries[template.slot(of: Self.slots)], entry.query.settingsVersion == settingsVersion,
            entry.isFor(template)
        else { return nil }
        return entry.query
    }

    mutating func keep(_ query: ImageQuery, for template: RequestTemplate) {
        entries[template.slot(of: Self.slots)] = Entry(
            headCount: template.head.count, text: Array(template.head) + Array(template.rest), query: query)
    }
}
