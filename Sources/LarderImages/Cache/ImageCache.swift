internal import LarderHTTPSemantics
package import LarderPlatform
package import LarderUpstream
package import Logging

/// The images of this machine, one verified copy of each, shared by all clients.
///
/// ``hit(_:now:)`` reads the ``ImageCatalog``, behind a lock that is never held for long, and answers requests that need
/// neither the network nor the disk. ``image(_:)`` answers all others.
///
/// The classes that hold the state of the actor are not `Sendable`: their methods run as steps of the actor. An actor is
/// re-entrant at each `await`, so each change of a cached image is one step without a suspension: the change of the catalog,
/// the references, and the submission of the same change to the disk (``ImageRows``).
package actor ImageCache {
    nonisolated let catalog: ImageCatalog
    nonisolated let disk: ImageDiskCache
    private nonisolated let blobs: BlobStore
    private nonisolated let log: ImageCacheLog
    private nonisolated let spaceDemand = SpaceDemand()
    private let origin: any ImageOriginClient
    private let clock: ImageClock
    let rows: ImageRows
    let reclaimer: SpaceReclaimer
    let verifier: BlobVerifier
    let downloads: ImageDownloads
    let maintenance: ImageMaintenance

    /// Opens the cache: its lock, its index and its catalog. All other work waits for ``run()``.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``,
    ///   ``ImageError/Code/noRoom``
    package static func open(
        _ settings: ImageCacheSettings, fetcher: ImageFetcher, blocking: BlockingWork, clock: ImageClock = .system,
        logger: Logger
    ) async throws(ImageError) -> ImageCache {
        let blobs = try await blocking.run { () throws(ImageError) -> BlobStore in
            try IndexFormat.refuseNewer(in: settings.directory)
            return try BlobStore(path: settings.directory, limits: settings.space, imageLimits: settings.images)
        }
        let downloader = ImageDownloader(fetcher: fetcher, blobs: blobs, blocking: blocking, clock: clock)
        downloader.update(allowedNetworks: settings.allowedNetworks)
        return try await open(
            settings, blobs: blobs, origin: downloader, blocking: blocking, clock: clock, logger: logger)
    }

    /// Opens it over a store and a client of origins.
    static func open(
        _ settings: ImageCacheSettings, blobs: BlobStore, origin: any ImageOriginClient, blocking: BlockingWork,
        clock: ImageClock, logger: Logger
    ) async throws(ImageError) -> ImageCache {
        let log = ImageCacheLog(logger)
        let (index, catalog) = try await blocking.run { () throws(ImageError) in
            let opened = try ImageIndex.open(in: blobs, now: clock.now)
            log.indexOpened(opened.condition)
            let catalog = ImageCatalog(
                opened.entries, store: blobs, settings: settings,
                fingerprint: Variant.fingerprint(of: origin.requestFields))
            return (opened.index, catalog)
        }
        let disk = ImageDiskCache(blobs: blobs, index: index, blocking: blocking)
        return ImageCache(settings, catalog: catalog, disk: disk, origin: origin, clock: clock, log: log)
    }

    private init(
        _ settings: ImageCacheSettings, catalog: ImageCatalog, disk: ImageDiskCache, origin: any ImageOriginClient,
        clock: ImageClock, log: ImageCacheLog
    ) {
        (self.catalog, self.disk, self.log, self.origin, self.clock) = (catalog, disk, log, origin, clock)
        blobs = disk.blobs
        reclaimer = SpaceReclaimer(catalog: catalog, disk: disk, clock: clock, demand: spaceDemand)
        rows = ImageRows(catalog: catalog, disk: disk, reclaimer: reclaimer, log: log)
        verifier = BlobVerifier(disk: disk, rows: rows, log: log)
        downloads = ImageDownloads(
            settings, catalog: catalog, disk: disk, rows: rows, reclaimer: reclaimer, origin: origin, clock: clock,
            log: log)
        maintenance = ImageMaintenance(catalog: catalog, disk: disk, rows: rows, clock: clock, log: log)
    }

    // MARK: From any thread

    /// Answers a request from the cache, if the rules allow it without the network and without the disk.
    ///
    /// - Returns: nil if ``image(_:)`` has to answer
    package nonisolated func hit(_ request: ImageRequest, now: Int) -> CachedImage? { catalog.hit(request, now: now) }

    /// Computes the key of a request.
    ///
    /// - Returns: nil if the URL is invalid
    package nonisolated func prepare(_ request: ImageRequest) -> PreparedImageRequest? {
        catalog.keys.resolve(request).map { PreparedImageRequest(request: request, key: $0.key) }
    }

    /// Answers a prepared request as ``hit(_:now:)`` does.
    package nonisolated func hit(_ prepared: PreparedImageRequest, now: Int) -> CachedImage? {
        catalog.hit(prepared.request, prepared.key, now: now)
    }

    /// Returns the cached image of a request, however old, without a reference and without counting a use.
    package nonisolated func peek(_ request: ImageRequest, now: Int) -> CachedImage? {
        guard let location = catalog.keys.resolve(request),
            let entry = catalog.held(location, request.expectedDigest, now: now),
            entry.matches(catalog.fingerprint) != false
        else { return nil }
        return CachedImage(entry, catalog.details(of: entry) ?? .unknown, source: .hit, now: now)
    }

    /// Adds a reference to a blob.
    ///
    /// - Returns: false if the blob does not exist
    package nonisolated func retain(_ digest: BlobDigest) -> Bool { blobs.retain(digest) }

    /// Releases a reference. With the last one the file is removed in the background, if no row has it.
    package nonisolated func release(_ digest: BlobDigest) {
        guard blobs.release(digest) else {
            // Without its last lease an image may be removed.
            if spaceDemand.exists { Task { await noteRemovable() } }
            return
        }
        disk.removeUnreferenced(digest) { [log] result in
            switch result {
            case .success(let isRemoved):
                if isRemoved, self.spaceDemand.exists { Task { await self.noteFreedSpace() } }
            case .failure(let error):
                log.logger.warning("An image's file could not be removed", metadata: ["error": "\(error)"])
            }
        }
    }

    private func noteRemovable() { reclaimer.imagesBecameRemovable() }
    private func noteFreedSpace() { reclaimer.spaceFreed() }

    /// The path of a blob, for clients.
    package nonisolated func path(of digest: BlobDigest) -> String { blobs.path(of: digest) }

    /// Opens a blob to which the caller refers. It waits for open(2) only, unless the file has not been verified since a stop
    /// that was not orderly.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if its file is missing or damaged: release the reference, and call
    ///   ``image(_:)``, which downloads it again. ``ImageError/Code/storageFailed``
    package nonisolated func openBlob(_ digest: BlobDigest) throws(ImageError) -> BlobFile {
        try blobs.open(digest)
    }

    /// The settings of a URL's origin, if any.
    package nonisolated func origin(of url: String) -> ImageOrigin? { catalog.keys.origin(of: url) }

    /// Grows as soon as other settings apply. A ``PreparedImageRequest`` from before is invalid then.
    package nonisolated var settingsVersion: Int { catalog.settingsVersion }

    package nonisolated var statistics: ImageStatistics { ImageStatistics(catalog, disk) }

    // MARK: Life cycle

    /// Applies new settings, and returns when what is over the new limits has been removed, unless it is in use. Another
    /// directory needs another cache.
    package func update(_ settings: ImageCacheSettings) async {
        blobs.update(limits: settings.space, imageLimits: settings.images)
        catalog.update(settings)
        downloads.update(settings, on: self)
        await maintenance.removeUnreachable()
        await maintenance.enforceLimits(on: self)
        // The limits may be higher now.
        reclaimer.spaceFreed()
    }

    /// Whether images are being downloaded, or space is being reclaimed for them.
    package var isAtWork: Bool { !downloads.table.isEmpty || reclaimer.queue.isReclaiming || !reclaimer.queue.isEmpty }

    /// Returns when the actor is free, for a watchdog.
    package func probe() async {}

    /// Runs the background work of the cache until the task is cancelled.
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.verifyAll() }
            group.addTask { await self.maintain() }
        }
    }

    private func verifyAll() async { await maintenance.verifyAll(on: self) }

    private func maintain() async { await maintenance.run(on: self) }

    /// Ends all downloads, writes pending changes, and notes an orderly stop. Call it last, when ``run()`` has returned;
    /// requests fail from now on.
    package func stop() async {
        await downloads.stop()
        await maintenance.stop()
    }

    // MARK: Requests

    /// Answers a request, from the network if necessary.
    ///
    /// Cancelling the task ends this request only; a download ends with the last request that waits for it. An image that is
    /// returned has a reference even if the task was cancelled in the meantime.
    package func image(_ request: ImageRequest) async throws(ImageError) -> CachedImage {
        let location = try catalog.keys.location(of: request)
        // Whether an image is a response to our request fields, if only its row could tell.
        var variants: [BlobDigest: Bool] = [:]
        var failure: ImageError?
        while true {
            try downloads.checkRunning()
            let now = clock.now
            let entry = catalog.held(location, request.expectedDigest, now: now)
            if let entry, entry.matches(catalog.fingerprint) == nil, variants[entry.digest] == nil {
                variants[entry.digest] =
                    try await disk.row(entry.key)?.response.variant.matches(origin.requestFields) ?? false
                continue
            }
            let candidate = entry.map { entry in
                StoredCandidate(
                    freshness: entry.freshness,
                    matchesVariant: entry.matches(catalog.fingerprint) ?? variants[entry.digest] ?? false)
            }
            switch answer(request, location, candidate, failure, now) {
            case .cached(let isRevalidated):
                guard let entry else { throw Self.notHeld }
                if let image = catalog.take(entry, now: now) {
                    if isRevalidated { downloads.revalidate(location, for: request, on: self) }
                    if !request.takesReference { release(image.digest) }
                    return image
                }
                try await verifier.verify(entry.digest, on: self)
                await rows.loadDetails(entry)
            case .error(let error): throw error
            case .download(let isUnconditional):
                switch await downloads.wait(for: request, at: location, unconditionally: isUnconditional, on: self) {
                case .image(let image): return image
                case .failed(let error): failure = error
                case .retry: break
                }
            }
        }
    }

    private enum Answer {
        case cached(isRevalidated: Bool)
        case error(ImageError)
        case download(isUnconditional: Bool)
    }

    /// Decides how to answer a request now.
    ///
    /// - Parameter failure: the result of its own download, if there was one
    private func answer(
        _ request: ImageRequest, _ location: CacheLocation, _ candidate: StoredCandidate?, _ failure: ImageError?,
        _ now: Int
    ) -> Answer {
        let decision = request.cache.decide(candidate, now: now)
        switch decision {
        case .fresh: return .cached(isRevalidated: false)
        case .stale(let isRevalidated): return .cached(isRevalidated: isRevalidated)
        case .notHeld: return .error(Self.notHeld)
        case .revalidate, .fetch: break
        }
        var failure = failure
        if failure == nil, request.cache.policy != .networkOnly,
            let recent = downloads.failure(of: request.url, at: location)
        {
            failure = ImageError(
                recent.error.code, "\(recent.error.message) (not tried again for another \(recent.until - now) s)",
                cause: recent.error.cause)
        }
        guard let failure else { return .download(isUnconditional: decision == .fetch) }
        if let candidate, request.cache.answersStale(after: failure, candidate, now: now) {
            return .cached(isRevalidated: false)
        }
        return .error(failure)
    }

    /// Explains how a request would be answered, and why. It reads the row and changes nothing.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``, ``ImageError/Code/storageFailed``
    package func explain(_ request: ImageRequest) async throws(ImageError) -> ImageExplanation {
        let location = try catalog.keys.location(of: request)
        let row = try await disk.row(location.key)
        let now = clock.now
        return ImageExplanation(
            request, row: row, isUsable: catalog.held(location, request.expectedDigest, now: now) != nil,
            matchesVariant: row?.response.variant.matches(origin.requestFields) ?? true,
            failure: downloads.failure(of: request.url, at: location),
            downloads: downloads.table, key: location.key, now: now)
    }

    /// Stores an image from a client under its URL or key, as if the origin of the URL had sent it, and replaces the image
    /// there. The checks and limits of a download apply.
    ///
    /// - Parameters:
    ///   - request: the URL, the cache key and the expected digest
    ///   - lifetime: for how many seconds it is fresh
    /// - Throws: ``ImageError/Code/invalidURL``; what ``BlobWriter`` throws; ``ImageError/Code/noRoom``;
    ///   ``ImageError/Code/unusableFile`` and ``ImageError/Code/fileChanged`` of a file
    package func put(
        _ request: ImageRequest, _ content: PutContent, lifetime: Int
    ) async throws(ImageError) -> CachedImage {
        let location = try catalog.keys.location(of: request)
        let id = downloads.makeTransferID()
        defer { reclaimer.transferEnded(id) }
        let space = SpaceRetry(id: id, space: self, blocking: disk.blocking)
        let blob = try await content.write(to: blobs, space, expectedDigest: request.expectedDigest) {
            () throws(ImageError) in try downloads.checkRunning()
        }
        do throws(ImageError) {
            try downloads.checkRunning()
        } catch {
            release(blob.digest)
            throw error
        }
        let now = clock.now
        let fields = ResponseFields([(name: "cache-control", value: "max-age=\(lifetime)")])
        let response = StoredResponse(
            status: 200, fields: fields, request: origin.requestFields, requestTime: now, responseTime: now)
        let row = ImageRow(keyText: location.keyText, url: request.url, blob: blob, response: response, lastUse: now)
        guard rows.keep(row, on: self) else {
            release(blob.digest)
            throw ImageError(
                .noRoom,
                "the cache holds \(blobs.limits.count) images and none of them may go; release or unpin some")
        }
        downloads.succeeded(request.url, at: location)
        return CachedImage(
            row.entry, ImageDetails(header: row.header, response: response), source: .miss, now: now, freshness: .fresh)
    }

    // MARK: Cached images

    /// Removes an image, pinned or not. Its file stays for those that have a reference.
    ///
    /// - Returns: false if it was not cached
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the
    ///   index cannot be written, and the image stays then
    package func remove(_ request: ImageRequest) async throws(ImageError) -> Bool {
        try await rows.remove(catalog.keys.location(of: request).key)
    }

    /// Removes the images below a prefix, pinned or not. Their files stay for those that have a reference.
    ///
    /// - Parameter isTrial: whether they are only counted
    /// - Returns: the number of images, and the bytes of the files that only they have, each counted once
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written; images that
    ///   have not been removed by then stay
    package func remove(_ prefix: ImagePrefix, isTrial: Bool) async throws(ImageError) -> (images: Int, bytes: Int) {
        try await rows.remove(prefix, isTrial: isTrial)
    }

    /// Removes all images that are not pinned, or all.
    ///
    /// - Parameter isSpared: whether the images that an origin sent for its credential stay
    /// - Returns: the number of images, and the bytes of all files without an image now, although references may keep some of
    ///   them for a while
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written; images that
    ///   have not been removed by then stay
    package func clear(
        includingPinned: Bool = false, sparing isSpared: @escaping @Sendable (ImageOrigin) -> Bool = { _ in false }
    ) async throws(ImageError) -> (images: Int, bytes: Int) {
        try await rows.clear(includingPinned: includingPinned, sparing: isSpared)
    }

    /// Pins an image or unpins it.
    ///
    /// - Returns: false if it is not cached
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/noRoom`` if too much would be pinned, and that or
    ///   ``ImageError/Code/storageFailed`` if the index cannot be written. The image is unchanged then
    package func pin(_ request: ImageRequest, _ pinned: Bool) async throws(ImageError) -> Bool {
        try await rows.pin(catalog.keys.location(of: request).key, pinned)
    }

    /// Returns a page of cached images, in the order of their keys. A page may have fewer than `limit`.
    ///
    /// - Parameters:
    ///   - after: `next` of the previous page; nil for the first
    ///   - prefix: which images; nil for all
    /// - Returns: `next` is nil on the last page
    /// - Throws: ``ImageError/Code/invalidURL`` for an `after` that is not from a page; ``ImageError/Code/storageFailed``
    package func list(
        after: String?, limit: Int, prefix: ImagePrefix? = nil
    ) async throws(ImageError) -> (rows: [ImageRow], next: String?) {
        let key = after.flatMap { ImageKey(hex: $0) }
        guard after == nil || key != nil else {
            throw ImageError(.invalidURL, "after is not what a page before gave as next; begin without it")
        }
        return try await rows.list(after: key, limit: limit, prefix: prefix)
    }

    static let notHeld = ImageError(
        .notHeld, "the image is not held, and the request wants no network; ask with another policy")
    static let cancelled = ImageError(.cancelled, "the request was cancelled")
    static let shuttingDown = ImageError(.shuttingDown, "the agent is shutting down; ask again after its restart")
}

extension ImageCache: DownloadOwner {
    func reclaim(_ shortage: SpaceShortage, for id: TransferID) async throws(ImageError) -> Bool {
        try await reclaimer.reclaim(shortage, for: id, on: self)
    }

    func spaceFound(by id: TransferID) { reclaimer.spaceFound(by: id) }

    func attemptFailed(_ id: TransferID, _ error: ImageError) { downloads.attemptFailed(id, error) }
}
