internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Logging

/// The downloads of an ``ImageCache``, the requests that wait for them, and recent failures. The actor runs the downloads;
/// see ``ImageCache/startDownloads()``.
struct ImageDownloads {
    typealias Table = DownloadTable<CheckedContinuation<DownloadWaitResult, Never>, Task<Void, Never>>

    private let catalog: ImageCatalog
    private let accounts: BlobAccounts
    private let clock: ImageClock
    private let log: ImageCacheLog
    fileprivate(set) var table: Table
    private(set) var failures: NegativeCache
    /// The proxy for all origins that have no own one; nil for none.
    private(set) var proxy: ProxySettings?
    fileprivate(set) var isStopping = false

    init(
        _ settings: ImageCacheSettings, catalog: ImageCatalog, accounts: BlobAccounts, received: ByteCounter,
        clock: ImageClock, log: ImageCacheLog
    ) {
        (self.catalog, self.accounts, self.clock, self.log) = (catalog, accounts, clock, log)
        table = Table(limits: settings.downloadLimits, received: received)
        failures = NegativeCache(lifetimes: settings.failures)
        proxy = settings.proxy
    }

    /// Applies new settings. Clears recorded failures, because the previous settings may have caused them.
    mutating func update(_ settings: ImageCacheSettings) {
        table.limits = settings.downloadLimits
        failures.lifetimes = settings.failures
        proxy = settings.proxy
        failures.forgetAll()
    }

    /// Cancels all downloads and prevents new ones.
    ///
    /// - Returns: the tasks of the downloads
    mutating func stop() -> [Task<Void, Never>] {
        isStopping = true
        let ended = table.removeAll()
        for waiter in ended.waiters { waiter.resume(returning: .failed(ImageError.shuttingDown)) }
        for task in ended.running { task.cancel() }
        return ended.running
    }

    /// Throws if the cache is stopping or the task is cancelled.
    func checkRunning() throws(ImageError) {
        if isStopping { throw ImageError.shuttingDown }
        if Task.isCancelled { throw ImageError.cancelled }
    }

    /// Returns an ID for a put (a client stores an image), which competes with downloads for space.
    mutating func makeTransferID() -> TransferID { table.makeTransferID() }

    /// A recent failure that a request would repeat, if any.
    func failure(of request: ImageRequest, at location: CacheLocation) -> NegativeCache.Failure? {
        failures.failure(
            of: location.exactKey(of: request.url), expectedDigest: request.expectedDigest,
            origin: location.address.origin, url: location.address.display, now: clock.uptime)
    }

    private mutating func remember(
        _ error: ImageError, expectedDigest: BlobDigest?, of download: InFlightDownload
    ) {
        failures.remember(
            error, image: download.location.exactKey(of: download.url), expectedDigest: expectedDigest,
            origin: download.location.address.origin, isReachable: table.isReachable(download), now: clock.uptime)
    }

    /// Clears the recorded failure of a URL, because the origin has responded to a download of the URL or a client has
    /// stored its image.
    mutating func succeeded(_ url: String, at location: CacheLocation) {
        failures.succeeded(location.exactKey(of: url))
    }

    // MARK: Waiting

    /// Adds a request to an existing or new download that serves it.
    ///
    /// - Returns: whether the request began a new download
    mutating func join(
        _ waiter: WaiterID, _ request: ImageRequest, _ location: CacheLocation, _ unconditionally: Bool,
        _ continuation: CheckedContinuation<DownloadWaitResult, Never>
    ) -> Bool {
        let known = table.download(serving: request, for: location.key, unconditionally: unconditionally)
        if let failure = known.flatMap({ table[$0]?.failure }), answersStale(after: failure, request, location) {
            continuation.resume(returning: .failed(failure))
            return false
        }
        let isNew = table.join(waiter, request, at: location, unconditionally: unconditionally, continuation)
        catalog.count { isNew ? ($0.misses += 1) : ($0.joined += 1) }
        return isNew
    }

    /// Removes a cancelled request.
    ///
    /// - Returns: whether other downloads may start
    mutating func leave(_ waiter: WaiterID) -> Bool {
        guard let removal = table.leave(waiter) else { return false }
        removal.continuation.resume(returning: .failed(ImageError.cancelled))
        removal.cancelled?.cancel()
        return removal.mayStartOthers
    }

    /// The downloads, queued and running, oldest first.
    var inProgress: [DownloadStatus] {
        let now = clock.uptime
        return table.ids.compactMap { table.status(of: $0, at: now) }
    }

