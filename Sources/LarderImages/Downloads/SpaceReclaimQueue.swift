/// Identifies a download or a put. IDs increase, so an older transfer has a smaller ID.
struct TransferID: Sendable, Hashable, Comparable {
    let number: Int

    static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// Identifies a wait for disk space.
struct SpaceWaiterID: Sendable, Hashable {
    let number: Int
}

/// The downloads and puts that wait for disk space, and the order in which they continue.
///
/// Only one caller at a time evicts images. While it does, the evicted images are no longer candidates but their space
/// is not free yet. A second caller would therefore evict more than necessary, or find no candidate and fail. It waits
/// instead.
///
/// If other downloads occupy the space, a transfer waits for one of them to end. Each event that may free space resumes
/// the oldest waiter, and once that waiter has its space, the next one is resumed. If every running download would have
/// to wait, the youngest that has bytes discards them and starts again later, so the oldest download always completes.
/// A put waits for downloads, but no download waits for a put, and a put never discards its bytes.
///
/// The queue has no side effects: its owner resumes the continuations that its methods return.
struct SpaceReclaimQueue<Continuation: Sendable>: Sendable {
    enum Reason: Sendable {
        /// Another caller is evicting images and must finish first.
        case eviction
        /// Another download must end first. The waiting download may have to discard its bytes.
        case space
        /// Like `space`, for a transfer that has nothing to discard: a put, or a download that has already discarded
        /// its bytes.
        case restart
    }

    struct Waiter: Sendable {
        let reason: Reason
        /// Nil if the caller is not a transfer, but evicts images because the cache exceeds its limits.
        let transfer: TransferID?
        /// The space that the transfer needs; nil if it is unknown.
        let shortage: SpaceShortage?
        let continuation: Continuation

        var waitsForSpace: Bool { reason != .eviction }
    }

    /// The disk space in use.
    struct Usage: Sendable {
        /// The disk space of images and their directories.
        var bytes: Int
        /// The part of ``bytes`` that belongs to leased and pinned images and their directories.
        var retainedBytes: Int
        /// The space reserved for images that are being written.
        var reservedBytes: Int
        /// The space of leased images that have no row.
        var leftoverBytes: Int
    }

    /// The next action of a transfer for which no image could be evicted.
    enum Decision: Sendable {
        /// Retry, because space may have become free.
        case retry
        case fail
        /// Wait. If `yielding` is not nil, it is the continuation of another download, which must discard its bytes:
        /// first resume `yielding` with false.
        case wait(Reason, yielding: Continuation?)
    }

    /// Whether a caller is evicting images.
    private(set) var isReclaiming = false
    /// Incremented when a transfer has ended or files were removed, because either may have freed space.
    private(set) var changes = 0
    private var waiters: [SpaceWaiterID: Waiter] = [:]
    /// Transfers that were resumed to retry and have not obtained space yet.
    private var resumed: Set<TransferID> = []
    /// Downloads that discard their bytes for an older one, until they start again.
    private var yielding: Set<TransferID> = []
    private var lastWaiter = 0

    var isEmpty: Bool { waiters.isEmpty }
    var count: Int { waiters.count }
    /// Whether each resumed transfer has obtained its space or ended, and no download is discarding its bytes.
    var isSettled: Bool { resumed.isEmpty && yielding.isEmpty }

    // MARK: Eviction

    /// Marks the start of an eviction. Call it only if ``isReclaiming`` is false.
    mutating func beginReclaiming() { isReclaiming = true }

    /// Marks the end of an eviction.
    ///
    /// - Returns: the callers that waited for it
    mutating func endReclaiming() -> [Continuation] {
        isReclaiming = false
        return waiters.filter { $0.value.reason == .eviction }.keys.compactMap { remove($0, isResumed: true) }
    }

    // MARK: Waiting

    mutating func makeWaiterID() -> SpaceWaiterID {
        lastWaiter += 1
        return SpaceWaiterID(number: lastWaiter)
    }

    mutating func add(
        _ id: SpaceWaiterID, _ reason: Reason, for transfer: TransferID?, _ shortage: SpaceShortage? = nil,
        _ continuation: Continuation
    ) {
        waiters[id] = Waiter(reason: reason, transfer: transfer, shortage: shortage, continuation: continuation)
    }

