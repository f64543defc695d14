internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream

/// Downloads images over HTTP. It handles conditional requests, retries, resumption, and disk space.
///
/// Temporary failures are retried (``RetryPolicy``). A body that is rejected, because it is not an image or is too
/// large, is not requested again.
struct ImageDownloader: ImageOriginClient {
    let fetcher: ImageFetcher
    let blobs: BlobStore
    let blocking: BlockingWork
    /// Provides the time of day, and waits between attempts.
    let clock: ImageClock

    var requestFields: [(name: String, value: String)] { fetcher.fields(adding: []) }

    func update(allowedNetworks: [AddressRange]) { fetcher.update(allowedNetworks: allowedNetworks) }

    @concurrent
    func download(
        _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome {
        let partial = PartialDownload()
        do throws(ImageError) {
            return try await run(order, progress, partial, owner)
        } catch {
            await discard(partial, progress)
            // A cancelled download always throws `cancelled`, and not the caught error, which depends on the step that
            // was cancelled.
            throw Task.isCancelled ? Self.cancelled : error.with(lifetime: partial.lifetime)
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
            case .refused(let error): throw error
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
                .lengthDisagrees, "the body has \(part.writer.written) of the declared \(total) bytes")
        }
        guard !Task.isCancelled else { throw Self.cancelled }
        let blob = try await blocking.run { () throws(ImageError) in
            try part.writer.finish(expectedDigest: expectedDigest)
        }
        return .published(blob, part.response, url: part.url)
    }

    private static var cancelled: ImageError { ImageError(.cancelled, "the download was cancelled") }
}
