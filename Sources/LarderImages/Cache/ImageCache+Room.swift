internal import LarderUpstream

extension ImageCache {
    /// How many rows are removed by one change of the index, which has to fit into ``ImageIndex``'s reserve.
    static let removalSlice = 48
    /// How long a flight waits for the end of another one.
    private static let longestWait = Duration.seconds(30)

    /// Makes room for a flight: removes what may go, a slice at a time. Nothing goes where even everything would not be
    /// enough: a disk that others filled is no reason to lose what is held.
    ///
    /// One caller at a time. What is about to go for one is no longer there to be chosen, and not gone yet: another would
    /// take what is left as well, or find nothing and give up. It waits instead, unless its task is cancelled.
    ///
    /// If other downloads have the room, it waits for one of them to end. Each end resumes one waiting download, the oldest
    /// first. When the last one would wait, too, the youngest that has bytes gives them up and starts again later
    /// (``resumeWithRoom(_:)``), so that the oldest always comes to its end.
    ///
    /// - Returns: whether something changed, so that it is worth trying again
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written: then
    ///   nothing can go
    func makeRoom(for flight: Int, _ shortage: SpaceShortage) async throws(ImageError) -> Bool {
        if isMakingRoom { return await waitForRoom(.turn, flight) }
        let ended = endedFlights
        if try await removeVictims(shortage) { return true }
        // What has ended since, or since the shortage was found, may have left room.
        let usage = store.usage
        if endedFlights != ended || usage.bytes + usage.reservedBytes < shortage.taken { return true }
        // What is on its way, and what has come and has no row yet.
        let coming = usage.reservedBytes + store.leases.leftoverBytes
        guard shortage.bytes <= usage.bytes - store.held.bytes + coming else { return false }
        if queue.running - roomWaiters.values.count(where: \.isFlight) > 1 {
            return await waitForRoom(.flight, flight)
        }
        // All downloads wait. Those that gave their bytes up have nothing to give.
        let holders = roomWaiters.filter { $0.value.reason == .flight }
        guard let youngest = holders.max(by: { $0.value.flight < $1.value.flight }) else { return false }
        guard youngest.value.flight > flight else {
            yieldedRoom.insert(flight)
            return false
        }
        yieldedRoom.insert(youngest.value.flight)
        wake(youngest.key, false)
        return await waitForRoom(.flight, flight)
    }

    /// Whether a download that failed for want of room gave it to an older one and may start again, which it waits for.
    func resumeWithRoom(_ flight: Int) async -> Bool {
        guard yieldedRoom.remove(flight) != nil else { return false }
        wakeForRoom()
        // Without another one that runs, none would wake it.
        guard queue.running - roomWaiters.values.count(where: \.isFlight) > 1 else { return !Task.isCancelled }
        return await waitForRoom(.restart, flight)
    }

    /// A download has ended or given its bytes up: resumes the oldest one that waits for room.
    func wakeForRoom() {
        let oldest = roomWaiters.filter(\.value.isFlight).min { $0.value.flight < $1.value.flight }
        if let oldest { wake(oldest.key, true) }
    }

    /// Removes what is over the limits, as far as it may go.
    ///
    /// - Throws: ``ImageError`` if the disk does not let it
    func shrink() async throws(ImageError) {
        let store = store
        while !Task.isCancelled {
            if isMakingRoom {
                _ = await waitForRoom(.turn, 0)
                continue
            }
            let shortage = try await blocking.run { () throws(ImageError) in try store.excess() }
            // Somebody may have begun meanwhile.
            if isMakingRoom { continue }
            guard let shortage, try await removeVictims(shortage) else { break }
        }
        while !Task.isCancelled, catalog.statistics.entries > store.limits.count {
            let over = catalog.statistics.entries - store.limits.count
            let slice = catalog.takeVictims(limit: min(Self.removalSlice, over), bytes: .max)
            try await evict(slice.entries)
            if slice.isExhausted && slice.entries.isEmpty { break }
        }
    }

    /// Removes images that were taken out to make room, and counts them when they are gone.
    @discardableResult
    func evict(_ entries: [ImageEntry]) async throws(ImageError) -> RemovedFiles {
        let removed = try await drop(entries, isEviction: true)
        catalog.count { $0.evictions += entries.count }
        return removed
    }

    /// Only for a caller that found ``isMakingRoom`` false in the same step.
    private func removeVictims(_ shortage: SpaceShortage) async throws(ImageError) -> Bool {
        isMakingRoom = true
        defer {
            isMakingRoom = false
            for (number, waiter) in roomWaiters where waiter.reason == .turn { wake(number, true) }
        }
        let (usage, held) = (store.usage, store.held)
        guard shortage.bytes <= usage.bytes - held.bytes, shortage.count <= usage.count - held.count else {
            return false
        }
        var removed = RemovedFiles()
        while removed.count < shortage.count || removed.bytes < shortage.bytes {
            let wanted = shortage.bytes - removed.bytes
            let slice =
                wanted > 0
                ? catalog.takeVictims(limit: Self.removalSlice, bytes: wanted)
                : catalog.takeVictims(limit: min(Self.removalSlice, shortage.count - removed.count), bytes: .max)
            let gone = try await evict(slice.entries)
            // Where files cannot be removed, rows are not given up one after the other for nothing.
            if gone.count == 0, let failure = gone.failure { throw failure }
            removed.count += gone.count
            removed.bytes += gone.bytes
            if slice.isExhausted && slice.entries.isEmpty || Task.isCancelled { break }
        }
        return removed.count > 0
    }

    // MARK: Waiting

    /// Waits until it is woken.
    ///
    /// - Returns: no if the task was cancelled, or nothing happened for too long
    private func waitForRoom(_ reason: RoomWaiter.Reason, _ flight: Int) async -> Bool {
        lastNumber += 1
        let number = lastNumber
        // Who makes room comes to an end by itself; a flight may take long.
        let alarm =
            reason == .turn
            ? nil
            : Task {
                do { try await clock.sleep(for: Self.longestWait) } catch { return }
                wake(number, false)
            }
        defer { alarm?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // A cancellation before now found nobody to wake.
                guard !Task.isCancelled else { return continuation.resume(returning: false) }
                roomWaiters[number] = RoomWaiter(reason: reason, flight: flight, continuation: continuation)
            }
        } onCancel: {
            Task { await self.wake(number, false) }
        }
    }

    private func wake(_ number: Int, _ result: Bool) {
        roomWaiters.removeValue(forKey: number)?.continuation.resume(returning: result)
    }
}

/// Somebody that waits in ``ImageCache/makeRoom(for:_:)``.
struct RoomWaiter {
    enum Reason {
        /// For who makes room now.
        case turn
        /// For the end of a flight that has the room.
        case flight
        /// The same, without bytes of its own: it starts again then.
        case restart
    }

    let reason: Reason
    var isFlight: Bool { reason != .turn }
    let flight: Int
    let continuation: CheckedContinuation<Bool, Never>
}
