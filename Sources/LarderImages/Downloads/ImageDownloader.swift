internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream

/// One image from the request to the published blob: conditions, attempts, resumption, space.
///
/// What may pass by itself is tried again (``RetryPolicy``). What was fetched and refused, because it is no image or too large,
/// is final at once.
struct ImageDownloader: Sendable {
    /// How it ended well.
    enum Outcome: Sendable {
        /// What is held is current; its record has what the origin said just now.
        case notModified(StoredResponse)
        /// A new image, to which the caller holds a reference; where it came from after redirects.
        case published(PublishedBlob, StoredResponse, url: String)
    }

    /// How one attempt ended that did not fail.
    enum Step: Sendable {
        case notModified(StoredResponse)
        /// All of it is on disk.
        case complete
        /// What came is nothing to keep, or there is no place for it.
        case refused(ImageError)
        /// What the origin said does not fit what we have: from the start, without a condition.
        case restart(UpstreamError)
    }

    let url: String
    let headers: [(name: String, value: String)]
    let held: StoredResponse?
    let expectedDigest: BlobDigest?
    let fetcher: ImageFetcher
    let store: BlobStore
    let blocking: BlockingWork
    let clock: ImageClock
    let room: RoomMaker
    let received: @Sendable (Int) -> Void
    let failed: @Sendable (ImageError) async -> Void
    let isAwaited: @Sendable () -> Bool
    let limits: DownloadLimits?

    /// Prepares a download.
    ///
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL
    ///   - headers: the origin's credentials; nobody else gets them
    ///   - held: what is known of the image that is held, to ask whether it is current; nothing to fetch it in any case
    ///   - expectedDigest: what the bytes must be
    ///   - fetcher: the way to the network, with its limits in time
    ///   - store: where the image goes
    ///   - blocking: where the disk is waited for
    ///   - clock: the time of day, and waits between attempts
    ///   - room: makes room for the image
    ///   - received: called with the bytes of each piece of the body
    ///   - failed: called with the error of an attempt that is followed by another one
    ///   - isAwaited: whether downloads of other users wait for the end of this one, which has to be faster then
    ///   - limits: the slowest transfers that are allowed; nil for those of the fetcher
    init(
        url: String, headers: [(name: String, value: String)], held: StoredResponse?, expectedDigest: BlobDigest?,
        fetcher: ImageFetcher, store: BlobStore, blocking: BlockingWork, clock: ImageClock,
        room: RoomMaker, received: @escaping @Sendable (Int) -> Void,
        failed: @escaping @Sendable (ImageError) async -> Void = { _ in },
        isAwaited: @escaping @Sendable () -> Bool = { false }, limits: DownloadLimits? = nil
    ) {
        self.url = url
        self.headers = headers
        self.held = held
        self.expectedDigest = expectedDigest
        self.fetcher = fetcher
        self.store = store
        self.blocking = blocking
        self.clock = clock
        self.room = room
        self.received = received
        self.failed = failed
        self.isAwaited = isAwaited
        self.limits = limits
    }

    /// Runs it. Cancelling the task closes the connection.
    ///
    /// - Throws: ``ImageError``; nothing is left on disk then
    func run() async throws(ImageError) -> Outcome {
        let partial = PartialDownload()
        do throws(ImageError) {
            return try await run(partial)
        } catch {
            await partial.replace(with: nil, blocking)
            // What a cancelled download died of depends on where it was.
            throw Task.isCancelled ? Self.cancelled : error.with(lifetime: partial.lifetime)
        }
    }

    private func run(_ partial: PartialDownload) async throws(ImageError) -> Outcome {
        let end = ContinuousClock.now + fetcher.configuration.timeouts.whole
        var condition = held
        var retries = RetryPolicy()
        while true {
            let step: Step
            do throws(UpstreamError) {
                step = try await attempt(partial, condition: condition, until: end)
            } catch {
                let wait = retries.wait(after: error, canResume: partial.part?.tag != nil)
                guard let wait, ContinuousClock.now + wait < end, !Task.isCancelled else { throw ImageError(error) }
                if partial.part?.tag == nil { await partial.replace(with: nil, blocking) }
                await failed(ImageError(error))
                do { try await clock.sleep(for: wait) } catch { throw Self.cancelled }
                continue
            }
            switch step {
            case .notModified(let response): return .notModified(response)
            case .complete: return try await publish(partial)
            case .refused(let error): throw error
            case .restart(let error):
                guard retries.mayRestart() else { throw ImageError(error) }
                await partial.replace(with: nil, blocking)
                condition = nil
            }
        }
    }

    private func publish(_ partial: PartialDownload) async throws(ImageError) -> Outcome {
        guard let part = partial.part else { throw Self.cancelled }
        if let total = part.total, total != part.writer.written {
            throw ImageError(
                .lengthDisagrees, "the body has \(part.writer.written) of the \(total) bytes that were declared")
        }
        guard !Task.isCancelled else { throw Self.cancelled }
        let blob = try await blocking.run { () throws(ImageError) in
            try part.writer.finish(expectedDigest: expectedDigest)
        }
        return .published(blob, part.response, url: part.url)
    }

    static var cancelled: ImageError { ImageError(.cancelled, "the download was cancelled") }
}
