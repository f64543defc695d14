internal import Synchronization

/// Frees disk space for downloads and puts by removing images, in the order that ``SpaceReclaimQueue`` gives.
///
/// It belongs to an ``ImageCache`` and runs there: an image is taken out of the catalog, and its removal submitted to the
/// disk, in one step of that actor.
final class SpaceReclaimer {
    /// How long a transfer waits for the end of another one.
    private static let longestWait = Duration.seconds(30)

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

    /// Makes room for a transfer: removes images that may be removed, a slice at a time, or waits for the end of another
    /// transfer. No image is removed if all of them would not suffice, because other programs may have filled the disk.
    ///
    /// - Returns: whether there may be room now
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written, so that
    ///   nothing can be removed
    func reclaim(
        _ shortage: SpaceShortage, for id: TransferID, on cache: isolated ImageCache
    ) async throws(ImageError) -> Bool {
        if queue.isReclaiming { return await wait(.turn, for: id, on: cache) }
        let (changes, heldBytes) = (queue.changes, disk.blobs.held.bytes)
        if try await removeVictims(shortage, from: cache.rows) { return true }
        let usage = disk.blobs.usage
        let decision = queue.decide(
            shortage, for: id,
            .init(
                bytes: usage.bytes, heldBytes: disk.blobs.held.bytes, reservedBytes: usage.reservedBytes,
                leftoverBytes: disk.blobs.leases.leftoverBytes),
            changesBefore: changes, running: cache.downloads.table.runningIDs)
        switch decision {
        case .retry: return true
        case .fail: return false
        case .wait(let reason, let yielding):
            yielding?.resume(returning: false)
            return await wait(reason, for: id, shortage, heldBytes: heldBytes, on: cache)
        }
    }

    /// Whether a download that failed for want of space gave it to an older one and may start again, which it waits for.
    func restart(_ id: TransferID, on cache: isolated ImageCache) async -> Bool {
        guard queue.restart(id) else { return false }
        queue.resumeNext()?.resume(returning: true)
        // If no other download runs, none would resume this one.
        guard queue.hasWorking(cache.downloads.table.runningIDs, besides: id) else { return !Task.isCancelled }
        guard await wait(.restart, for: id, on: cache) else { return false }
        // It has no bytes yet, so the space may suffice for the next one as well.
        spaceFound(by: id)
        return true
    }

    /// A transfer has the space that was made for it.
    func spaceFound(by id: TransferID) { queue.spaceFound(by: id)?.resume(returning: true) }

    /// A download is no longer running.
    func removeDownload(_ id: TransferID) { queue.removeDownload(id) }

    /// A transfer has ended: resumes the oldest waiter.
    func transferEnded(_ id: TransferID) { queue.spaceFreed(endOf: id)?.resume(returning: true) }

    /// Files were removed, or the limits may be higher: resumes the oldest waiter.
    func spaceFreed() { queue.spaceFreed()?.resume(returning: true) }

    /// Images were released or unpinned: resumes the oldest waiter if enough images may be removed for it now.
    func imagesBecameRemovable() {
        guard let oldest = queue.oldestShortage, suffice(for: oldest.shortage) else { return }
        queue.remove(oldest.waiter, isResumed: true)?.resume(returning: true)
    }

    // MARK: Limits