    /// Cancels a download at the request of an administrator.
    ///
    /// - Returns: the number of requests that waited for it and now fail; nil if there is no such download
    mutating func cancel(_ id: TransferID) -> Int? {
        guard let cancelled = table.cancel(id) else { return nil }
        for waiter in cancelled.waiters { waiter.resume(returning: .failed(Self.cancelledByAdministrator)) }
        cancelled.running?.cancel()
        return cancelled.waiters.count
    }

    private static let cancelledByAdministrator = ImageError(
        .cancelled, "an administrator cancelled the download (image.cancel)")

    /// Handles the failure of an attempt that will be retried. Requests that can be answered with a stale image stop
    /// waiting. The download continues in the background.
    mutating func attemptFailed(_ id: TransferID, _ error: ImageError) {
        guard let location = table[id]?.location else { return }
        let leaving = table.noteFailure(error, of: id).filter { answersStale(after: error, $0.request, location) }
        for waiter in table.detach(leaving.map(\.id), from: id) { waiter.resume(returning: .failed(error)) }
    }

    /// Whether a stale image may answer a request after this error.
    private func answersStale(after error: ImageError, _ request: ImageRequest, _ location: CacheLocation) -> Bool {
        let now = clock.now
        guard let entry = catalog.usableEntry(location, request.expectedDigest, now: now),
            entry.matches(catalog.fingerprint) == true
        else { return false }
        return request.cache.answersStale(after: error, StoredCandidate(freshness: entry.freshness), now: now)
    }

    /// Begins the revalidation of a stale image that was served, unless a download is already in progress or has failed
    /// recently.
    ///
    /// - Returns: whether a download was begun
    mutating func revalidate(_ location: CacheLocation, for request: ImageRequest) -> Bool {
        !isStopping && failure(of: request, at: location) == nil
            && table.beginInBackground(location, url: request.url, user: request.user)
    }

    // MARK: Completion

    fileprivate mutating func originResponded(_ download: InFlightDownload) {
        table.originResponded(download.location.address.origin)
        failures.reached(download.location.address.origin)
        succeeded(download.url, at: download.location)
    }

    /// Whether an error shows that the origin responded.
    fileprivate static func isResponse(_ error: ImageError) -> Bool {
        switch error.code {
        case .offline, .cancelled, .forbiddenAddress, .invalidURL, .shuttingDown, .storageFailed, .cacheFull: false
        case .upstreamFailed: error.cause?.status != nil
        default: true
        }
    }

    fileprivate mutating func answer(_ removed: Table.Removed, with row: ImageRow, freshness: CachedImage.Freshness) {
        let now = clock.now
        for waiter in removed.waiters {
            waiter.continuation.resume(returning: result(for: waiter, of: removed.download, row, freshness, now))
        }
    }

    private mutating func result(
        for waiter: Table.Waiter, of download: InFlightDownload, _ row: ImageRow, _ freshness: CachedImage.Freshness,
        _ now: Int
    ) -> DownloadWaitResult {
        if let expected = waiter.request.expectedDigest, expected != row.digest {
            guard waiter.request.url.utf8.elementsEqual(download.url.utf8) else { return .retry }
            let error = ImageError(
                .digestMismatch, "the SHA-256 of the image is \(row.digest), not the expected digest",
                lifetime: ResponseFreshness.explicitLifetime(of: row.response))
            remember(error, expectedDigest: expected, of: download)
            return .failed(error)
        }
        guard !waiter.request.takesReference || accounts.retain(row.digest) else {
            return .failed(ImageError(.storageFailed, "the file of the image has been removed; retry"))
        }
        let source: CachedImage.Source = freshness == .revalidated ? .hit : .miss
        return .image(
            CachedImage(
                row.entry,
                catalog.details(of: row.entry) ?? ImageDetails(header: row.header, response: row.response),
                source: waiter.isFirst ? source : .joined, now: now, freshness: freshness))
    }

    fileprivate func fail(_ removed: Table.Removed, _ error: ImageError) {
        for waiter in removed.waiters {
            // A failure may be specific to one signed URL, so waiters with other URLs retry. Outages and a full disk
            // affect all waiters.
            let isShared =
                waiter.request.url == removed.download.url || error.cause?.originFailure != nil
                || error.code == .cacheFull || error.code == .storageFailed || error.code == .shuttingDown
            waiter.continuation.resume(returning: isShared ? .failed(error) : .retry)
        }
    }

    /// Records the failure of a download, and answers the requests that waited for it.
    fileprivate mutating func fail(_ removed: Table.Removed, recording error: ImageError) {
        let download = removed.download
        if Self.isResponse(error) { originResponded(download) }
        remember(error, expectedDigest: download.expectedDigest, of: download)
        catalog.count { $0.failures += 1 }
        log.logger.debug(
            "cannot download an image",
            metadata: ["url": "\(download.location.address.display)", "error": "\(error)"])
        fail(removed, error)
    }
}

