package import LarderImages
package import LarderPlatform
import LarderUpstream
import LarderProtocol
import Synchronization

/// The image cache as the server serves it: the cache itself, and what the settings say of its clients.
package final class ImageService: Sendable {
    /// The cache.
    package let cache: ImageCache
    /// Where the images are.
    package let directory: String
    let blocking: BlockingWork
    let clock: ImageClock
    /// Closes what clients passed.
    let closer = ForeignFileCloser()
    private let defaultLease: Atomic<Int>

    /// Makes it.
    ///
    /// - Parameters:
    ///   - leaseSeconds: how long a file stays for a client that does not say
    ///   - blocking: where files are opened
    package init(
        _ cache: ImageCache, directory: String, leaseSeconds: Int, blocking: BlockingWork, clock: ImageClock = .system
    ) {
        self.cache = cache
        self.directory = directory
        self.blocking = blocking
        self.clock = clock
        defaultLease = Atomic(leaseSeconds)
    }

    /// How long a file stays for a client that does not say, in seconds.
    var leaseSeconds: Int { defaultLease.load(ordering: .relaxed) }

    /// Grows whenever the settings change: what was concluded from them before counts no more.
    var settingsVersion: Int { cache.settingsVersion }

    /// Takes new settings. They count from now on, also while what is over smaller limits is still being removed; this
    /// returns after that. Another directory needs a restart.
    package func update(_ settings: ImageCacheSettings, leaseSeconds: Int) async {
        defaultLease.store(leaseSeconds, ordering: .relaxed)
        await cache.update(settings)
    }

    /// What stands between others and the images of a URL: its origin, where it is shown a credential.
    func restriction(of url: String) -> ImageOrigin? {
        cache.origin(of: url).flatMap { $0.credential == nil ? nil : $0 }
    }
}

extension ServerContext {
    /// The image cache.
    /// - Throws: `unavailable` where the settings switch it off, or it cannot be used.
    func imageService() throws(WireError) -> ImageService {
        if let images { return images }
        if let imageProblem {
            throw WireError(
                .unavailable, "the agent runs without its image cache: \(imageProblem); then restart the agent")
        }
        throw WireError(
            .unavailable, "the settings switch the image cache off; set images.enabled to true and restart the agent")
    }
}
