/// The downloads and puts that wait for disk space. Resumes them in the order that ``SpaceReclaimQueue`` determines.
///
/// Part of an ``ImageCache``, whose actor calls it; see ``ImageCache/reclaim(_:for:)``.
final class SpaceReclaimer {
    typealias Queue = SpaceReclaimQueue<CheckedContinuation<Bool, Never>>

    private let catalog: ImageCatalog
    private let accounts: BlobAccounts
    private(set) var queue = Queue() {
        didSet { catalog.setSpaceAwaited(!queue.isEmpty) }
    }

    init(catalog: ImageCatalog, accounts: BlobAccounts) { (self.catalog, self.accounts) = (catalog, accounts) }

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

    // MARK: Eviction

    /// Marks the start of an eviction. Call it only if ``SpaceReclaimQueue/isReclaiming`` is false.
    func beginReclaiming() { queue.beginReclaiming() }

    /// Marks the end of an eviction, and resumes the callers that waited for it.
    func endReclaiming() { for waiter in queue.endReclaiming() { waiter.resume(returning: true) } }

    /// Decides what a transfer does for which no image could be evicted; see
    /// ``SpaceReclaimQueue/decide(_:for:_:changesBefore:running:)``.
    func decide(
        _ shortage: SpaceShortage, for id: TransferID, changesBefore changes: Int, running: Set<TransferID>
    ) -> Queue.Decision {
        queue.decide(shortage, for: id, usage, changesBefore: changes, running: running)
    }

    /// The space in use, for a decision.
    private var usage: Queue.Usage {
        let usage = accounts.usage
        return .init(
            bytes: usage.bytes, retainedBytes: accounts.retained.bytes, reservedBytes: usage.reservedBytes,
            leftoverBytes: accounts.leases.leftoverBytes)
    }

    /// Whether evicting all images that are neither leased nor pinned would resolve a shortage.
    func suffice(for shortage: SpaceShortage) -> Bool {
        let (usage, retained) = (accounts.usage, accounts.retained)
        return shortage.bytes <= usage.bytes - retained.bytes && shortage.count <= usage.count - retained.count
    }

    // MARK: Waiting

    func makeWaiterID() -> SpaceWaiterID { queue.makeWaiterID() }

    /// Adds a waiter; see ``ImageCache/waitForSpace(_:for:_:retainedBytes:)`` for the parameters.
    func add(
        _ waiter: SpaceWaiterID, _ reason: Queue.Reason, for id: TransferID?, _ shortage: SpaceShortage?,
        retainedBytes: Int, _ continuation: CheckedContinuation<Bool, Never>
    ) {
        queue.add(waiter, reason, for: id, shortage, continuation)
        // Images may have been released before this waiter was in the queue. No release resumes the waiter then, so it
        // is resumed here.
        if accounts.retained.bytes < retainedBytes {
            queue.remove(waiter, isResumed: true)?.resume(returning: true)
        }
    }

    /// Ends a wait that was cancelled or timed out.
    func cancel(_ waiter: SpaceWaiterID) { queue.remove(waiter, isResumed: false)?.resume(returning: false) }

    /// Whether a download that failed for lack of space discarded its bytes for an older one, and must start again. If
    /// so, resumes the oldest waiter.
    func restart(_ id: TransferID) -> Bool {
        guard queue.restart(id) else { return false }
        queue.resumeNext()?.resume(returning: true)
        return true
    }
}
