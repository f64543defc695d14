internal import LarderHTTPSemantics
public import LarderPlatform
public import LarderUpstream
public import Logging
internal import Synchronization

/// The images of this machine, one verified copy of each, shared by whoever asks.
///
/// A request is answered in one of two ways. ``hit(_:now:)`` reads ``ImageCatalog``, behind a lock that nobody holds for
/// long, and answers what needs neither the network nor the disk. Everything else is ``image(_:)``, here.
///
/// **An actor is re-entrant at each `await`.** So each change of what is held is one step without a suspension: the catalog,
/// the references, and the work for the index, which ``SerialDiskQueue`` does in the order of these steps. After each `await`
/// what counts is looked at again. The order on disk follows from the order here: a row is handed in after its file was
/// published, and a file is removed only when the removal of its last row has been done.
public actor ImageCache {
    nonisolated let catalog: ImageCatalog
    nonisolated let store: BlobStore
    nonisolated let index: ImageIndex
    nonisolated let blocking: BlockingWork
    nonisolated let clock: ImageClock
    nonisolated let logger: Logger
    /// What the index is told, in order.
    nonisolated let indexQueue: SerialDiskQueue
    /// The removal of files whose last reference was given back.
    nonisolated let removals: SerialDiskQueue
    let fetch: DownloadOrder.Operation
    /// Tells the fetcher of other networks.
    let allowNetworks: @Sendable ([AddressRange]) -> Void
    /// All fields that we send to every origin, for `Vary`.
    let sent: [(name: String, value: String)]

    var flights: [Int: InFlightDownload] = [:]
    var flightsByKey: [ImageKey: [Int]] = [:]
    var queue: DownloadQueue<Int>
    /// Which flight a waiter waits for.
    var flightOfWaiter: [Int: Int] = [:]
    var lastNumber = 0
    var failures: NegativeCache
    /// How often origins answered while there were flights.
    var answers: [String: Int] = [:]
    /// Looks at files that did not prove themselves yet.
    var verifications: [BlobDigest: Task<ImageError?, Never>] = [:]
    var isStopping = false
    /// Which call of ``pin(_:_:)`` was the last one for an image, while it is under way.
    var latestPins: [ImageKey: Int] = [:]
    /// Whether somebody makes room now.
    var isMakingRoom = false
    /// Grows when a flight or a put has ended, or files were removed. Each may leave room for others.
    var roomChanges = 0
    /// Flights and puts that wait for room.
    var roomWaiters: [Int: SpaceWaiter] = [:] {
        didSet { isRoomAwaited.store(!roomWaiters.isEmpty, ordering: .sequentiallyConsistent) }
    }
    /// Whether ``roomWaiters`` has any, for ``release(_:)``.
    nonisolated let isRoomAwaited = Atomic(false)
    /// Flights and puts that were resumed to try for room again and have not found it yet.
    var resumedForRoom: Set<Int> = []
    /// Flights that give their bytes up for an older one, until they start again.
    var yieldedRoom: Set<Int> = []
    /// The running flight that was stopped to let a more urgent one start, until it has ended.
    var preempted: Int?
    /// Warns of index and file errors; a disk error concerns every row.
    let diskWarnings: RateLimitedLog<ImageError.Code, (message: Logger.Message, error: ImageError)>
    /// Whether there may be images of credentials that the settings do not have any more.
    var needsForgetting = true
    /// Whether there may be a cache in an older layout to remove.
    var hasOutdated = true
    /// When the index is copied.
    var copySchedule: IndexCopySchedule
    /// Whether there may be files that nobody knows.
    var needsSweep = true

    /// Opens the cache: its lock, its index, and the table of what is held. Everything else waits for ``run()``.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse`` with the pid of the process that holds the directory,
    ///   ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``, ``ImageError/Code/noRoom``
    public static func open(
        _ settings: ImageCacheSettings, fetcher: ImageFetcher, blocking: BlockingWork, clock: ImageClock = .system,
        logger: Logger
    ) async throws(ImageError) -> ImageCache {
        let store = try await blocking.run { () throws(ImageError) -> BlobStore in
            try IndexFormat.refuseNewer(in: settings.directory)
            return try BlobStore(path: settings.directory, limits: settings.space, imageLimits: settings.images)
        }
        fetcher.update(allowedNetworks: settings.allowedNetworks)
        return try await open(
            settings, store: store, blocking: blocking, clock: clock, logger: logger, sent: fetcher.fields(adding: []),
            allowNetworks: { fetcher.update(allowedNetworks: $0) },
            fetch: { @concurrent order throws(ImageError) in
                let download = ImageDownloader(
                    url: order.url, headers: order.headers, held: order.held, expectedDigest: order.expectedDigest,
                    fetcher: fetcher, store: store, blocking: blocking, clock: clock, room: order.room,
                    received: order.received, failed: order.failed, isAwaited: order.isAwaited,
                    limits: order.limits)
                return try await download.run()
            })
    }

    /// Opens it over a store, and something that stands for the network.
    static func open(
        _ settings: ImageCacheSettings, store: BlobStore, blocking: BlockingWork, clock: ImageClock, logger: Logger,
        sent: [(name: String, value: String)], allowNetworks: @escaping @Sendable ([AddressRange]) -> Void = { _ in },
        fetch: @escaping DownloadOrder.Operation
    ) async throws(ImageError) -> ImageCache {
        let (index, catalog) = try await blocking.run { () throws(ImageError) in
            let opened = try ImageIndex.open(in: store, now: clock.now)
            if case .restored(let reason, let rows, let pins) = opened.condition {
                logger.warning(
                    rows > 0
                        ? "The image cache's index was damaged or missing and has been restored from its copy"
                        : "The image cache's index was damaged and there is no usable copy; the cache starts empty",
                    metadata: ["reason": "\(reason)", "images": "\(rows)", "pins": "\(pins)"])
            }
            let catalog = ImageCatalog(
                opened.entries, store: store, settings: settings, fingerprint: Variant.fingerprint(of: sent))
            return (opened.index, catalog)
        }
        return ImageCache(
            settings, catalog: catalog, index: index, blocking: blocking, clock: clock, logger: logger, sent: sent,
            allowNetworks: allowNetworks, fetch: fetch)
    }

    private init(
        _ settings: ImageCacheSettings, catalog: ImageCatalog, index: ImageIndex, blocking: BlockingWork,
        clock: ImageClock, logger: Logger, sent: [(name: String, value: String)],
        allowNetworks: @escaping @Sendable ([AddressRange]) -> Void, fetch: @escaping DownloadOrder.Operation
    ) {
        self.catalog = catalog
        self.store = catalog.store
        self.index = index
        self.blocking = blocking
        self.clock = clock
        self.logger = logger
        diskWarnings = RateLimitedLog(every: .seconds(60)) { _, entry, count in
            logger.warning(entry.message, metadata: ["error": "\(entry.error)", "before": "\(count - 1)"])
        }
        self.sent = sent
        self.allowNetworks = allowNetworks
        self.fetch = fetch
        indexQueue = SerialDiskQueue(blocking)
        removals = SerialDiskQueue(blocking)
        queue = DownloadQueue(limits: settings.flights)
        failures = NegativeCache(lifetimes: settings.failures)
        copySchedule = IndexCopySchedule(last: index.copyTime)
    }

    // MARK: From any thread

    /// Answers a request with what is held, if the rules allow it without the network and without the disk. Any thread may
    /// ask, event loops included.
    ///
    /// - Returns: nothing where ``image(_:)`` has to be asked
    public nonisolated func hit(_ request: ImageRequest, now: Int) -> CachedImage? { catalog.hit(request, now: now) }

    /// Works out the key of a request. Any thread may ask.
    ///
    /// - Returns: nothing where its URL is none
    public nonisolated func prepare(_ request: ImageRequest) -> PreparedImageRequest? {
        catalog.lookup.place(of: request).map { PreparedImageRequest(request: request, key: $0.key) }
    }

    /// Answers a prepared request as ``hit(_:now:)`` does.
    public nonisolated func hit(_ prepared: PreparedImageRequest, now: Int) -> CachedImage? {
        catalog.hit(prepared.request, prepared.key, now: now)
    }

    /// What is held for a request, however old; without the network, without a reference, and not counted as a use.
    public nonisolated func peek(_ request: ImageRequest, now: Int) -> CachedImage? {
        guard let place = catalog.lookup.place(of: request),
            let entry = catalog.held(place, request.expectedDigest, now: now),
            entry.matches(catalog.fingerprint) != false
        else { return nil }
        return CachedImage(entry, catalog.details(of: entry) ?? .unknown, source: .hit, now: now)
    }

    /// Counts another reference to a blob; no if it is gone.
    public nonisolated func retain(_ digest: BlobDigest) -> Bool { store.retain(digest) }

    /// Takes a reference back. With the last one the file goes, in the background, if no row has it.
    public nonisolated func release(_ digest: BlobDigest) {
        guard store.release(digest) else {
            // With its last lease an image may go.
            if isRoomAwaited.load(ordering: .sequentiallyConsistent) { Task { await noteEvictable() } }
            return
        }
        let (store, logger) = (store, logger)
        removals.submit { () throws(ImageError) in
            do throws(ImageError) {
                let freed = try store.removeUnreferenced(digest)
                if freed != nil, self.isRoomAwaited.load(ordering: .sequentiallyConsistent) {
                    Task { await self.noteRoom() }
                }
            } catch {
                logger.warning("An image's file could not be removed", metadata: ["error": "\(error)"])
                throw error
            }
        }
    }

    /// Where a blob is, for clients.
    public nonisolated func path(of digest: BlobDigest) -> String { store.path(of: digest) }

    /// Opens a blob to which the caller refers. Waits for open(2) only, unless it was not looked at since a stop that was
    /// not orderly.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if its file is gone or damaged: give the reference back, and ask
    ///   ``image(_:)``, which fetches it again. ``ImageError/Code/storageFailed``
    public nonisolated func openBlob(_ digest: BlobDigest) throws(ImageError) -> BlobFile { try store.open(digest) }

    /// What the settings say of a URL's origin, if anything.
    public nonisolated func origin(of url: String) -> ImageOrigin? { catalog.lookup.origin(of: url) }

    /// Grows as soon as requests are answered by other settings: what was concluded from those before, such as a
    /// ``PreparedImageRequest``, counts no more.
    public nonisolated var settingsVersion: Int { catalog.settingsVersion }

    /// The cache in figures.
    public nonisolated var statistics: ImageStatistics {
        var statistics = catalog.statistics
        let usage = store.usage
        statistics.bytes = usage.bytes
        statistics.indexBytes = index.diskBytes
        statistics.files = usage.count
        statistics.reservedBytes = usage.reservedBytes
        (statistics.leasedBytes, statistics.leftoverBytes) = store.leases
        statistics.limits = store.limits
        return statistics
    }

    // MARK: Settings

    /// Takes new settings, from now on; returns when what is over the new limits is gone, as far as nobody uses it. Another
    /// directory needs another cache.
    public func update(_ settings: ImageCacheSettings) async {
        store.update(limits: settings.space, imageLimits: settings.images)
        catalog.update(settings)
        queue.limits = settings.flights
        failures.lifetimes = settings.failures
        failures.forgetAll()
        allowNetworks(settings.allowedNetworks)
        startFlights()
        await removeForgotten()
        await keepLimits()
        // The limits may be higher now.
        noteRoom()
    }

    /// Whether images are being fetched, or room is being made for them.
    public var isAtWork: Bool { !flights.isEmpty || isMakingRoom || !roomWaiters.isEmpty }

    /// Returns when the actor has come to it: for a watchdog.
    public func probe() async {}
}
