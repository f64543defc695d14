internal import LarderHTTPSemantics
package import LarderPlatform
package import LarderUpstream
package import Logging

extension ImageCache {
    /// Locks the directory of the cache, and reads the index in the background. Until the index has been read,
    /// ``hit(_:now:)`` and ``peek(_:now:)`` find no image, and all other requests wait. If it cannot be read, they throw
    /// ``problem``. ``run()`` does all other work.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``,
    ///   ``ImageError/Code/cacheFull``; not for a damaged or unreadable index
    package static func start(
        _ settings: ImageCacheSettings, fetcher: ImageFetcher, blocking: BlockingWork, clock: ImageClock = .system,
        logger: Logger
    ) async throws(ImageError) -> ImageCache {
        let blobs = try await blocking.run { () throws(ImageError) -> BlobStore in
            try IndexFormat.refuseNewer(in: settings.directory)
            return try BlobStore(path: settings.directory, limits: settings.space, imageLimits: settings.images)
        }
        let downloader = ImageDownloader(fetcher: fetcher, blobs: blobs, blocking: blocking, clock: clock)
        downloader.update(allowedNetworks: settings.allowedNetworks)
        return start(settings, blobs: blobs, origin: downloader, blocking: blocking, clock: clock, logger: logger)
    }

    /// Reads the index of a given store in the background, and downloads images with a given client.
    static func start(
        _ settings: ImageCacheSettings, blobs: BlobStore, origin: any ImageOriginClient, blocking: BlockingWork,
        clock: ImageClock, logger: Logger
    ) -> ImageCache {
        let log = ImageCacheLog(logger)
        let catalog = ImageCatalog(
            store: blobs, settings: settings, fingerprint: Variant.fingerprint(of: origin.requestFields))
        let disk = ImageDiskCache(blobs: blobs, blocking: blocking)
        let opened = disk.open { () throws(ImageError) in
            let opened = try ImageIndex.open(in: blobs, now: clock.now)
            log.indexOpened(opened.condition)
            catalog.adopt(opened.table)
            return opened.index
        }
        let opening = Task { () -> ImageError? in
            do throws(ImageError) { try await opened.value() } catch { return error }
            return nil
        }
        return ImageCache(
            settings, catalog: catalog, disk: disk, opening: opening, origin: origin, clock: clock, log: log)
    }

    /// Whether the index has been read, so that ``hit(_:now:)`` and ``peek(_:now:)`` find all images.
    package nonisolated var isOpen: Bool { disk.openIndex != nil }

    /// Why the index cannot be read; nil if it was read or is being read.
    package nonisolated var problem: ImageError? {
        disk.openingFailure.flatMap { blobs.isInterrupted ? nil : $0 }
    }

    /// Why the last change of the index could not be written; nil if it was written. Such a change is undone, so that an
    /// image may be fetched again.
    package nonisolated var writeProblem: ImageError? { disk.writeProblem }

    /// Waits until the index has been read.
    ///
    /// - Throws: the error if it cannot be read
    package nonisolated func opened() async throws(ImageError) {
        if isOpen { return }
        if let error = await opening.value { throw error }
    }
}

struct ImageCacheLog: Sendable {
    let logger: Logger
    private let warnings: RateLimitedLog<ImageError.Code, (message: Logger.Message, error: ImageError)>

    init(_ logger: Logger) {
        self.logger = logger
        warnings = RateLimitedLog(every: .seconds(60)) { _, entry, count in
            logger.warning(entry.message, metadata: ["error": "\(entry.error)", "before": "\(count - 1)"])
        }
    }

    /// Logs an error of the index or a file as a warning, at most once a minute for each error code, because a disk
    /// error affects every row. Further errors are logged at debug level.
    func warn(_ message: Logger.Message, _ error: ImageError) {
        if warnings.add(error.code, { $0 = (message, error) }) { return }
        logger.debug(message, metadata: ["error": "\(error)"])
    }

    /// Warns if the index was damaged or missing.
    func indexOpened(_ condition: ImageIndex.Condition) {
        guard case .restored(let reason, let rows, let pins) = condition else { return }
        logger.warning(
            rows > 0
                ? "the index of the image cache was damaged or missing and has been restored from its copy"
                : "the index of the image cache was damaged and has no usable copy; the cache starts empty",
            metadata: ["reason": "\(reason)", "images": "\(rows)", "pins": "\(pins)"])
    }
}
