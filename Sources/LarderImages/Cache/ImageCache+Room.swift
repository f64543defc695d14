internal import LarderPlatform
internal import LarderUpstream

extension ImageCache {
    /// How many rows are removed by one change of the index, which has to fit into ``ImageIndex``'s reserve.
    static let removalSlice = 48
    /// How long a flight or a put waits for the end of another flight.
    private static let longestWait = Duration.seconds(30)

    /// Returns the room maker of a flight or a put.
    func room(for number: Int) -> RoomMaker {
        RoomMaker(
            make: { (shortage) throws(ImageError) in try await self.makeRoom(for: number, shortage) },
            found: { await self.foundRoom(number) })
    }

    /// Makes room for a flight or a put: removes images that may go, a slice at a time. Nothing is removed if the removal of
    /// all of them would not suffice: images are not given up because other programs filled the disk.
    ///
    /// One caller at a time. What is about to go for one is no longer there to be chosen, and not gone yet: another would
    /// take what is left as well, or find nothing and give up. It waits instead, unless its task is cancelled.
    ///
    /// If other downloads have the room, it waits for one of them to end. Each event that may free room resumes the oldest
    /// waiter. When that one has found room, it resumes the next (``foundRoom(_:)``). When the last download would wait,
    /// too, the youngest that has bytes gives them up and starts again later (``resumeWithRoom(_:)``), so that the oldest
    /// always completes. A put waits for downloads, but no download waits for a put, and a put keeps its bytes.
    ///
    /// - Parameter number: the ID of the flight or put
    /// - Returns: whether something changed, so that it is worth trying again
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written: then
    ///   nothing can go
    func makeRoom(for number: Int, _ shortage: SpaceShortage) async throws(ImageError) -> Bool {
        if isMakingRoom { return await waitForRoom(.turn, number) }
        let (changes, heldBytes) = (roomChanges, store.held.bytes)
        if try await removeVictims(shortage) { return true }
        // Room may have been left since, or since the shortage was found.
        let usage = store.usage
        if roomChanges != changes || usage.bytes + usage.reservedBytes < shortage.taken { return true }
        // Downloads that are running, and images without a row yet.
        let coming = usage.reservedBytes + store.leases.leftoverBytes
        guard shortage.bytes <= usage.bytes - store.held.bytes + coming else { return false }
        let isPut = !queue.isRunning(number)
        if hasRunningFlights(besides: number) {
            return await waitForRoom(isPut ? .restart : .flight, number, shortage, heldBytes: heldBytes)
        }
        guard !isPut else { return false }
        // All downloads wait. Those that gave their bytes up have nothing to give.
        let holders = roomWaiters.filter { $0.value.reason == .flight }
        guard let youngest = holders.max(by: { $0.value.number < $1.value.number }) else { return false }
        guard youngest.value.number > number else {
            yieldedRoom.insert(number)
            return false
        }
        yieldedRoom.insert(youngest.value.number)
        wake(youngest.key, false)
        return await waitForRoom(.flight, number, shortage, heldBytes: heldBytes)
    }

    /// Whether other downloads run and do not wait for room.
    private func hasRunningFlights(besides number: Int) -> Bool {
        let waiting = roomWaiters.values.filter(\.waitsForEnd).map(\.number)
        return !queue.runningIDs.subtracting(waiting).subtracting([number]).isEmpty
    }

    /// Whether a download that failed for want of room gave it to an older one and may start again, which it waits for.
    func resumeWithRoom(_ flight: Int) async -> Bool {
        guard yieldedRoom.remove(flight) != nil else { return false }
        wakeForRoom()
        // If no other one runs, none would wake it.
        guard hasRunningFlights(besides: flight) else { return !Task.isCancelled }
        guard await waitForRoom(.restart, flight) else { return false }
        // It has no bytes yet, so the room may do for the next one as well.
        foundRoom(flight)
        return true
    }

    /// A flight or a put has ended, or files were removed: resumes the oldest one that waits for room.
    func noteRoom(endOf number: Int? = nil) {
        if let number { resumedForRoom.remove(number) }
        roomChanges += 1
        wakeForRoom()
    }

    /// Images were released or unpinned: resumes the oldest one that waits for room if enough images may go for it now.
    func noteEvictable() {
        let oldest = roomWaiters.filter { $0.value.shortage != nil }.min { $0.value.number < $1.value.number }
        if let oldest, let shortage = oldest.value.shortage, mayRemove(shortage) { wake(oldest.key, true) }
    }

    /// A flight or a put has the room that was made for it. There may be more: if it was resumed for it, so is the next one.
    private func foundRoom(_ number: Int) {
        if resumedForRoom.remove(number) != nil { wakeForRoom() }
    }

    /// Resumes the oldest one that waits for room.
    private func wakeForRoom() {
        let oldest = roomWaiters.filter(\.value.waitsForEnd).min { $0.value.number < $1.value.number }
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
            // Another caller may have begun in the meantime.
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
        guard mayRemove(shortage) else { return false }
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

    /// Whether the images that are neither leased nor pinned suffice for a shortage.
    private func mayRemove(_ shortage: SpaceShortage) -> Bool {
        let (usage, held) = (store.usage, store.held)
        return shortage.bytes <= usage.bytes - held.bytes && shortage.count <= usage.count - held.count
    }

    // MARK: Waiting

    /// Waits until it is resumed.
    ///
    /// - Parameters:
    ///   - number: the ID of the flight or put; 0 for the limits
    ///   - shortage: what it needs
    ///   - heldBytes: the disk space of leased and pinned images when too few others could go; if it is less by now, some
    ///     of them may go
    /// - Returns: false if the task was cancelled, or 30 s have passed
    private func waitForRoom(
        _ reason: SpaceWaiter.Reason, _ number: Int, _ shortage: SpaceShortage? = nil, heldBytes: Int = 0
    ) async -> Bool {
        lastNumber += 1
        let waiter = lastNumber
        // The caller that makes room always ends soon. A flight may take long.
        let alarm =
            reason == .turn
            ? nil
            : Task {
                do { try await clock.sleep(for: Self.longestWait) } catch { return }
                wake(waiter, false)
            }
        defer { alarm?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // A cancellation before now found no waiter.
                guard !Task.isCancelled else { return continuation.resume(returning: false) }
                roomWaiters[waiter] = SpaceWaiter(
                    reason: reason, number: number, shortage: shortage, continuation: continuation)
                // A release before now found no waiter.
                if store.held.bytes < heldBytes { wake(waiter, true) }
            }
        } onCancel: {
            Task { await self.wake(waiter, false) }
        }
    }

    private func wake(_ key: Int, _ result: Bool) {
        guard let waiter = roomWaiters.removeValue(forKey: key) else { return }
        if result, waiter.waitsForEnd { resumedForRoom.insert(waiter.number) }
        waiter.continuation.resume(returning: result)
    }
}

/// A flight or a put that waits in ``ImageCache/makeRoom(for:_:)``.
struct SpaceWaiter {
    enum Reason {
        /// For the caller that makes room now.
        case turn
        /// For the end of another flight that has room. It may have to give its bytes up.
        case flight
        /// The same, for a flight that gave its bytes up, or a put, which keeps its bytes.
        case restart
    }

    let reason: Reason
    var waitsForEnd: Bool { reason != .turn }
    /// The ID of the flight or put. Older ones have smaller IDs.
    let number: Int
    /// The room that it needs; nil if that is not known.
    let shortage: SpaceShortage?
    let continuation: CheckedContinuation<Bool, Never>
}