// MARK: Running

extension ImageCache {
    /// Waits for an existing or new download that serves a request.
    ///
    /// - Parameter report: called with the progress of the download, first when the wait begins; nil if none is wanted
    func waitForDownload(
        for request: ImageRequest, at location: CacheLocation, unconditionally: Bool, reporting report: ProgressReport?
    ) async -> DownloadWaitResult {
        let waiter = downloads.table.makeWaiterID()
        var observed: DownloadProgress?
        defer { observed?.removeObserver(waiter) }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // If the task was cancelled before this point, its cancellation handler found no waiter to resume, so
                // the wait ends here.
                guard !Task.isCancelled else { return continuation.resume(returning: .failed(ImageError.cancelled)) }
                let isNew = downloads.join(waiter, request, location, unconditionally, continuation)
                startDownloads()
                guard let report, let progress = downloads.table.download(awaitedBy: waiter)?.progress else { return }
                observed = progress
                progress.observe(waiter) { size in
                    report(
                        RequestProgress(
                            receivedBytes: size.received, totalBytes: size.total, isShared: !isNew))
                }
            }
        } onCancel: {
            Task { await self.leave(waiter) }
        }
    }

    private func leave(_ waiter: WaiterID) { if downloads.leave(waiter) { startDownloads() } }

    /// Starts all downloads that may start. If a download of priority `high` then still waits, stops the slowest
    /// running download whose slot it can use. Call it after each change of the ``ImageDownloads``.
    func startDownloads() {
        let now = clock.uptime
        while let id = downloads.table.next(at: now) {
            downloads.table.started(id, Task { await self.runDownload(id) })
        }
        downloads.table.preempt(at: now)?.cancel()
        downloads.table.updateDemand()
        let counts = downloads.table.counts
        catalog.count { ($0.activeDownloads, $0.queued) = counts }
    }

    private func runDownload(_ id: TransferID) async {
        guard let download = downloads.table[id] else {
            _ = downloads.table.end(id, wasCancelled: false)
            return startDownloads()
        }
        // The origin may confirm the cached image, so this image must not be evicted to make room for the download.
        let kept = catalog.entry(download.location.key).flatMap { accounts.retain($0.digest) ? $0.digest : nil }
        let cached = download.isUnconditional ? nil : await rowToRevalidate(download)
        let result: Result<DownloadOutcome, ImageError>
        do throws(ImageError) {
            result = .success(try await fetch(id, download, cached))
            await disk.waitForRoom()
        } catch {
            result = .failure(error)
        }
        endDownload(id, cached, result)
        if let cached { view.release(cached.digest) }
        if let kept { view.release(kept) }
        reclaimer.transferEnded(id)
        startDownloads()
    }

    private func endDownload(_ id: TransferID, _ cached: ImageRow?, _ result: Result<DownloadOutcome, ImageError>) {
        let wasCancelled = if case .failure(let error) = result { error.code == .cancelled } else { false }
        switch downloads.table.end(id, wasCancelled: wasCancelled && !downloads.isStopping) {
        case .requeued: return
        case .removed(let removed): complete(removed, cached, result)
        case .abandoned: if case .success(.published(let blob, _, _)) = result { view.release(blob.digest) }
        }
        reclaimer.removeDownload(id)
    }

    /// Returns the row for a conditional request, with a reference to its verified blob. Nil if there is no usable row.
    private func rowToRevalidate(_ download: InFlightDownload) async -> ImageRow? {
        let key = download.location.key
        guard let entry = catalog.entry(key), accounts.retain(entry.digest) else { return nil }
        do throws(ImageError) {
            // Verify first: a 304 response is useless if the file is missing.
            try await verify(entry.digest)
            await rows.loadDetails(entry)
            let row = try await disk.row(key)
            if let row, row.digest == entry.digest, accounts.isVerified(entry.digest) { return row }
        } catch {
            // The image is then downloaded unconditionally.
            log.logger.debug("cannot read a row of the image index", metadata: ["error": "\(error)"])
        }
        view.release(entry.digest)
        return nil
    }

    private func fetch(
        _ id: TransferID, _ download: InFlightDownload, _ cached: ImageRow?
    ) async throws(ImageError) -> DownloadOutcome {
        var headers: [(name: String, value: String)] = []
        var (tls, proxy): (TLSOptions?, ProxyOptions?)
        let settings = download.location.origin
        let proxySettings = (settings?.proxy ?? .inherited).inheriting(downloads.proxy).settings
        if proxySettings != nil || settings.map({ $0.credential != nil || $0.tls != TLSFiles() }) ?? false {
            do throws(UpstreamError) {
                (headers, tls, proxy) = try await disk.blocking.run { () throws(UpstreamError) in
                    (try settings?.credential?.fields() ?? [], try settings?.tls.read(), try proxySettings?.read())
                }
            } catch {
                throw ImageError(.upstreamFailed, error.message)
            }
        }
        if Task.isCancelled { throw ImageError.cancelled }
        let order = DownloadOrder(
            id: id, url: download.url, headers: headers, tls: tls, proxy: proxy, cached: cached?.response,
            expectedDigest: download.expectedDigest, limits: downloads.table.limits)
        while true {
            do throws(ImageError) {
                return try await origin.download(order, download.progress, for: self)
            } catch {
                guard error.code == .cacheFull, await restart(id) else { throw error }
            }
        }
    }

    /// Applies the result of a download and answers its waiters, in one step.
    ///
    /// - Parameter cached: the row used for a conditional request, whose blob stays referenced until this method
    ///   returns; nil if the request was unconditional
    private func complete(
        _ removed: ImageDownloads.Table.Removed, _ cached: ImageRow?, _ result: Result<DownloadOutcome, ImageError>
    ) {
        let download = removed.download
        switch result {
        case .success(.published(let blob, let response, let url)):
            downloads.originResponded(download)
            catalog.count { $0.downloads += 1 }
            let row = ImageRow(
                keyText: download.location.keyText, url: url, blob: blob, response: withoutCredentials(response),
                lastUse: clock.now)
            let (isKept, changes) = rows.keep(row)
            write(changes)
            downloads.answer(removed, with: row, freshness: .fresh)
            // If the row was kept, the reference now belongs to the row.
            if !isKept { view.release(blob.digest) }
        case .success(.notModified(let response)):
            // Only a conditional request can have the result `notModified`, so `cached` is not nil.
            guard let cached else { return downloads.fail(removed, ImageError.notCached) }
            downloads.originResponded(download)
            catalog.count { $0.revalidations += 1 }
            var row = cached
            row.response = withoutCredentials(response)
            row.lastUse = clock.now
            // The row is updated unless it has been removed or replaced since the download began.
            if catalog.entry(row.key)?.digest == row.digest, let change = rows.update(row) { write([change]) }
            downloads.answer(removed, with: row, freshness: .revalidated)
        case .failure(let error): downloads.fail(removed, recording: error)
        }
    }

    /// The response to store. Its request fields do not include credentials, because the key already identifies the
    /// credential.
    private func withoutCredentials(_ response: StoredResponse) -> StoredResponse {
        response.answering(origin.requestFields)
    }

    /// The downloads in progress, queued and running, oldest first.
    package func downloadsInProgress() -> [DownloadStatus] { downloads.inProgress }

    /// Cancels a download. The requests that wait for it fail with ``ImageError/Code/cancelled``.
    ///
    /// - Parameter id: the ``DownloadStatus/id`` of the download
    /// - Returns: the number of these requests; nil if there is no such download
    package func cancelDownload(_ id: Int) -> Int? {
        defer { startDownloads() }
        return downloads.cancel(TransferID(number: id))
    }
}

