package import LarderImages
import LarderJSON
package import LarderPlatform
import LarderProtocol
import LarderUpstream
import Synchronization

/// The image cache, with the settings that concern clients.
package final class ImageService: Sendable {
    package let cache: ImageCache
    /// Looks up images in the cache, on any thread.
    package let view: ImageCacheView
    /// The directory of the image files.
    package let directory: String
    let blocking: BlockingThreadPool
    let clock: ImageClock
    /// Closes descriptors that clients passed.
    let closer = ForeignFileCloser()
    private let defaultLease: Atomic<Int>

    /// - Parameters:
    ///   - leaseSeconds: the duration of leases for clients that do not specify one
    ///   - blocking: the threads for disk work
    package init(
        _ cache: ImageCache, directory: String, leaseSeconds: Int, blocking: BlockingThreadPool,
        clock: ImageClock = .system
    ) {
        (self.cache, view) = (cache, cache.view)
        self.directory = directory
        self.blocking = blocking
        self.clock = clock
        defaultLease = Atomic(leaseSeconds)
    }

    /// The duration of leases in seconds, for clients that do not specify one.
    var leaseSeconds: Int { defaultLease.load(ordering: .relaxed) }

    /// Increases with each change of the settings. Results that depend on settings of an earlier version are invalid.
    var settingsVersion: Int { view.settingsVersion }

    /// Applies new settings. They apply immediately. If limits were lowered, this method returns after the images that
    /// exceed them have been removed. A change of the directory requires a restart.
    package func update(_ settings: ImageCacheSettings, leaseSeconds: Int) async {
        defaultLease.store(leaseSeconds, ordering: .relaxed)
        await cache.update(settings)
    }

    /// Retries what failed because no thread could be started. Called when a thread could be started.
    package func threadsAreAvailable() { closer.retry() }

    /// The origin of a URL, if the agent sends that origin a credential, so that only certain users may have its
    /// images; otherwise nil.
    func restriction(of url: String) -> ImageOrigin? {
        view.origin(of: url).flatMap { $0.credential == nil ? nil : $0 }
    }
}

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
        prepared = images.view.prepare(request)
    }

    /// The cached image; nil if a task must request it from the cache.
    func hit(_ images: ImageService) -> CachedImage? {
        prepared.flatMap { images.view.hit($0, now: images.clock.now) }
    }

    /// The beginning of the result for an image.
    func constant(for image: CachedImage, _ images: ImageService) -> [UInt8] {
        if let constant, constant.digest == image.digest, constant.details === image.details { return constant.bytes }
        var writer = JSONWriter()
        ImageGet.Result.writeConstant(path: images.view.path(of: image.digest), image: WireImage(image), to: &writer)
        constant = (image.digest, image.details, writer.bytes)
        return writer.bytes
    }
}
