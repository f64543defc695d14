/// The ID of a download or of a put. Older ones have smaller IDs.
struct TransferID: Sendable, Hashable, Comparable {
    let number: Int

    static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// The ID of a wait for disk space.
struct SpaceWaiterID: Sendable, Hashable {
    let number: Int
}

/// The downloads and puts that wait for disk space, and the order in which they continue.
///
/// One caller at a time removes images. The images that it removes can no longer be chosen, and their space is not free yet:
/// another caller would remove more than necessary, or find nothing and give up. It waits for its turn instead.
///
/// If other downloads have the space, a transfer waits for one of them to end. Each event that may free space resumes the
/// oldest waiter, and once that one has its space, the next. When the last running download would wait, too, the youngest
/// that has bytes gives them up and starts again later, so that the oldest always completes. A put waits for downloads, but
/// no download waits for a put, and a put keeps its bytes.
///
/// The queue has no effects: its owner resumes the continuations that its methods return.
struct SpaceReclaimQueue<Continuation: Sendable>: Sendable {
    enum Reason: Sendable {
        /// Until the caller that removes images has finished.
        case turn
        /// Until another download ends. This one may have to give its bytes up.
        case space
        /// The same, for a download that gave its bytes up, or for a put, which keeps its bytes.
        case restart
    }

    struct Waiter: Sendable {
        let reason: Reason
        /// Nil for the limits of the cache.
        let transfer: TransferID?
        /// The space that it needs; nil if that is not known.
        let shortage: SpaceShortage?
        let continuation: Continuation

        var waitsForSpace: Bool { reason != .turn }
    }

    /// How much of the disk is in use.
    struct Usage: Sendable {
        /// Disk space of images and their directories.
        var bytes: Int
        /// Of these, the space of leased and pinned images.
        var heldBytes: Int
        /// Space that is reserved for images being written.
        var reservedBytes: Int
        /// Space of images that have no row.
        var leftoverBytes: Int
    }

    /// What a transfer does if no images were removed for it.
    enum Decision: Sendable {
        /// Space may have become free: try again.
        case retry
        case fail
        /// Wait. If there is a continuation, another download gives its bytes up: resume it with false first.
        case wait(Reason, yielding: Continuation?)
    }

    /// Whether a caller is removing images.
    private(set) var isReclaiming = false
    /// Grows when a transfer has ended or files were removed: each may leave space for others.
    private(set) var changes = 0
    private var waiters: [SpaceWaiterID: Waiter] = [:]
    /// Transfers that were resumed and have not found space yet.
    private var resumed: Set<TransferID> = []
    /// Downloads that give their bytes up for an older one, until they start again.
    private var yielding: Set<TransferID> = []
    private var lastWaiter = 0

    var isEmpty: Bool { waiters.isEmpty }
    var count: Int { waiters.count }
    /// Whether no transfer has been resumed or is giving its bytes up.
    var isSettled: Bool { resumed.isEmpty && yielding.isEmpty }

    // MARK: Turns

    /// Begins a turn. Call it only if ``isReclaiming`` is false.
    mutating func beginTurn() { isReclaiming = true }

    /// - Returns: the callers that waited for the end of the turn
    mutating func endTurn() -> [Continuation] {
        isReclaiming = false
        return waiters.filter { $0.value.reason == .turn }.keys.compactMap { remove($0, isResumed: true) }
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
    /// - Parameter isResumed: whether it tries again, because there may be space
    /// - Returns: its continuation; nil if it has been removed before
    mutating func remove(_ id: SpaceWaiterID, isResumed: Bool) -> Continuation? {
        guard let waiter = waiters.removeValue(forKey: id) else { return nil }
        if isResumed, waiter.waitsForSpace, let transfer = waiter.transfer { resumed.insert(transfer) }
        return waiter.continuation
    }

    // MARK: Decisions

    /// Decides what a transfer does for which no images could be removed.
    ///
    /// - Parameters:
    ///   - before: ``changes`` before the attempt
    ///   - running: the running downloads
    mutating func decide(
        _ shortage: SpaceShortage, for id: TransferID, _ usage: Usage, changesBefore before: Int,
        running: Set<TransferID>
    ) -> Decision {
        if changes != before || usage.bytes + usage.reservedBytes < shortage.taken { return .retry }
        let coming = usage.reservedBytes + usage.leftoverBytes
        guard shortage.bytes <= usage.bytes - usage.heldBytes + coming else { return .fail }
        let isPut = !running.contains(id)
        if hasWorking(running, besides: id) { return .wait(isPut ? .restart : .space, yielding: nil) }
        guard !isPut else { return .fail }
        // All downloads wait. Those that gave their bytes up have nothing to give.
        var youngest: (waiter: SpaceWaiterID, transfer: TransferID)?
        for (waiter, holder) in waiters where holder.reason == .space {
            guard let transfer = holder.transfer, transfer > youngest?.transfer ?? TransferID(number: 0) else {
                continue
            }
            youngest = (waiter, transfer)
        }
        guard let youngest else { return .fail }
        guard youngest.transfer > id else {
            yielding.insert(id)
            return .fail
        }
        yielding.insert(youngest.transfer)
        return .wait(.space, yielding: remove(youngest.waiter, isResumed: false))
    }

    /// Whether running downloads besides this one do not wait for space.
    func hasWorking(_ running: Set<TransferID>, besides id: TransferID) -> Bool {
        let waiting = waiters.values.filter(\.waitsForSpace).compactMap(\.transfer)
        return !running.subtracting(waiting).subtracting([id]).isEmpty
    }

    /// Whether a download that failed for want of space gave it to an older one, and starts again. The next waiter may
    /// continue then: ``resumeNext()``.
    mutating func restart(_ id: TransferID) -> Bool { yielding.remove(id) != nil }

    // MARK: Events

    /// A transfer has ended, or files were removed.
    ///
    /// - Returns: the oldest waiter, which tries again
    mutating func spaceFreed(endOf id: TransferID? = nil) -> Continuation? {
        if let id { resumed.remove(id) }
        changes += 1
        return resumeNext()
    }

    /// A download is no longer running.
    mutating func removeDownload(_ id: TransferID) { yielding.remove(id) }

    /// A transfer has found space. There may be more: if it was resumed for it, so is the next one.
    mutating func spaceFound(by id: TransferID) -> Continuation? { resumed.remove(id) != nil ? resumeNext() : nil }

    /// The oldest waiter whose shortage is known, to be resumed if the images that may be removed now suffice for it.
    var oldestShortage: (waiter: SpaceWaiterID, shortage: SpaceShortage)? {
        let known = waiters.compactMap { id, waiter in waiter.shortage.map { (id, waiter.transfer, $0) } }
        return known.min { ($0.1?.number ?? 0) < ($1.1?.number ?? 0) }.map { ($0.0, $0.2) }
    }

    /// - Returns: the oldest waiter, which tries again
    mutating func resumeNext() -> Continuation? {
        let oldest = waiters.filter(\.value.waitsForSpace).min {
            ($0.value.transfer?.number ?? 0) < ($1.value.transfer?.number ?? 0)
        }
        return oldest.flatMap { remove($0.key, isResumed: true) }
    }
}
