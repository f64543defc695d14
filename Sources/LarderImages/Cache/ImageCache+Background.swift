internal import LarderPlatform
internal import LarderUpstream
internal import Logging

extension ImageCache {
    /// How often uses are written down and the age of what is held is looked at.
    private static let period = Duration.seconds(10)
    /// An hour between two looks for files that somebody else put there or removed.
    private static let periodsBetweenSweeps = 360

    /// Does what is done in the background, until its task is cancelled: removes what is over the limits, looks at files
    /// after a stop that was not orderly, removes files that nobody knows, writes uses down, and removes what is too old by
    /// the settings. All of it a slice at a time.
    public func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.verifyAll() }
            group.addTask { await self.maintain() }
        }
    }

    private func maintain() async {
        var periods = 0
        while !Task.isCancelled {
            if needsForgetting { await removeForgotten() }
            await keepReserve()
            await keepLimits()
            await expire()
            await writeTouches()
            await copyIndexIfDue()
            await removeOutdated()
            periods += 1
            if needsSweep || periods % Self.periodsBetweenSweeps == 0 { await sweep() }
            do { try await clock.sleep(for: Self.period) } catch { return }
        }
    }

    /// Ends all flights, writes down what waits to be, and says that the stop was orderly. Call it last, when ``run()`` has
    /// returned; requests fail from now on.
    public func stop() async {
        isStopping = true
        var tasks: [Task<Void, Never>] = []
        for (id, flight) in flights {
            forget(id)
            if !queue.cancel(id), let task = flight.task { tasks.append(task) }
            for waiter in flight.waiters.values {
                waiter.continuation.resume(returning: .failed(Self.shuttingDown))
            }
        }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        await writeTouches()
        // What was handed in before has been done when these have.
        try? await removals.submit { () throws(ImageError) in }.value()
        try? await indexQueue.submit { () throws(ImageError) in }.value()
        if index.unsavedChanges.hasRows { await copyIndex() }
        let store = store
        do throws(ImageError) {
            try await indexQueue.submit { () throws(ImageError) in try store.markClean() }.value()
        } catch {
            logger.warning("The image cache could not be marked as left in order", metadata: ["error": "\(error)"])
        }
    }

    /// Removes what is over the limits; where the disk does not let it, the next period tries again.
    func keepLimits() async {
        do throws(ImageError) {
            try await shrink()
        } catch {
            warnOfIndex("The image cache is over its limits, and nothing can be removed", error)
        }
    }

    /// Has the index keep some of the disk back for removals.
    private func keepReserve() async {
        let index = index
        try? await indexQueue.submit { () throws(ImageError) in index.keepReserve() }.value()
    }

    /// Writes down when images were used.
    func writeTouches() async {
        let index = index
        while true {
            let touches = catalog.takeTouches(limit: 1000)
            if touches.isEmpty { return }
            do throws(ImageError) {
                try await indexQueue.submit { () throws(ImageError) in try index.touch(touches) }.value()
            } catch {
                return warnOfIndex("The uses of images could not be written down", error)
            }
        }
    }

    /// Copies the index if that is due.
    func copyIndexIfDue() async {
        guard copySchedule.isDue(index.unsavedChanges, at: clock.now) else { return }
        await copyIndex()
    }

    /// Copies the index in slices. Other work on the index runs between them.
    private func copyIndex() async {
        let index = index
        copySchedule.begin(at: clock.now)
        do throws(ImageError) {
            let changes = try await indexQueue.submit { () throws(ImageError) in try index.beginCopy() }.value()
            do throws(ImageError) {
                while try await !indexQueue.submit({ () throws(ImageError) in try index.continueCopy(pages: 256) })
                    .value()
                {}
                try await blocking.run { () throws(ImageError) in try index.publishCopy() }
                copySchedule.succeed(at: clock.now)
            } catch {
                await blocking.run { index.abandonCopy(changes) }
                throw error
            }
        } catch {
            warnOfIndex("The index of the image cache could not be copied", error)
        }
    }

    /// Returns the disk space of removed rows to the file system if it is most of the index.
    func compactIndex() async {
        let index = index
        do throws(ImageError) {
            try await indexQueue.submit { () throws(ImageError) in try index.compact() }.value()
        } catch {
            warnOfIndex("The index of the image cache could not be compacted", error)
        }
    }

    /// Removes a cache in an older layout that was set aside when the index was opened.
    func removeOutdated() async {
        guard hasOutdated else { return }
        let store = store
        do throws(ImageError) {
            let found = try await blocking.run { () throws(ImageError) in try OutdatedImages(store).takeContents() }
            if let found {
                logger.notice(
                    "The image cache was in the format of an older agent and is emptied; images are fetched again when they are requested",
                    metadata: [
                        "format": "\(found.version)", "images": "\(found.contents.map { "\($0.images)" } ?? "unknown")",
                        "pins": "\(found.contents.map { "\($0.pins)" } ?? "unknown")",
                    ])
            }
            while hasOutdated, !Task.isCancelled {
                hasOutdated = try await blocking.run { () throws(ImageError) in
                    try !OutdatedImages(store).remove(limit: 1000)
                }
            }
        } catch {
            warnOfIndex("The image cache of an older agent could not be removed", error)
        }
    }

    /// Removes what is older than the settings allow.
    func expire() async {
        guard catalog.hasMaximumAge else { return }
        let now = clock.now
        var slot: UInt32? = 0
        while let next = slot, !Task.isCancelled {
            let slice = catalog.take(from: next, limit: Self.removalSlice) { entry, state in state.isTooOld(entry, now)
            }
            slot = slice.next
            do throws(ImageError) {
                try await evict(slice.entries)
            } catch {
                return warnOfIndex("Images that are too old could not be removed", error)
            }
        }
    }

    /// Removes what credentials opened that the settings do not have any more. Nobody finds it from the moment on that the
    /// settings are others.
    func removeForgotten() async {
        needsForgetting = false
        let (index, lookup) = (index, catalog.lookup)
        do throws(ImageError) {
            let keys = try await indexQueue.submit { () throws(ImageError) in
                try index.keys { lookup.origin(ofCredential: $0) == nil }
            }.value()
            for start in stride(from: 0, to: keys.count, by: Self.removalSlice) {
                if Task.isCancelled { return needsForgetting = true }
                let entries = keys[start..<min(start + Self.removalSlice, keys.count)].compactMap { catalog.entry($0) }
                try await drop(entries.filter { catalog.remove($0) })
            }
        } catch {
            needsForgetting = true
            warnOfIndex("Images of credentials that are gone could not be removed", error)
        }
    }

    /// Removes files that no row and nobody else refers to.
    func sweep() async {
        needsSweep = false
        let store = store
        var (removed, bytes) = (0, 0)
        do throws(ImageError) {
            var position: BlobStore.SweepPosition? = .start
            while let next = position {
                if Task.isCancelled { return needsSweep = true }
                let slice = try await blocking.run { () throws(ImageError) in try store.sweep(next) }
                (removed, bytes) = (removed + slice.removed, bytes + slice.removedBytes)
                position = slice.next
            }
            try await removeRowsWithoutFiles()
        } catch {
            needsSweep = true
            logger.warning("The image cache could not be searched for leftovers", metadata: ["error": "\(error)"])
        }
        if removed > 0 {
            logger.info(
                "Leftovers of the image cache were removed", metadata: ["files": "\(removed)", "bytes": "\(bytes)"])
        }
    }

    /// Removes the rows of images whose files somebody else removed: clients that are given a path would never notice.
    private func removeRowsWithoutFiles() async throws(ImageError) {
        let store = store
        var (slot, count): (UInt32?, Int) = (0, 0)
        while let next = slot {
            if Task.isCancelled { return needsSweep = true }
            let slice = catalog.digests(from: next)
            slot = slice.next
            let missing = try await blocking.run { () throws(ImageError) in try store.missing(among: slice.digests) }
            if missing.isEmpty { continue }
            // Not those that were fetched again while we looked.
            let rows = catalog.take(from: next) { entry, _ in
                missing.contains(entry.digest) && !store.isVerified(entry.digest)
            }
            count += rows.entries.count
            try await drop(rows.entries)
        }
        if count > 0 {
            logger.warning(
                "Files of the image cache are gone; their images are fetched again when they are wanted",
                metadata: ["images": "\(count)"])
        }
    }

    /// Looks at every file that has not been since a stop that was not orderly.
    func verifyAll() async {
        guard store.isUnclean else { return }
        var slot: UInt32? = 0
        while let next = slot, !Task.isCancelled {
            let slice = catalog.digests(from: next)
            slot = slice.next
            for digest in slice.digests where !store.isVerified(digest) {
                if Task.isCancelled { return }
                do throws(ImageError) {
                    try await verify(digest)
                } catch {
                    logger.warning("An image on disk could not be read", metadata: ["error": "\(error)"])
                    return
                }
            }
        }
    }
}
