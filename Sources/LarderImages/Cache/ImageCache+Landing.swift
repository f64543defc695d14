internal import LarderHTTPSemantics
internal import LarderUpstream
internal import Logging

/// What a flight's end changes. Each method is one step, without a suspension.
extension ImageCache {
    /// Applies what a flight came to, and answers those that wait for it.
    ///
    /// - Parameters:
    ///   - flight: as it is now, with those that wait
    ///   - held: the row that the request was conditional on; its blob is referred to until this returns
    func land(_ flight: InFlightDownload, _ held: ImageRow?, _ result: Result<ImageDownloader.Outcome, ImageError>) {
        let origin = flight.place.address.origin
        switch result {
        case .success(.published(let blob, let response, let url)):
            noteAnswer(flight)
            let row = ImageRow(
                keyText: flight.place.keyText, url: url, blob: blob, response: ours(response), lastUse: clock.now)
            let isKept = keep(row)
            finish(flight, with: row, freshness: .fresh)
            // A row that was put in has the reference now.
            if !isKept { release(blob.digest) }
        case .success(.notModified(let response)):
            // A request without a condition has no such answer: see ImageDownloader.
            guard let held else { return failAll(flight, Self.notHeld) }
            noteAnswer(flight)
            catalog.count { $0.revalidations += 1 }
            var row = held
            row.response = ours(response)
            row.lastUse = clock.now
            // Not if it was removed or replaced meanwhile.
            if catalog.entry(row.key)?.digest == row.digest { update(row) }
            finish(flight, with: row, freshness: .revalidated)
        case .failure(let error):
            if Self.isAnswer(error) { noteAnswer(flight) }
            let isReachable =
                flight.progress.received > 0 || answers[origin, default: 0] > flight.answersBefore
            failures.remember(
                error, image: flight.place.exactKey(of: flight.url), origin: origin, isReachable: isReachable,
                now: clock.now)
            catalog.count { $0.failures += 1 }
            logger.debug(
                "An image could not be fetched",
                metadata: ["url": "\(flight.place.address.display)", "error": "\(error)"])
            failAll(flight, error)
        }
    }

    private func noteAnswer(_ flight: InFlightDownload) {
        let origin = flight.place.address.origin
        answers[origin, default: 0] += 1
        failures.reached(origin)
        failures.succeeded(flight.place.exactKey(of: flight.url))
    }

    /// Whether an error shows that the origin answered.
    private static func isAnswer(_ error: ImageError) -> Bool {
        switch error.code {
        case .offline, .cancelled, .forbiddenAddress, .invalidURL, .shuttingDown, .storageFailed, .noRoom: false
        case .upstreamFailed: error.cause?.status != nil
        default: true
        }
    }

    /// What is remembered of an answer, without the credentials that were shown for it: answers are kept apart by these
    /// already.
    private func ours(_ response: StoredResponse) -> StoredResponse {
        StoredResponse(
            status: response.status, fields: response.fields, request: sent, requestTime: response.requestTime,
            responseTime: response.responseTime)
    }

    // MARK: Rows

    /// Puts a new row in, in the place of an older one, if its origin allows that and there is a place for it; otherwise
    /// the older one is out of date and goes.
    ///
    /// - Returns: whether the caller's reference to the blob is the row's now
    func keep(_ row: ImageRow) -> Bool {
        let old = catalog.entry(row.key)
        guard row.response.reasonNotToStore == nil, !catalog.lookup.belongsToRemovedCredential(row),
            old != nil || hasPlaceForRow()
        else {
            if let old, catalog.remove(old) { dropSoon([old]) }
            return false
        }
        var row = row
        row.isPinned = old?.isPinned ?? false
        if row.isPinned, let old, old.digest != row.digest, row.size > old.size, !mayPin(row.entry) {
            row.isPinned = false
            logger.warning(
                "An image is not pinned any more: what its origin sent anew is too large for that",
                metadata: ["url": "\(ImageAddress(row.url)?.display ?? "")", "bytes": "\(row.size)"])
        }
        store.giveToRow(row.digest)
        put(row, ImageDetails(header: row.header, response: row.response))
        return true
    }

    /// Puts the row of an image in whose bytes stay the same.
    private func update(_ row: ImageRow) {
        guard let old = catalog.entry(row.key), store.retain(row.digest) else { return }
        guard row.response.reasonNotToStore == nil, !catalog.lookup.belongsToRemovedCredential(row) else {
            release(row.digest)
            if catalog.remove(old) { dropSoon([old]) }
            return
        }
        var row = row
        row.isPinned = old.isPinned
        store.giveToRow(row.digest)
        put(row, catalog.details(of: old)?.with(row.response))
    }

    /// Changes the table, and submits the same change to the index.
    ///
    /// - Parameter details: nil if they have to be loaded
    private func put(_ row: ImageRow, _ details: ImageDetails?) {
        let index = index
        let old = catalog.put(row.entry, details)
        let written = indexQueue.submit { () throws(ImageError) in try index.put([row]) }
        Task {
            do throws(ImageError) {
                try await written.value()
                // Now no row names what was there before.
                if let old { await releaseRows([old.digest]) }
            } catch {
                warnOfIndex("An image's row could not be written", error)
                // The old row may still be on disk, and its blob stays until that is gone. If there is a newer row already,
                // it stays until the next start.
                if catalog.remove(row.entry) { dropSoon((old.map { [$0] } ?? []) + [row.entry]) }
            }
        }
    }

    /// Whether there is a place for another row. Where there is none the next ones to go are taken out at once.
    private func hasPlaceForRow() -> Bool {
        let limit = max(1, store.limits.count)
        while true {
            let over = catalog.statistics.entries - limit + 1
            guard over > 0 else { return true }
            let (entries, isExhausted) = catalog.takeVictims(limit: over, bytes: .max)
            dropSoon(entries, isEviction: true)
            if entries.isEmpty, isExhausted { return false }
        }
    }

    // MARK: Waiters

    private func finish(_ flight: InFlightDownload, with row: ImageRow, freshness: CachedImage.Freshness) {
        let now = clock.now
        for waiter in flight.waiters.values {
            waiter.continuation.resume(returning: ending(waiter, flight, row, freshness, now))
        }
    }

    private func ending(
        _ waiter: InFlightDownload.Waiter, _ flight: InFlightDownload, _ row: ImageRow,
        _ freshness: CachedImage.Freshness,
        _ now: Int
    ) -> InFlightDownload.Ending {
        if let expected = waiter.request.expectedDigest, expected != row.digest {
            let error = ImageError(.digestDisagrees, "the image's SHA-256 is \(row.digest), not what was expected")
            return waiter.request.url == flight.url ? .failed(error) : .again
        }
        guard !waiter.request.takesReference || store.retain(row.digest) else {
            return .failed(ImageError(.storageFailed, "the image's file is gone; ask again"))
        }
        let isFirst: CachedImage.Source = freshness == .revalidated ? .hit : .miss
        return .image(
            CachedImage(
                row.entry,
                catalog.details(of: row.entry) ?? ImageDetails(header: row.header, response: row.response),
                source: waiter.isFirst ? isFirst : .joined, now: now, freshness: freshness))
    }

    private func failAll(_ flight: InFlightDownload, _ error: ImageError) {
        for waiter in flight.waiters.values {
            // Another signature may open what this one did not. An outage, or a full disk, is the same for all.
            let isShared =
                waiter.request.url == flight.url || error.cause?.originFailure != nil || error.code == .noRoom
                || error.code == .storageFailed || error.code == .shuttingDown
            waiter.continuation.resume(returning: isShared ? .failed(error) : .again)
        }
    }
}
