public import LarderUpstream
public import Logging

/// The images of this machine, one verified copy of each, shared by whoever asks.
public actor ImageCache {
    nonisolated let store: BlobStore
    nonisolated let index: ImageIndex

    init(store: BlobStore, index: ImageIndex) {
        self.store = store
        self.index = index
    }

    /// Opens the cache: its lock, its index, and the table of what is held. Everything else waits for ``run()``.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse`` with the pid of the process that holds the directory,
    ///   ``ImageError/Code/storageFailed``, ``ImageError/Code/noRoom``
    public static func open(
        _ settings: ImageCacheSettings, fetcher: ImageFetcher, blocking: BlockingWork, clock: ImageClock = .system,
        logger: Logger
    ) async throws(ImageError) -> ImageCache {
        try await blocking.run { () throws(ImageError) in
            let store = try BlobStore(path: settings.directory, limits: settings.space, imageLimits: settings.images)
            return ImageCache(store: store, index: try ImageIndex.open(in: store).index)
        }
    }

    /// Does what is done in the background, until its task is cancelled.
    public func run() async {}

    /// Ends all flights, writes down what waits to be, and says that the stop was orderly.
    public func stop() async {}

    /// Answers a request with what is held, if the rules allow it without the network and without the disk. Any thread may
    /// ask, event loops included.
    ///
    /// - Returns: nothing where ``image(_:)`` has to be asked
    public nonisolated func hit(_ request: ImageRequest, now: Int) -> CachedImage? { nil }

    /// Answers a request, from the network where it has to be. Cancelling the task takes only this request back.
    public func image(_ request: ImageRequest) async throws(ImageError) -> CachedImage {
        throw ImageError(.offline, "nothing is fetched yet")
    }

    /// Counts another reference to a blob; no if it is gone.
    public nonisolated func retain(_ digest: BlobDigest) -> Bool { store.retain(digest) }

    /// Takes a reference back. With the last one the file goes, in the background, if no row has it.
    public nonisolated func release(_ digest: BlobDigest) { _ = store.release(digest) }

    /// Where a blob is, for clients.
    public nonisolated func path(of digest: BlobDigest) -> String { store.path(of: digest) }

    /// Opens a blob to which the caller refers. Waits for open(2) only.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if its file is gone or damaged: ``image(_:)`` then fetches it again.
    ///   ``ImageError/Code/storageFailed``
    public nonisolated func openBlob(_ digest: BlobDigest) throws(ImageError) -> BlobFile { try store.open(digest) }

    /// What is held for a request, however old; without the network, without a reference, and not counted as a use.
    public nonisolated func peek(_ request: ImageRequest, now: Int) -> CachedImage? { nil }

    /// Says what would be done with a request, and why.
    public func explain(_ request: ImageRequest) async throws(ImageError) -> ImageExplanation {
        throw ImageError(.offline, "nothing is explained yet")
    }

    /// Pins an image or unpins it; no if it is not held.
    public func pin(_ request: ImageRequest, _ pinned: Bool) async throws(ImageError) -> Bool { false }

    /// Removes an image, pinned or not; no if it was not held. Its file stays for those that have a reference.
    public func remove(_ request: ImageRequest) async throws(ImageError) -> Bool { false }

    /// Removes all images that are not pinned, or all.
    public func clear(includingPinned: Bool = false) async throws(ImageError) -> (images: Int, bytes: Int) { (0, 0) }

    /// A page of what is held, in no order that means something.
    ///
    /// - Parameters:
    ///   - after: what the page before gave as `next`; nothing for the first
    ///   - limit: how many at most
    /// - Returns: `next` is nothing on the last page
    public func list(after: String?, limit: Int) async throws(ImageError) -> (rows: [ImageRow], next: String?) {
        ([], nil)
    }

    /// Fetches images that nobody waits for yet. When its task is cancelled it stops; what is complete stays.
    public func prefetch(
        _ requests: [ImageRequest], concurrency: Int, progress: @escaping @Sendable (PrefetchProgress) -> Void
    ) async -> PrefetchSummary { PrefetchSummary(total: requests.count) }

    /// The cache in figures.
    public nonisolated var statistics: ImageStatistics { ImageStatistics() }

    /// Takes new settings, from now on. Another directory needs another cache.
    public func update(_ settings: ImageCacheSettings) async {}

    /// What the settings say of a URL's origin, if anything.
    public nonisolated func origin(of url: String) -> ImageOrigin? { nil }

    /// Returns when the actor has come to it: for a watchdog.
    public func probe() async {}
}
