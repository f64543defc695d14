import LarderEncoding
internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream

/// Downloads images over HTTP. It handles conditional requests, retries, resumption, and disk space.
///
/// Temporary failures are retried (``RetryPolicy``). A body that is rejected, because it is not an image or is too
/// large, is not requested again.
struct ImageDownloader: ImageOriginClient {
    let fetcher: ImageFetcher
    let disk: ImageDiskCache
    /// Provides the time of day, and waits between attempts.
    let clock: ImageClock

    var blocking: BlockingThreadPool { disk.blocking }

    var requestFields: [(name: String, value: String)] { fetcher.fields(adding: []) }

    func update(allowedNetworks: [AddressRange]) { fetcher.update(allowedNetworks: allowedNetworks) }

    func download(
        _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome {
        try await concurrently { () async throws(ImageError) in
            let partial = PartialDownload()
            do throws(ImageError) {
                return try await run(order, progress, partial, owner)
            } catch {
                await discard(partial, progress)
                // A cancelled download always throws `cancelled`, and not the caught error, which depends on the step
                // that was cancelled.
                throw Task.isCancelled ? Self.cancelled : error.with(lifetime: partial.lifetime)
            }
        }
    }

    private func run(
        _ order: DownloadOrder, _ progress: DownloadProgress, _ partial: PartialDownload, _ owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome {
        let end = ContinuousClock.now + fetcher.timeouts.whole
        let space = SpaceRetry(id: order.id, space: owner, blocking: blocking)
        var condition = order.cached
        var retries = RetryPolicy()
        while true {
            let attempt = DownloadAttempt(
                downloader: self, order: order, progress: progress, partial: partial, space: space,
                condition: condition, end: end)
            let step: DownloadAttempt.Step
            do throws(UpstreamError) {
                step = try await attempt.run()
            } catch {
                let wait = retries.wait(after: error, canResume: partial.part?.tag != nil)
                guard let wait, ContinuousClock.now + wait < end, !Task.isCancelled else { throw ImageError(error) }
                if partial.part?.tag == nil { await discard(partial, progress) }
                await owner.attemptFailed(order.id, ImageError(error))
                do { try await clock.sleep(for: wait) } catch { throw Self.cancelled }
                continue
            }
            switch step {
            case .notModified(let response): return .notModified(response)
            case .complete: return try await publish(partial, order.expectedDigest)
            case .rejected(let error): throw error
            case .restart(let error):
                guard retries.mayRestart() else { throw ImageError(error) }
                await discard(partial, progress)
                condition = nil
            }
        }
    }

    private func discard(_ partial: PartialDownload, _ progress: DownloadProgress) async {
        await partial.replace(with: nil, blocking)
        progress.discard()
    }

    private func publish(
        _ partial: PartialDownload, _ expectedDigest: BlobDigest?
    ) async throws(ImageError) -> DownloadOutcome {
        guard let part = partial.part else { throw Self.cancelled }
        if let total = part.total, total != part.writer.written {
            throw ImageError(
                .lengthMismatch, "the body has \(part.writer.written) of the declared \(total) bytes")
        }
        guard !Task.isCancelled else { throw Self.cancelled }
        let blob = try await disk.publish(part.writer, expectedDigest: expectedDigest)
        return .published(blob, part.response, url: part.url)
    }

    private static var cancelled: ImageError { ImageError(.cancelled, "the download was cancelled") }
}

/// Downloads images from their origins into the cache. ``ImageDownloader`` is the implementation; tests have others.
protocol ImageOriginClient: Sendable {
    /// The fields that every request has. The `Vary` of a response may name them.
    var requestFields: [(name: String, value: String)] { get }

    /// Changes the permitted private address ranges, with effect from the next request.
    func update(allowedNetworks: [AddressRange])

    /// Downloads an image. Cancelling the task ends the download.
    ///
    /// - Parameters:
    ///   - order: the request
    ///   - progress: updated as bytes arrive
    ///   - owner: frees disk space, and is notified of failed attempts. The client keeps no reference to it after the
    ///     download
    /// - Throws: ``ImageError``. Nothing is then left on disk
    func download(
        _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome
}

/// The parameters of a download.
struct DownloadOrder: Sendable {
    let id: TransferID
    /// An absolute `http` or `https` URL.
    let url: String
    /// The credential fields for the origin. They are not sent to other origins.
    let headers: [(name: String, value: String)]
    /// The trusted authorities and the client certificate for the origin. Nil for the authorities of the system.
    var tls: TLSOptions?
    /// The proxies for the origin and the targets of redirects. Nil for none.
    var proxy: ProxyOptions?
    /// The cached response for a conditional request. Nil to download the image unconditionally.
    let cached: StoredResponse?
    /// The required SHA-256 of the bytes, if any.
    let expectedDigest: BlobDigest?
    /// The limits whose minimum rates apply. Nil to apply the rates of the HTTP client.
    let limits: DownloadLimits?
}

/// The result of a download.
enum DownloadOutcome: Sendable {
    /// The cached image is current. The response includes the updated fields.
    case notModified(StoredResponse)
    /// A new image, to which the caller has a reference, and its URL after redirects.
    case published(PublishedBlob, StoredResponse, url: String)
}

/// Decides whether and when to retry a download after a temporary failure. A download has at most three attempts.
///
/// Broken connections and statuses such as 503 are temporary. A timeout is temporary only if the body can be resumed,
/// because a complete attempt would take as long again. Failed connection attempts are not retried, so that waiting
/// requests soon get a stale cached image.
struct RetryPolicy: Sendable {
    private static let maxAttempts = 3
    /// A longer `Retry-After` ends the download, and the ``NegativeCache`` applies it to later requests.
    private static let maxRetryAfter = Duration.seconds(10)

    private var attempts = 1
    private var backoff = Backoff(
        floor: .milliseconds(250), base: .seconds(1), cap: .seconds(4), retryAfterCap: maxRetryAfter)

    /// Returns the delay before the next attempt; nil if the download must not be retried.
    ///
    /// - Parameters:
    ///   - error: the error of the last attempt
    ///   - canResume: whether part of the body has been received and can be resumed
    mutating func wait(after error: UpstreamError, canResume: Bool) -> Duration? {
        guard attempts < Self.maxAttempts, Self.isTemporary(error, canResume),
            (error.retryAfter ?? .zero) <= Self.maxRetryAfter
        else { return nil }
        attempts += 1
        var generator = SystemRandomNumberGenerator()
        return backoff.next(retryAfter: error.retryAfter, using: &generator)
    }

    /// Whether another attempt may follow at once, after a response that does not match the cached image or the partial
    /// download.
    mutating func mayRestart() -> Bool {
        attempts += 1
        return attempts <= Self.maxAttempts
    }

    private static func isTemporary(_ error: UpstreamError, _ canResume: Bool) -> Bool {
        switch error.code {
        case .connectionClosed, .truncated, .other: true
        case .status: error.isRetryable
        case .timeout: canResume
        default: false
        }
    }
}
