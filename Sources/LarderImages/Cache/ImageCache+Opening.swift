internal import LarderHTTPSemantics
package import LarderPlatform
package import LarderUpstream
package import Logging

extension ImageCache {
    /// Locks the directory of the cache, and reads the index in the background. Until the index has been read, the
    /// ``view`` finds no image, and all other requests wait. If it cannot be read, they throw ``ImageCacheView/problem``.
    /// ``run()`` does all other work.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``,
    ///   ``ImageError/Code/cacheFull``; not for a damaged or unreadable index
    package static func start(
        _ settings: ImageCacheSettings, fetcher: ImageFetcher, blocking: BlockingThreadPool,
        clock: ImageClock = .system,
        logger: Logger
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
