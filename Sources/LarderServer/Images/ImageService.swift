public import LarderImages
public import LarderUpstream
import LarderWire
import Synchronization

/// The image cache as the server serves it: the cache itself, and what the settings say of its clients.
public final class ImageService: Sendable {
    /// The cache.
    public let cache: ImageCache
    /// Where the images are.
    public let directory: String
    let blocking: BlockingWork
    let clock: ImageClock
    private let defaultLease: Atomic<Int>
    private let generation = Atomic<Int>(0)

    /// Makes it.
    ///
    /// - Parameters:
    ///   - leaseSeconds: how long a file stays for a client that does not say
    ///   - blocking: where files are opened
    public init(
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
    var settingsVersion: Int { generation.load(ordering: .acquiring) }

    /// Takes new settings. Another directory needs a restart.
    public func update(_ settings: ImageCacheSettings, leaseSeconds: Int) async {
        await cache.update(settings)
        defaultLease.store(leaseSeconds, ordering: .relaxed)
        generation.add(1, ordering: .releasing)
    }

    /// What stands between others and the images of a URL: its origin, where it is shown a credential.
    func restriction(of url: String) -> ImageOrigin? {
        cache.origin(of: url).flatMap { $0.credential == nil ? nil : $0 }
    }
}

extension ServerContext {
    /// The image cache.
    /// - Throws: `unavailable` where the settings switch it off.
    func imageService() throws(WireError) -> ImageService {
        if let images { return images }
        throw WireError(
            .unavailable, "the settings switch the image cache off; set images.enabled to true and restart the agent")
    }
}
