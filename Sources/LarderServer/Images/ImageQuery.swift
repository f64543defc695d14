import CLinuxShims
import LarderJSON
import LarderImages
import LarderProtocol
import Glibc

/// What one `image.get` asks for: the same for all that come in the same words.
final class ImageQuery {
    let request: ImageRequest
    private let prepared: PreparedImageRequest?
    /// Whether an open descriptor is to come with the reply.
    let wantsDescriptor: Bool
    /// For how many seconds the file is to stay; 0 until the connection ends, nil for what the settings say.
    let leaseSeconds: Int?
    /// When to give up, in milliseconds.
    let deadline: Int?
    /// What stands between others and the image.
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

    /// What the cache has for it at once.
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

/// What was asked for by which words, so that a request that comes again and again is parsed once. One for each event
/// loop.
struct ImageQueries {
    private struct Entry {
        let headCount: Int
        /// The words before the id, and those behind it.
        let words: [UInt8]
        let asked: ImageQuery

        func isFor(_ words: RequestTemplate) -> Bool {
            guard headCount == words.head.count, self.words.count == headCount + words.rest.count else { return false }
            return self.words.withUnsafeBytes { known in
                guard let known = known.baseAddress, let head = words.head.baseAddress,
                    let rest = words.rest.baseAddress
                else { return false }
                return memcmp(known + headCount, rest, words.rest.count) == 0 && memcmp(known, head, headCount) == 0
            }
        }
    }

    private static let slots = 1024
    private var entries = [Entry?](repeating: nil, count: slots)

    /// What the words ask for, if it is known and was concluded from the settings in force.
    func asked(by words: RequestTemplate, settingsVersion: Int) -> ImageQuery? {
        guard let entry = entries[words.slot(of: Self.slots)], entry.asked.settingsVersion == settingsVersion,
            entry.isFor(words)
        else { return nil }
        return entry.asked
    }

    /// Keeps what the words ask for.
    mutating func keep(_ asked: ImageQuery, for words: RequestTemplate) {
        entries[words.slot(of: Self.slots)] = Entry(
            headCount: words.head.count, words: Array(words.head) + Array(words.rest), asked: asked)
    }
}
