internal import LarderPlatform
internal import Logging

/// The log of the image cache.
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