/// How to answer a request.
enum RequestAnswer {
    /// With the cached image, which is revalidated in the background if `isRevalidated` is true.
    case cached(isRevalidated: Bool)
    case error(ImageError)
    /// After a download.
    case download(isUnconditional: Bool)

    /// - Parameters:
    ///   - candidate: the cached image, if any
    ///   - failure: the failure of the request's own download, if any
    ///   - recent: a recent failure that the request would repeat, if any
    ///   - now: seconds since 1970
    ///   - uptime: the uptime in seconds
    init(
        to request: ImageRequest, from candidate: StoredCandidate?, after failure: ImageError?,
        recent: NegativeCache.Failure?, _ now: Int, uptime: Int
    ) {
        let decision = request.cache.decide(candidate, now: now)
        switch decision {
        case .fresh: self = .cached(isRevalidated: false)
        case .stale(let isRevalidated): self = .cached(isRevalidated: isRevalidated)
        case .notCached: self = .error(ImageError.notCached)
        case .revalidate, .fetch:
            var failure = failure
            if failure == nil, request.cache.policy != .networkOnly, let recent {
                failure = ImageError(
                    recent.error.code, "\(recent.error.message) (not retried for another \(recent.until - uptime) s)",
                    cause: recent.error.cause)
            }
            guard let failure else {
                self = .download(isUnconditional: decision == .fetch)
                return
            }
            let isStale = candidate.map { request.cache.answersStale(after: failure, $0, now: now) } ?? false
            self = isStale ? .cached(isRevalidated: false) : .error(failure)
        }
    }
}
