internal import Synchronization

/// Frees disk space for downloads and puts by evicting images, in the order that ``SpaceReclaimQueue`` determines.
///
/// Its methods are isolated to the ``ImageCache`` actor: an image is removed from the catalog and its removal submitted
/// to the disk in one step.
final class SpaceReclaimer {
    /// The maximum time that a transfer waits for another transfer to end.
    private static let maxWait = Duration.seconds(30)

    private let catalog: ImageCatalog
    private let disk: ImageDiskCache
    private let clock: ImageClock
    private let demand: SpaceDemand
    private(set) var queue = SpaceReclaimQueue<CheckedContinuation<Bool, Never>>() {
        didSet { demand.exists = !queue.isEmpty }
    }

    /// - Parameter demand: set while a transfer waits for space
    init(catalog: ImageCatalog, disk: ImageDiskCache, clock: ImageClock, demand: SpaceDemand) {
        (self.catalog, self.disk, self.clock, self.demand) = (catalog, disk, clock, demand)
    }

    // MARK: Transfers

    /// Makes room for a transfer: evicts images in slices, or waits for another transfer to end. Evicts nothing if
    /// evicting every evictable image would not be enough, for example because other programs have filled the disk.
    ///
    /// - Returns: whether there may be room now
    /// - Throws: ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the index cannot be written, so
    ///   that nothing can be evicted
    func reclaim(
        _ shortage: SpaceShortage, for id: TransferID, on cache: isolated ImageCache
    ) async throws(ImageError) -> Bool {
        if queue.isReclaiming { return await wait(.eviction, for: id, on: cache) }
        let (changes, retainedBytes) = (queue.changes, disk.blobs.retained.bytes)
        if try await removeVictims(shortage, from: cache.rows) { return true }
        let usage = disk.blobs.usage
        let decision = queue.decide(
            shortage, for: id,
            .init(
                bytes: usage.bytes, retainedBytes: disk.blobs.retained.bytes, reservedBytes: usage.reservedBytes,
                leftoverBytes: disk.blobs.leases.leftoverBytes),
            changesBefore: changes, running: cache.downloads.table.runningIDs)
        switch decision {
        case .retry: return true
        case .fail: return false
        case .wait(let reason, let yielding):
            yielding?.resume(returning: false)
            return await wait(reason, for: id, shortage, retainedBytes: retainedBytes, on: cache)
        }
    }

    /// Waits until a download that gave up its space to an older one may start again. Returns false if the download did
    /// not give up its space, or if its wait was cancelled or timed out.
    func restart(_ id: TransferID, on cache: isolated ImageCache) async -> Bool {
        guard queue.restart(id) else { return false }
        queue.resumeNext()?.resume(returning: true)
        // If all other downloads wait or have ended, none of them would resume this one, so it starts again at once.
        guard queue.hasWorking(cache.downloads.table.runningIDs, excluding: id) else { return !Task.isCancelled }
        guard await wait(.restart, for: id, on: cache) else { return false }
        // This download has no bytes yet, so the free space may also suffice for the next waiter.
        spaceFound(by: id)
        return true
    }

    /// Records that a transfer has obtained the space that was freed for it.
    func spaceFound(by id: TransferID) { queue.spaceFound(by: id)?.resume(returning: true) }

    /// Records that a download is no longer running.
    func removeDownload(_ id: TransferID) { queue.removeDownload(id) }

    /// Records that a transfer has ended, and resumes the oldest waiter.
    func transferEnded(_ id: TransferID) { queue.spaceFreed(endOf: id)?.resume(returning: true) }

    /// Resumes the oldest waiter after files were removed or limits may have been raised.
    func spaceFreed() { queue.spaceFreed()?.resume(returning: true) }

    /// Resumes the oldest waiter after images were released or unpinned, if enough images can now be evicted for it.
    func imagesBecameRemovable() {
        guard let oldest = queue.oldestShortage, suffice(for: oldest.shortage) else { return }
        queue.remove(oldest.waiter, isResumed: true)?.resume(returning: true)
    }

    // MARK: Limits

    /// Evicts images over the limits, except for leased and pinned ones.
    ///
    /// - Throws: ``ImageError`` if the index cannot be written
    func enforceLimits(on cache: isolated ImageCache) async throws(ImageError) {
        while !Task.isCancelled {
            if queue.isReclaiming {
                _ = await wait(.eviction, for: nil, on: cache)
                continue
            }
            let shortage = try await disk.excess()
            // Another caller may have begun to evict in the meantime.
            if queue.isReclaiming { continue }
            guard let shortage, try await removeVictims(shortage, from: cache.rows) else { break }
        }
        while !Task.isCancelled, catalog.statistics.entries > disk.blobs.limits.count {
            let excess = catalog.statistics.entries - disk.blobs.limits.count
            let slice = catalog.takeVictims(limit: min(ImageRows.removalSlice, excess), bytes: .max)
            try await cache.rows.evict(slice.entries)
            if slice.isExhausted && slice.entries.isEmpty { break }
        }
    }

