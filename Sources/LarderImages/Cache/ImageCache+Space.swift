/// Frees disk space for downloads and puts by evicting images. An image is removed from the catalog and the disk is
/// called in one step.
extension ImageCache: DownloadOwner {
    /// The maximum time that a transfer waits for another transfer to end.
    private static let maxSpaceWait = Duration.seconds(30)

    /// Makes room for a transfer: evicts images in slices, or waits for another transfer to end. Evicts nothing if
    /// evicting every evictable image would not be enough, for example because other programs have filled the disk.
    ///
    /// - Returns: whether there may be room now
    /// - Throws: ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the index cannot be written, so
    ///   that nothing can be evicted
    func reclaim(_ shortage: SpaceShortage, for id: TransferID) async throws(ImageError) -> Bool {
        if reclaimer.queue.isReclaiming { return await waitForSpace(.eviction, for: id) }
        let (changes, retainedBytes) = (reclaimer.queue.changes, disk.accounts.retained.bytes)
        if try await removeVictims(shortage) { return true }
        let decision = reclaimer.decide(
            shortage, for: id, changesBefore: changes, running: downloads.table.runningIDs)
        switch decision {
        case .retry: return true
        case .fail: return false
        case .wait(let reason, let yielding):
            yielding?.resume(returning: false)
            return await waitForSpace(reason, for: id, shortage, retainedBytes: retainedBytes)
        }
    }

    /// Waits until a download that gave up its space to an older one may start again. Returns false if the download did
    /// not give up its space, or if its wait was cancelled or timed out.
    func restart(_ id: TransferID) async -> Bool {
        guard reclaimer.restart(id) else { return false }
        // If all other downloads wait or have ended, none of them would resume this one, so it starts again at once.
        guard reclaimer.queue.hasWorking(downloads.table.runningIDs, excluding: id) else { return !Task.isCancelled }
        guard await waitForSpace(.restart, for: id) else { return false }
        // This download has no bytes yet, so the free space may also suffice for the next waiter.
        reclaimer.spaceFound(by: id)
        return true
    }

    func spaceFound(by id: TransferID) { reclaimer.spaceFound(by: id) }

    func attemptFailed(_ id: TransferID, _ error: ImageError) { downloads.attemptFailed(id, error) }

    /// Evicts images over the limits, except for leased and pinned ones.
    ///
    /// - Throws: ``ImageError`` if the index cannot be written
    func evictExcess() async throws(ImageError) {
        while !Task.isCancelled {
            if reclaimer.queue.isReclaiming {
                _ = await waitForSpace(.eviction, for: nil)
                continue
            }
            let shortage = try await disk.excess()
            // Another caller may have begun to evict in the meantime.
            if reclaimer.queue.isReclaiming { continue }
            guard let shortage, try await removeVictims(shortage) else { break }
        }
        // The limit is read each time, because it may be raised during an eviction.
        while !Task.isCancelled, case let excess = catalog.count - disk.accounts.limits.count, excess > 0 {
            let slice = catalog.takeVictims(limit: min(CatalogWriter.removalSlice, excess), bytes: .max)
            try await rows.evict(slice.entries)
            if slice.isExhausted && slice.entries.isEmpty { break }
        }
    }

    /// Evicts images to resolve a shortage. The caller must have checked in the same step that no other caller is
    /// evicting.
    ///
    /// - Returns: whether files were removed
    private func removeVictims(_ shortage: SpaceShortage) async throws(ImageError) -> Bool {
        reclaimer.beginReclaiming()
        defer { reclaimer.endReclaiming() }
        guard reclaimer.suffice(for: shortage) else { return false }
        var removed = RemovedFiles()
        while removed.count < shortage.count || removed.bytes < shortage.bytes {
            let missing = shortage.bytes - removed.bytes
            let slice =
                missing > 0
                ? catalog.takeVictims(limit: CatalogWriter.removalSlice, bytes: missing)
                : catalog.takeVictims(
                    limit: min(CatalogWriter.removalSlice, shortage.count - removed.count), bytes: .max)
            let evicted = try await rows.evict(slice.entries)
            // If files cannot be removed, deleting more rows would not free space.
            if evicted.count == 0, let failure = evicted.failure { throw failure }
            removed.count += evicted.count
            removed.bytes += evicted.bytes
            if slice.isExhausted && slice.entries.isEmpty || Task.isCancelled { break }
        }
        return removed.count > 0
    }

    /// Waits until the queue resumes the caller.
    ///
    /// - Parameters:
    ///   - reason: the event to wait for
    ///   - id: the transfer; nil if limits are being enforced
    ///   - shortage: the space that the transfer needs; nil if it is unknown
    ///   - retainedBytes: the disk space of leased and pinned images when the caller failed to evict enough. If it has
    ///     decreased since, the caller is resumed at once
    /// - Returns: false if the task was cancelled, if a wait for a transfer took 30 s, or if the download must discard
    ///   its bytes for an older one
    private func waitForSpace(
        _ reason: SpaceReclaimer.Queue.Reason, for id: TransferID?, _ shortage: SpaceShortage? = nil,
        retainedBytes: Int = 0
    ) async -> Bool {
        let waiter = reclaimer.makeWaiterID()
        // An eviction ends soon, so only a wait for a transfer needs a timeout.
        let timeout = reason == .eviction ? nil : Task { await self.timeOut(waiter) }
        defer { timeout?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // If the task was cancelled before this point, its cancellation handler found no waiter to resume, so
                // the wait ends here.
                guard !Task.isCancelled else { return continuation.resume(returning: false) }
                reclaimer.add(waiter, reason, for: id, shortage, retainedBytes: retainedBytes, continuation)
            }
        } onCancel: {
            Task { await self.cancelWait(waiter) }
        }
    }

    private func timeOut(_ waiter: SpaceWaiterID) async {
        do { try await clock.sleep(for: Self.maxSpaceWait) } catch { return }
        cancelWait(waiter)
    }

    private func cancelWait(_ waiter: SpaceWaiterID) { reclaimer.cancel(waiter) }
}