    /// Removes what is over the limits, as far as it may be removed.
    ///
    /// - Throws: ``ImageError`` if the index cannot be written
    func enforceLimits(on cache: isolated ImageCache) async throws(ImageError) {
        while !Task.isCancelled {
            if queue.isReclaiming {
                _ = await wait(.turn, for: nil, on: cache)
                continue
            }
            let shortage = try await disk.excess()
            // Another caller may have begun in the meantime.
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

    /// Removes images for a shortage. Only for a caller that found in the same step that no other one does.
    ///
    /// - Returns: whether files were removed
    private func removeVictims(_ shortage: SpaceShortage, from rows: ImageRows) async throws(ImageError) -> Bool {
        queue.beginTurn()
        defer { for waiter in queue.endTurn() { waiter.resume(returning: true) } }
        guard suffice(for: shortage) else { return false }
        var removed = RemovedFiles()
        while removed.count < shortage.count || removed.bytes < shortage.bytes {
            let wanted = shortage.bytes - removed.bytes
            let slice =
                wanted > 0
                ? catalog.takeVictims(limit: ImageRows.removalSlice, bytes: wanted)
                : catalog.takeVictims(
                    limit: min(ImageRows.removalSlice, shortage.count - removed.count), bytes: .max)
            let gone = try await rows.evict(slice.entries)
            // If files cannot be removed, more rows would be given up for nothing.
            if gone.count == 0, let failure = gone.failure { throw failure }
            removed.count += gone.count
            removed.bytes += gone.bytes
            if slice.isExhausted && slice.entries.isEmpty || Task.isCancelled { break }
        }
        return removed.count > 0
    }

    /// Whether the images that are neither leased nor pinned suffice for a shortage.
    private func suffice(for shortage: SpaceShortage) -> Bool {
        let (usage, held) = (disk.blobs.usage, disk.blobs.held)
        return shortage.bytes <= usage.bytes - held.bytes && shortage.count <= usage.count - held.count
    }

    // MARK: Waiting

    /// Waits until the queue resumes the caller.
    ///
    /// - Parameters:
    ///   - id: nil for the limits
    ///   - heldBytes: the disk space of leased and pinned images when too few others could be removed; if it is less by now,
    ///     some of them may be removed
    /// - Returns: false if the task was cancelled, or 30 s have passed
    private func wait(
        _ reason: SpaceReclaimQueue<CheckedContinuation<Bool, Never>>.Reason, for id: TransferID?,
        _ shortage: SpaceShortage? = nil, heldBytes: Int = 0, on cache: isolated ImageCache
    ) async -> Bool {
        let waiter = queue.makeWaiterID()
        // A turn always ends soon. A download may take long.
        let alarm = reason == .turn ? nil : Task { await self.timeOut(waiter, on: cache) }
        defer { alarm?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                add(waiter, reason, for: id, shortage, heldBytes: heldBytes, continuation, on: cache)
            }
        } onCancel: {
            Task { await Self.cancel(waiter, on: cache) }
        }
    }

    /// The isolated parameter makes the closures of ``wait(_:for:_:heldBytes:on:)`` steps of the actor: a closure is isolated to a
    /// parameter only if it captures it.
    private func add(
        _ waiter: SpaceWaiterID, _ reason: SpaceReclaimQueue<CheckedContinuation<Bool, Never>>.Reason,
        for id: TransferID?, _ shortage: SpaceShortage?, heldBytes: Int,
        _ continuation: CheckedContinuation<Bool, Never>, on cache: isolated ImageCache
    ) {
        cache.preconditionIsolated()
        // A cancellation before now found no waiter.
        guard !Task.isCancelled else { return continuation.resume(returning: false) }
        queue.add(waiter, reason, for: id, shortage, continuation)
        // A release before now found no waiter.
        if disk.blobs.held.bytes < heldBytes { queue.remove(waiter, isResumed: true)?.resume(returning: true) }
    }

    private func timeOut(_ waiter: SpaceWaiterID, on cache: isolated ImageCache) async {
        do { try await clock.sleep(for: Self.longestWait) } catch { return }
        Self.cancel(waiter, on: cache)
    }

    private static func cancel(_ waiter: SpaceWaiterID, on cache: isolated ImageCache) {
        cache.reclaimer.queue.remove(waiter, isResumed: false)?.resume(returning: false)
    }
}

/// Whether a transfer waits for disk space. Any thread may read it.
final class SpaceDemand: Sendable {
    private let state = Atomic(false)

    var exists: Bool {
        get { state.load(ordering: .sequentiallyConsistent) }
        set { state.store(newValue, ordering: .sequentiallyConsistent) }
    }
}