    /// Evicts images to resolve a shortage. The caller must have checked in the same step that no other caller is
    /// evicting.
    ///
    /// - Returns: whether files were removed
    private func removeVictims(_ shortage: SpaceShortage, from rows: ImageRows) async throws(ImageError) -> Bool {
        queue.beginReclaiming()
        defer { for waiter in queue.endReclaiming() { waiter.resume(returning: true) } }
        guard suffice(for: shortage) else { return false }
        var removed = RemovedFiles()
        while removed.count < shortage.count || removed.bytes < shortage.bytes {
            let missing = shortage.bytes - removed.bytes
            let slice =
                missing > 0
                ? catalog.takeVictims(limit: ImageRows.removalSlice, bytes: missing)
                : catalog.takeVictims(
                    limit: min(ImageRows.removalSlice, shortage.count - removed.count), bytes: .max)
            let evicted = try await rows.evict(slice.entries)
            // If files cannot be removed, deleting more rows would not free space.
            if evicted.count == 0, let failure = evicted.failure { throw failure }
            removed.count += evicted.count
            removed.bytes += evicted.bytes
            if slice.isExhausted && slice.entries.isEmpty || Task.isCancelled { break }
        }
        return removed.count > 0
    }

    /// Whether evicting all images that are neither leased nor pinned would resolve a shortage.
    private func suffice(for shortage: SpaceShortage) -> Bool {
        let (usage, retained) = (disk.blobs.usage, disk.blobs.retained)
        return shortage.bytes <= usage.bytes - retained.bytes && shortage.count <= usage.count - retained.count
    }

    // MARK: Waiting

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
    private func wait(
        _ reason: SpaceReclaimQueue<CheckedContinuation<Bool, Never>>.Reason, for id: TransferID?,
        _ shortage: SpaceShortage? = nil, retainedBytes: Int = 0, on cache: isolated ImageCache
    ) async -> Bool {
        let waiter = queue.makeWaiterID()
        // An eviction ends soon, so only a wait for a transfer needs a timeout.
        let timeout = reason == .eviction ? nil : Task { await self.timeOut(waiter, on: cache) }
        defer { timeout?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                add(waiter, reason, for: id, shortage, retainedBytes: retainedBytes, continuation, on: cache)
            }
        } onCancel: {
            Task { await Self.cancel(waiter, on: cache) }
        }
    }

    /// Adds a waiter. This is a separate method so that the closures in ``wait(_:for:_:retainedBytes:on:)`` pass
    /// `cache` to it. A closure is isolated to an actor parameter only if it captures the parameter.
    private func add(
        _ waiter: SpaceWaiterID, _ reason: SpaceReclaimQueue<CheckedContinuation<Bool, Never>>.Reason,
        for id: TransferID?, _ shortage: SpaceShortage?, retainedBytes: Int,
        _ continuation: CheckedContinuation<Bool, Never>, on cache: isolated ImageCache
    ) {
        cache.preconditionIsolated()
        // If the task was cancelled before this point, its cancellation handler found no waiter to resume, so the wait
        // ends here.
        guard !Task.isCancelled else { return continuation.resume(returning: false) }
        queue.add(waiter, reason, for: id, shortage, continuation)
        // Images may have been released before this waiter was in the queue. No release resumes the waiter then, so it
        // is resumed here.
        if disk.blobs.retained.bytes < retainedBytes { queue.remove(waiter, isResumed: true)?.resume(returning: true) }
    }

    private func timeOut(_ waiter: SpaceWaiterID, on cache: isolated ImageCache) async {
        do { try await clock.sleep(for: Self.maxWait) } catch { return }
        Self.cancel(waiter, on: cache)
    }

    private static func cancel(_ waiter: SpaceWaiterID, on cache: isolated ImageCache) {
        cache.reclaimer.queue.remove(waiter, isResumed: false)?.resume(returning: false)
    }
}

/// Whether any transfer waits for disk space. Can be read on any thread.
final class SpaceDemand: Sendable {
    private let state = Atomic(false)

    var exists: Bool {
        get { state.load(ordering: .sequentiallyConsistent) }
        set { state.store(newValue, ordering: .sequentiallyConsistent) }
    }
}
