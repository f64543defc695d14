internal import LarderHTTPSemantics
package import LarderPlatform
package import LarderUpstream
package import Logging

/// The image cache of this machine. It has one verified copy of each image, which all clients share.
///
/// ``view`` answers requests that need neither the network nor the disk, on any thread. ``image(_:reporting:)`` answers
/// all other requests.
///
/// The state of the actor is in values and in classes that are not `Sendable`, so that only the actor changes it. Because
/// an actor is re-entrant at each `await`, each change of a cached image is one step without suspension: it changes the
/// catalog and the references, and submits the same change to the disk (``CatalogWriter``).
package actor ImageCache {
    /// Looks up images on any thread.
    package nonisolated let view: ImageCacheView
    nonisolated let disk: ImageDiskCache
    nonisolated let log: ImageCacheLog
    /// Ends when the index has been read, with the error if it cannot be read.
    private nonisolated let opening: Task<ImageError?, Never>
    let origin: any ImageOriginClient
    let clock: ImageClock
    let catalog: ImageCatalog
    let rows: CatalogWriter
    let reclaimer: SpaceReclaimer
    var downloads: ImageDownloads
    let maintenance: ImageMaintenance
    /// The checks of files that are in progress.
    private var checks: [BlobDigest: Task<ImageError?, Never>] = [:]

    init(
        _ settings: ImageCacheSettings, view: ImageCacheView, disk: ImageDiskCache,
        opening: Task<ImageError?, Never>, origin: any ImageOriginClient, clock: ImageClock, log: ImageCacheLog
    ) {
        (self.view, self.disk, self.opening, self.origin, self.clock, self.log) = (
            view, disk, opening, origin, clock, log
        )
        catalog = ImageCatalog(view.tables, settings, fingerprint: view.fingerprint, signal: view.signal)
        reclaimer = SpaceReclaimer(catalog: catalog, accounts: disk.accounts)
        rows = CatalogWriter(catalog: catalog, disk: disk, reclaimer: reclaimer, log: log)
        downloads = ImageDownloads(
            settings, catalog: catalog, accounts: disk.accounts, received: view.receivedBytes, clock: clock, log: log)
        maintenance = ImageMaintenance(view: view, catalog: catalog, disk: disk, rows: rows, clock: clock, log: log)
    }

    deinit { view.signal.finish() }

    nonisolated var accounts: BlobAccounts { disk.accounts }

    // MARK: Start

    /// Locks the directory of the cache, and reads the index in the background. Until the index has been read, the
    /// ``view`` finds no image, and all other requests wait. If it cannot be read, they throw ``ImageCacheView/problem``.
    /// ``run()`` does all other work.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``,
    ///   ``ImageError/Code/cacheFull``; not for a damaged or unreadable index
    package static func start(
        _ settings: ImageCacheSettings, fetcher: ImageFetcher, blocking: BlockingThreadPool,
        clock: ImageClock = .system, logger: Logger
    ) async throws(ImageError) -> ImageCache {
        let disk = try await blocking.run { () throws(ImageError) -> ImageDiskCache in
            try IndexFormat.refuseNewer(in: settings.directory)
            return ImageDiskCache(
                try BlobStore(path: settings.directory, limits: settings.space, imageLimits: settings.images), blocking)
        }
        let downloader = ImageDownloader(fetcher: fetcher, disk: disk, clock: clock)
        downloader.update(allowedNetworks: settings.allowedNetworks)
        return start(settings, disk: disk, origin: downloader, clock: clock, logger: logger)
    }

    /// Reads the index of a given store in the background, and downloads images with a given client.
    static func start(
        _ settings: ImageCacheSettings, disk: ImageDiskCache, origin: any ImageOriginClient, clock: ImageClock,
        logger: Logger
    ) -> ImageCache {
        let log = ImageCacheLog(logger)
        let (signal, wakeUps) = Signal.makeStream()
        let view = ImageCacheView(disk, fingerprint: Variant.fingerprint(of: origin.requestFields), signal: signal)
        // Runs until it calls the disk, so that the index is opened before any other work on it.
        let opening = Task.immediate { () -> ImageError? in
            do throws(ImageError) { try await disk.open(clock: clock, log: log) } catch { return error }
            return nil
        }
        let cache = ImageCache(
            settings, view: view, disk: disk, opening: opening, origin: origin, clock: clock, log: log)
        Task { [weak cache] in for await _ in wakeUps { await cache?.handleEvents() } }
        return cache
    }

    // MARK: Methods for any thread

    /// Waits until the index has been read.
    ///
    /// - Throws: the error if it cannot be read
    package nonisolated func opened() async throws(ImageError) {
        if view.isOpen { return }
        if let error = await opening.value { throw error }
    }

    /// Opens a blob to which the caller has a reference. Hashes the file, unless this process has verified it before.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if the file is missing or damaged: release the reference, and call
    ///   ``image(_:reporting:)``, which downloads the image again. ``ImageError/Code/storageFailed``
    package nonisolated func openBlob(_ digest: BlobDigest) async throws(ImageError) -> BlobFile {
        try await disk.open(digest)
    }

    // MARK: Events

    /// Handles what other threads have counted in the ``view``: applies uses to the order of eviction, and removes the
    /// files whose last reference was released. Called when the signal of the view is raised.
    func handleEvents() async {
        let releases = catalog.takeReleases()
        if releases.mayMakeRoom { reclaimer.imagesBecameRemovable() }
        if releases.unreferenced.isEmpty { return }
        let removed = await disk.removeUnreferenced(releases.unreferenced)
        if let failure = removed.failure { log.warn("cannot remove the file of an image", failure) }
        if removed.count > 0, !reclaimer.queue.isEmpty { reclaimer.spaceFreed() }
    }

    /// Writes changes of the catalog to the disk in the background. Call it in the step that made the changes.
    func write(_ changes: [CatalogWriter.Change]) {
        // Each task runs until it calls the disk, before the next one starts.
        for change in changes { Task.immediate { await self.rows.write(change) } }
    }

    // MARK: Life cycle

    /// Applies new settings. Returns once images over the new limits have been evicted, except for leased and pinned
    /// images. The directory cannot be changed; open a new cache instead.
    package func update(_ settings: ImageCacheSettings) async {
        catalog.update(settings)
        view.settingsChanged()
        downloads.update(settings)
        origin.update(allowedNetworks: settings.allowedNetworks)
        startDownloads()
        // Otherwise the first maintenance period applies the settings, once the index has been read.
        guard view.isOpen else { return }
        await maintenance.removeUnreachable()
        await enforceLimits()
        // The new limits may be higher, so a waiting transfer may fit now.
        reclaimer.spaceFreed()
    }

    /// Whether images are being downloaded or evicted, or transfers are waiting for space.
    package var isAtWork: Bool { !downloads.table.isEmpty || reclaimer.queue.isReclaiming || !reclaimer.queue.isEmpty }

    /// Returns as soon as the actor is free. A watchdog calls it to detect a blocked actor.
    package func probe() async {}

    /// Runs the background work of the cache until the task is cancelled. Returns earlier if the index cannot be read.
    package func run() async {
        await withTaskCancellationHandler {
            if let problem = await opening.value {
                if Task.isCancelled { return }
                log.logger.error(
                    "the image cache cannot be used; the agent runs without it until the next restart",
                    metadata: ["error": "\(problem)"])
                return
            }
            await withDiscardingTaskGroup { group in
                group.addTask { await self.verifyAll() }
                group.addTask { await self.maintain() }
            }
        } onCancel: {
            // Reading, restoring or copying a large index takes many seconds.
            accounts.isInterrupted = true
        }
        accounts.isInterrupted = false
    }

    /// Runs the maintenance until the task is cancelled.
    private func maintain() async {
        while !Task.isCancelled {
            await maintenance.beginPeriod()
            await enforceLimits()
            await maintenance.endPeriod()
            do { try await clock.sleep(for: ImageMaintenance.period) } catch { return }
        }
    }

    /// Evicts images over the limits. If that fails, the next maintenance period tries again.
    func enforceLimits() async {
        do throws(ImageError) {
            try await evictExcess()
        } catch {
            log.warn("the image cache exceeds its limits, and no image can be evicted", error)
        }
    }

    /// Ends all downloads, writes pending changes, and records an orderly stop. Call it last, after ``run()`` has
    /// returned. Later requests fail.
    package func stop() async {
        accounts.isInterrupted = true
        for task in downloads.stop() { await task.value }
        _ = await opening.value
        accounts.isInterrupted = false
        await handleEvents()
        await maintenance.stop()
    }

    // MARK: Requests

    /// Answers a request, from the network if necessary.
    ///
    /// Cancelling the task ends only this request. A download ends when its last waiting request is cancelled. A
    /// returned image includes a reference, even if the task was cancelled in the meantime.
    ///
    /// - Parameter report: called on any thread with the progress of each download that the request waits for; nil if
    ///   none is wanted
    package func image(
        _ request: ImageRequest, reporting report: ProgressReport? = nil
    ) async throws(ImageError) -> CachedImage {
        try await opened()
        let location = try view.keys.location(of: request)
        // Whether the `Vary` of an image matches the request fields of the agent, by blob. Contains only images whose
        // complete rows had to be read to decide this.
        var variants: [BlobDigest: Bool] = [:]
        var failure: ImageError?
        var wasMissing = false
        while true {
            try downloads.checkRunning()
            let now = clock.now
            let entry = catalog.usableEntry(location, request.expectedDigest, now: now)
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
            switch RequestAnswer(
                to: request, from: candidate, after: failure, recent: downloads.failure(of: request, at: location), now,
                uptime: clock.uptime)
            {
            case .cached(let isRevalidated):
                guard let entry else { throw ImageError.notCached }
                if let image = view.take(entry, now: now) {
                    if isRevalidated, downloads.revalidate(location, for: request) { startDownloads() }
                    if !request.takesReference { view.release(image.digest) }
                    return image
                }
                try await verify(entry.digest)
                await rows.loadDetails(entry)
            case .error(let error): throw error
            case .download(let isUnconditional):
                let result = await waitForDownload(
                    for: request, at: location, unconditionally: isUnconditional, reporting: report)
                switch result {
                case .image(let image):
                    guard request.takesReference else { return image }
                    if let image = view.withFile(image) { return image }
                    if wasMissing { throw Self.missing }
                    wasMissing = true
                case .failed(let error): failure = error
                case .retry: break
                }
            }
        }
    }

    /// Explains how a request would be answered, and why. Changes nothing, unless another program has removed the file of
    /// the image.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``, ``ImageError/Code/storageFailed``
    package func explain(_ request: ImageRequest) async throws(ImageError) -> ImageExplanation {
        try await opened()
        let location = try view.keys.location(of: request)
        var row = try await disk.row(location.key)
        if let digest = row?.digest, !view.hasFile(digest) {
            try await verify(digest)
            row = try await disk.row(location.key)
        }
        let now = clock.now
        return ImageExplanation(
            request, row: row, isUsable: catalog.usableEntry(location, request.expectedDigest, now: now) != nil,
            matchesVariant: row?.response.variant.matches(origin.requestFields) ?? true,
            failure: downloads.failure(of: request, at: location),
            downloads: downloads.table, key: location.key, clock: clock)
    }

    /// Stores an image from a client under its URL or cache key, as if the origin of the URL had sent it, and replaces
    /// the previous image. The image must pass the same checks and limits as a download.
    ///
    /// - Parameters:
    ///   - request: the URL, the cache key and the expected digest
    ///   - content: the bytes of the image
    ///   - lifetime: the number of seconds for which the image is fresh
    /// - Throws: ``ImageError/Code/invalidURL``; the errors of ``BlobWriter``; ``ImageError/Code/cacheFull``;
    ///   ``ImageError/Code/unusableFile`` and ``ImageError/Code/fileChanged`` for a file
    package func put(
        _ request: ImageRequest, _ content: PutContent, lifetime: Int
    ) async throws(ImageError) -> CachedImage {
        try await opened()
        let location = try view.keys.location(of: request)
        let id = downloads.makeTransferID()
        defer { reclaimer.transferEnded(id) }
        let space = SpaceRetry(id: id, space: self, blocking: disk.blocking)
        let blob = try await content.write(to: disk, space, expectedDigest: request.expectedDigest) {
            () throws(ImageError) in try downloads.checkRunning()
        }
        await disk.waitForRoom()
        do throws(ImageError) {
            try downloads.checkRunning()
        } catch {
            view.release(blob.digest)
            throw error
        }
        let now = clock.now
        let fields = ResponseFields([(name: "cache-control", value: "max-age=\(lifetime)")])
        let response = StoredResponse(
            status: 200, fields: fields, url: nil, request: origin.requestFields, requestTime: now,
            responseTime: now)
        let row = ImageRow(keyText: location.keyText, url: request.url, blob: blob, response: response, lastUse: now)
        let (isKept, changes) = rows.keep(row)
        write(changes)
        guard isKept else {
            view.release(blob.digest)
            throw ImageError(
                .cacheFull,
                "the cache has \(accounts.limits.count) images, the maximum, and none can be evicted; release or unpin some"
            )
        }
        downloads.succeeded(request.url, at: location)
        return CachedImage(
            row.entry, ImageDetails(header: row.header, response: response), source: .miss, now: now, freshness: .fresh)
    }

    // MARK: Verification

    /// Verifies the file of a blob. If it is damaged or missing, removes the blob's rows. Concurrent calls for a blob share
    /// one check.
    ///
    /// - Throws: ``ImageError`` if the file cannot be read or the rows cannot be removed
    func verify(_ digest: BlobDigest) async throws(ImageError) {
        let check = checks[digest] ?? Task { await self.check(digest) }
        checks[digest] = check
        let error = await check.value
        if checks[digest] == check { checks[digest] = nil }
        if let error { throw error }
    }

    private func check(_ digest: BlobDigest) async -> ImageError? {
        var isUsable = false
        if accounts.retain(digest) {
            defer { view.release(digest) }
            do throws(ImageError) {
                _ = try await disk.open(digest)
                isUsable = true
            } catch {
                guard error.code == .damagedBlob else { return error }
                log.logger.warning("an image on disk is damaged", metadata: ["error": "\(error)"])
                // If the image was downloaded again during the check, its new file counts as verified, and the rows
                // stay.
                isUsable = accounts.isVerified(digest)
            }
        }
        if isUsable { return nil }
        do throws(ImageError) { try await rows.removeAll(of: digest) } catch { return error }
        return nil
    }

    /// After a stop that was not orderly, verifies every file that this process has not verified yet.
    private func verifyAll() async {
        guard disk.isUnclean else { return }
        var slot: UInt32? = 0
        while let next = slot, !Task.isCancelled {
            let slice = catalog.digests(from: next)
            slot = slice.next
            for digest in slice.digests where !accounts.isVerified(digest) {
                if Task.isCancelled { return }
                do throws(ImageError) {
                    try await verify(digest)
                } catch {
                    // A damaged sector concerns one file. The other files are verified.
                    log.warn("cannot read an image on disk", error)
                }
            }
        }
    }

    // MARK: Cached images

    /// Removes an image, pinned or not. Its file stays on disk as long as it has references.
    ///
    /// - Returns: false if the image was not cached
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the
    ///   index cannot be written, in which case the image stays
    package func remove(_ request: ImageRequest) async throws(ImageError) -> Bool {
        try await opened()
        return try await rows.remove(view.keys.location(of: request).key)
    }

    /// Removes the images under a prefix, pinned or not. Their files stay on disk as long as they have references.
    ///
    /// - Parameter isTrial: whether to count the images without removing them
    /// - Returns: the number of images, and the total bytes of the files that no other image uses
    /// - Throws: ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the index cannot be written. Images
    ///   that have not been removed by then stay
    package func remove(_ prefix: ImagePrefix, isTrial: Bool) async throws(ImageError) -> (images: Int, bytes: Int) {
        try await opened()
        return try await rows.remove(prefix, isTrial: isTrial)
    }

    /// Removes all images, or all that are not pinned.
    ///
    /// - Parameter isSpared: returns whether to keep the images that were fetched with the credential of the given
    ///   origin
    /// - Returns: the number of removed images, and the total bytes of the files that no image uses any longer.
    ///   References may keep some of these files for a while
    /// - Throws: ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the index cannot be written. Images
    ///   that have not been removed by then stay
    package func clear(
        includingPinned: Bool = false, sparing isSpared: @escaping @Sendable (ImageOrigin) -> Bool = { _ in false }
    ) async throws(ImageError) -> (images: Int, bytes: Int) {
        try await opened()
        return try await rows.clear(includingPinned: includingPinned, sparing: isSpared)
    }

    /// Pins or unpins an image. If this method throws, the image is unchanged.
    ///
    /// - Returns: false if the image is not cached
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/cacheFull`` if too many bytes would be pinned;
    ///   ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the index cannot be written
    package func pin(_ request: ImageRequest, _ pinned: Bool) async throws(ImageError) -> Bool {
        try await opened()
        return try await rows.pin(view.keys.location(of: request).key, pinned)
    }

    /// Returns a page of cached images in the order of their keys. A page may have fewer than `limit` images.
    ///
    /// - Parameters:
    ///   - after: `next` of the previous page; nil for the first page
    ///   - limit: the maximum number of images, at least 1
    ///   - prefix: the images to include; nil for all
    /// - Returns: the images, and `next`, which is nil on the last page
    /// - Throws: ``ImageError/Code/invalidURL`` if `after` is not from a page; ``ImageError/Code/storageFailed``
    package func list(
        after: String?, limit: Int, prefix: ImagePrefix? = nil
    ) async throws(ImageError) -> (rows: [ImageRow], next: String?) {
        let key = after.flatMap { ImageKey(hex: $0) }
        guard after == nil || key != nil else {
            throw ImageError(.invalidURL, "\"after\" is not the \"next\" of an earlier page; start without it")
        }
        try await opened()
        return try await rows.list(after: key, limit: limit, prefix: prefix)
    }

    private static let missing = ImageError(
        .storageFailed,
        "another program removes the files of the cache as soon as they are written; stop it, then retry")
}