    /// Removes a waiter.
    ///
    /// - Parameter isResumed: whether the transfer retries, because there may be space
    /// - Returns: the continuation; nil if the waiter was removed before
    mutating func remove(_ id: SpaceWaiterID, isResumed: Bool) -> Continuation? {
        guard let waiter = waiters.removeValue(forKey: id) else { return nil }
        if isResumed, waiter.waitsForSpace, let transfer = waiter.transfer { resumed.insert(transfer) }
        return waiter.continuation
    }

    // MARK: Decisions

    /// Decides what a transfer does if no image could be evicted for it.
    ///
    /// - Parameters:
    ///   - before: the value of ``changes`` before the attempt to evict images for the transfer
    ///   - running: the running downloads
    mutating func decide(
        _ shortage: SpaceShortage, for id: TransferID, _ usage: Usage, changesBefore before: Int,
        running: Set<TransferID>
    ) -> Decision {
        if changes != before || usage.bytes + usage.reservedBytes < shortage.taken { return .retry }
        let coming = usage.reservedBytes + usage.leftoverBytes
        guard shortage.bytes <= usage.bytes - usage.retainedBytes + coming else { return .fail }
        let isPut = !running.contains(id)
        if hasWorking(running, excluding: id) { return .wait(isPut ? .restart : .space, yielding: nil) }
        guard !isPut else { return .fail }
        // At this point all running downloads wait. Those whose reason is `restart` have no bytes to discard.
        let holders = waiters.filter { $0.value.reason == .space }.compactMap { waiter, holder in
            holder.transfer.map { (waiter: waiter, transfer: $0) }
        }
        guard let youngest = holders.max(by: { $0.transfer < $1.transfer }) else { return .fail }
        guard youngest.transfer > id else {
            yielding.insert(id)
            return .fail
        }
        yielding.insert(youngest.transfer)
        return .wait(.space, yielding: remove(youngest.waiter, isResumed: false))
    }

    /// Whether any running download other than `id` is making progress, that is, not waiting for space.
    func hasWorking(_ running: Set<TransferID>, excluding id: TransferID) -> Bool {
        let waiting = waiters.values.filter(\.waitsForSpace).compactMap(\.transfer)
        return !running.subtracting(waiting).subtracting([id]).isEmpty
    }

    /// Whether a download that failed for lack of space discarded its bytes for an older one, and must start again. If
    /// so, call ``resumeNext()``.
    mutating func restart(_ id: TransferID) -> Bool { yielding.remove(id) != nil }

    // MARK: Events

    /// Records that a transfer has ended or files were removed.
    ///
    /// - Returns: the continuation of the oldest waiter for space, to be resumed with true; nil if none waits for space
    mutating func spaceFreed(endOf id: TransferID? = nil) -> Continuation? {
        if let id { resumed.remove(id) }
        changes += 1
        return resumeNext()
    }

    /// Records that a download is no longer running.
    mutating func removeDownload(_ id: TransferID) { yielding.remove(id) }

    /// Records that a transfer has obtained space. If the transfer had been resumed to retry, returns the continuation
    /// of the next waiter, because there may be space for it too; otherwise nil.
    mutating func spaceFound(by id: TransferID) -> Continuation? { resumed.remove(id) != nil ? resumeNext() : nil }

    /// The oldest waiter whose shortage is known. It can be resumed if enough images can now be evicted for it.
    var oldestShortage: (waiter: SpaceWaiterID, shortage: SpaceShortage)? {
        let known = waiters.compactMap { id, waiter in waiter.shortage.map { (id, waiter.transfer, $0) } }
        return known.min { ($0.1?.number ?? 0) < ($1.1?.number ?? 0) }.map { ($0.0, $0.2) }
    }

    /// Removes the oldest waiter for space.
    ///
    /// - Returns: the continuation of the waiter, to be resumed with true; nil if none waits for space
    mutating func resumeNext() -> Continuation? {
        let oldest = waiters.filter(\.value.waitsForSpace).min {
            ($0.value.transfer?.number ?? 0) < ($1.value.transfer?.number ?? 0)
        }
        return oldest.flatMap { remove($0.key, isResumed: true) }
    }
}
