internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Logging

/// The image cache of this machine. It has one verified copy of each image, which all clients share.
///
/// ``hit(_:now:)`` reads the ``ImageCatalog``, whose critical sections are short, and answers requests that need
/// neither the network nor the disk. ``image(_:)`` answers all other requests.
///
/// The state of the actor is in classes that are not `Sendable`, so that their methods are isolated to it. Because an
/// actor is re-entrant at each `await`, each change of a cached image is one step without suspension: it changes the
/// catalog and the references, and submits the same change to the disk (``ImageRows``).
package actor ImageCache {
    nonisolated let catalog: ImageCatalog
    nonisolated let disk: ImageDiskCache
    nonisolated let blobs: BlobStore
    private nonisolated let log: ImageCacheLog
    private nonisolated let spaceDemand = SpaceDemand()
    /// Ends when the index has been read, with the error if it cannot be read.
    nonisolated let opening: Task<ImageError?, Never>
    private let origin: any ImageOriginClient
    private let clock: ImageClock
    let rows: ImageRows
    let reclaimer: SpaceReclaimer
    let verifier: BlobVerifier
    let downloads: ImageDownloads
    let maintenance: ImageMaintenance

    init(
        _ settings: ImageCacheSettings, catalog: ImageCatalog, disk: ImageDiskCache,
        opening: Task<ImageError?, Never>, origin: any ImageOriginClient, clock: ImageClock, log: ImageCacheLog
    ) {
        self.opening = opening
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

    // MARK: Methods for any thread

    /// Answers a request from the cache, if the caching rules permit it without the network. Blocks on the disk only for
    /// one fstatat(2).
    /// - Returns: the image with a reference to its blob; nil if ``image(_:)`` has to answer
    package nonisolated func hit(_ request: ImageRequest, now: Int) -> CachedImage? {
        withFile(catalog.hit(request, now: now))
    }

    /// Returns an image whose file exists. If another program has removed the file, releases the reference to the blob.
    private nonisolated func withFile(_ image: CachedImage?) -> CachedImage? {
        guard let image else { return nil }
        if blobs.blobs.hasFile(image.digest) { return image }
        release(image.digest)
        return nil
    }

    /// Computes the key of a request.
    /// - Returns: nil if the URL is invalid
    package nonisolated func prepare(_ request: ImageRequest) -> PreparedImageRequest? {
        (try? catalog.keys.resolve(request)).map { PreparedImageRequest(request: request, key: $0.key) }
    }

    /// Answers a prepared request like ``hit(_:now:)``.
    package nonisolated func hit(_ prepared: PreparedImageRequest, now: Int) -> CachedImage? {
        withFile(catalog.hit(prepared.request, prepared.key, now: now))
    }

    /// Returns the cached image of a request, fresh or stale; nil if there is none. Adds no reference and does not
    /// count as a use.
    package nonisolated func peek(_ request: ImageRequest, now: Int) -> CachedImage? {
        guard let location = try? catalog.keys.resolve(request),
            let entry = catalog.usableEntry(location, request.expectedDigest, now: now),
            entry.matches(catalog.fingerprint) != false
        else { return nil }
        return CachedImage(entry, catalog.details(of: entry) ?? .unknown, source: .hit, now: now)
    }

    /// Releases a reference. If it was the last one, the file is removed in the background.
    package nonisolated func release(_ digest: BlobDigest) {
        guard blobs.release(digest) else {
            // If this was the last lease of the image, the image may now be evicted to make room for a waiting
            // transfer.
            if spaceDemand.exists { Task { await noteRemovable() } }
            return
        }
        disk.removeUnreferenced(digest) { [log] result in
            switch result {
            case .success(let isRemoved):
                if isRemoved, self.spaceDemand.exists { Task { await self.noteFreedSpace() } }
            case .failure(let error):
                log.logger.warning("cannot remove the file of an image", metadata: ["error": "\(error)"])
            }
        }
    }

    private func noteRemovable() { reclaimer.imagesBecameRemovable() }
    private func noteFreedSpace() { reclaimer.spaceFreed() }

    /// The path of a blob's file, for clients.
    package nonisolated func path(of digest: BlobDigest) -> String { blobs.path(of: digest) }

    /// Opens a blob to which the caller has a reference. If this process has verified the file before, blocks only on
    /// open(2); otherwise hashes the whole file.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if the file is missing or damaged: release the reference, and call
    ///   ``image(_:)``, which downloads the image again. ``ImageError/Code/storageFailed``
    package nonisolated func openBlob(_ digest: BlobDigest) throws(ImageError) -> BlobFile {
        try blobs.open(digest)
    }

    /// The settings of a URL's origin, if any.
    package nonisolated func origin(of url: String) -> ImageOrigin? { catalog.keys.origin(of: url) }

    /// Increases with every change of the settings, which invalidates each earlier ``PreparedImageRequest``.
    package nonisolated var settingsVersion: Int { catalog.settingsVersion }

    package nonisolated var statistics: ImageStatistics { ImageStatistics(catalog, disk) }

    // MARK: Life cycle

    /// Applies new settings. Returns once images over the new limits have been evicted, except for leased and pinned
    /// images. The directory cannot be changed; open a new cache instead.
    package func update(_ settings: ImageCacheSettings) async {
        blobs.update(limits: settings.space, imageLimits: settings.images)
        catalog.update(settings)
        downloads.update(settings, on: self)
        // Otherwise the first maintenance period applies the settings, once the index has been read.
        guard isOpen else { return }
        await maintenance.removeUnreachable()
        await maintenance.enforceLimits(on: self)
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
            blobs.isInterrupted = true
        }
        blobs.isInterrupted = false
    }

    private func verifyAll() async { await maintenance.verifyAll(on: self) }

    private func maintain() async { await maintenance.run(on: self) }

    /// Ends all downloads, writes pending changes, and records an orderly stop. Call it last, after ``run()`` has
    /// returned. Later requests fail.
    package func stop() async {
        blobs.isInterrupted = true
        await downloads.stop()
        _ = await opening.value
        blobs.isInterrupted = false
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
        let location = try catalog.keys.location(of: request)
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
                guard let entry else { throw Self.notCached }
                if let image = withFile(catalog.take(entry, now: now)) {
                    if isRevalidated { downloads.revalidate(location, for: request, on: self) }
                    if !request.takesReference { release(image.digest) }
                    return image
                }
                try await verifier.verify(entry.digest, on: self)
                await rows.loadDetails(entry)
            case .error(let error): throw error
            case .download(let isUnconditional):
                let result = await downloads.wait(
                    for: request, at: location, unconditionally: isUnconditional, reporting: report, on: self)
                switch result {
                case .image(let image):
                    guard request.takesReference else { return image }
                    if let image = withFile(image) { return image }
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
        let location = try catalog.keys.location(of: request)
        var row = try await disk.row(location.key)
        if let digest = row?.digest, !blobs.blobs.hasFile(digest) {
            try await verifier.verify(digest, on: self)
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
        let location = try catalog.keys.location(of: request)
        let id = downloads.makeTransferID()
        defer { reclaimer.transferEnded(id) }
        let space = SpaceRetry(id: id, space: self, blocking: disk.blocking)
        let blob = try await content.write(to: blobs, space, expectedDigest: request.expectedDigest) {
            () throws(ImageError) in try downloads.checkRunning()
        }
        await disk.indexQueue.waitForRoom()
        do throws(ImageError) {
            try downloads.checkRunning()
        } catch {
            release(blob.digest)
            throw error
        }
        let now = clock.now
        let fields = ResponseFields([(name: "cache-control", value: "max-age=\(lifetime)")])
        let response = StoredResponse(
            status: 200, fields: fields, url: nil, request: origin.requestFields, requestTime: now,
            responseTime: now)
        let row = ImageRow(keyText: location.keyText, url: request.url, blob: blob, response: response, lastUse: now)
        guard rows.keep(row, on: self) else {
            release(blob.digest)
            throw ImageError(
                .cacheFull,
                "the cache has \(blobs.limits.count) images, the maximum, and none can be evicted; release or unpin some"
            )
        }
        downloads.succeeded(request.url, at: location)
        return CachedImage(
            row.entry, ImageDetails(header: row.header, response: response), source: .miss, now: now, freshness: .fresh)
    }

    // MARK: Cached images

    /// Removes an image, pinned or not. Its file stays on disk as long as it has references.
    ///
    /// - Returns: false if the image was not cached
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the
    ///   index cannot be written, in which case the image stays
    package func remove(_ request: ImageRequest) async throws(ImageError) -> Bool {
        try await opened()
        return try await rows.remove(catalog.keys.location(of: request).key)
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
        return try await rows.pin(catalog.keys.location(of: request).key, pinned)
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

    static let notCached = ImageError(
        .notCached, "the image is not cached, and the policy of the request forbids the network; use another policy")
    static let missing = ImageError(
        .storageFailed,
        "another program removes the files of the cache as soon as they are written; stop it, then retry")
    static let cancelled = ImageError(.cancelled, "the request was cancelled")
    static let shuttingDown = ImageError(.shuttingDown, "the agent is shutting down; retry after it has restarted")
}
