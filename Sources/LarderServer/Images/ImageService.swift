package import LarderImages
package import LarderPlatform
import LarderUpstream
import LarderProtocol
import Synchronization

/// The image cache, with the settings that concern clients.
package final class ImageService: Sendable {
    package let cache: ImageCache
    /// The directory of the image files.
    package let directory: String
    let blocking: BlockingWork
    let clock: ImageClock
    /// Closes descriptors that clients passed.
    let closer = ForeignFileCloser()
    private let defaultLease: Atomic<Int>

    /// - Parameters:
    ///   - leaseSeconds: the duration of leases for clients that do not specify one
    ///   - blocking: the threads that open files
    package init(
        _ cache: ImageCache, directory: String, leaseSeconds: Int, blocking: BlockingWork, clock: ImageClock = .system
    ) {
        self.cache = cache
        self.directory = directory
        self.blocking = blocking
        self.clock = clock
        defaultLease = Atomic(leaseSeconds)
    }

    /// The duration of leases in seconds, for clients that do not specify one.
    var leaseSeconds: Int { defaultLease.load(ordering: .relaxed) }

    /// Increases with each change of the settings. Results that depend on settings of an earlier version are invalid.
    var settingsVersion: Int { cache.settingsVersion }

    /// Applies new settings. They apply immediately. If limits were lowered, this method returns after the images that
    /// exceed them have been removed. A change of the directory requires a restart.
    package func update(_ settings: ImageCacheSettings, leaseSeconds: Int) async {
        defaultLease.store(leaseSeconds, ordering: .relaxed)
        await cache.update(settings)
    }

    /// Retries what failed because no thread could be started. Called when a thread could be started.
    package func threadsAreAvailable() { closer.retry() }

    /// Why the index of the cache cannot be read; nil if it was read or is being read.
    var problem: String? { cache.problem?.description }

    /// Why the index of the cache cannot be written; nil if it can.
    var writeProblem: String? { cache.writeProblem?.description }

    /// The origin of a URL, if the agent sends that origin a credential, so that only certain users may have its
    /// images; otherwise nil.
    func restriction(of url: String) -> ImageOrigin? {
        cache.origin(of: url).flatMap { $0.credential == nil ? nil : $0 }
    }
}

extension ServerContext {
    /// The image cache.
    /// - Throws: `unavailable` if the settings disable the image cache or it cannot be used
    func imageService() throws(WireError) -> ImageService {
        if let images { return images }
        if let imageProblem {
            throw WireError(
                .unavailable, "the image cache is unavailable: \(imageProblem); correct this, then restart the agent")
        }
        throw WireError(
            .unavailable, "the settings disable the image cache; set images.enabled to true and restart the agent")
    }
}
