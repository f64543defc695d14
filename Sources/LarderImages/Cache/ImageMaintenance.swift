internal import Logging

/// The background work of an ``ImageCache``, whose actor calls it: enforcing the maximum age, removing unreferenced files,
/// and copying the index. It runs in slices.
final class ImageMaintenance {
    static let period = Duration.seconds(10)
    /// One hour. Sweeps find files that other programs added or removed.
    private static let periodsBetweenSweeps = 360

    private let view: ImageCacheView
    private let catalog: ImageCatalog
    private let disk: ImageDiskCache
    private let rows: CatalogWriter
    private let clock: ImageClock
    private let log: ImageCacheLog
    /// The schedule for copying the index.
    private var copies: IndexCopySchedule
    /// Whether there may be images that were fetched with credentials that are no longer in the settings.
    private var needsCredentialCheck = true
    /// Whether files without a row may exist.
    private var needsSweep = true
    private var periods = 0

    init(
        view: ImageCacheView, catalog: ImageCatalog, disk: ImageDiskCache, rows: CatalogWriter, clock: ImageClock,
        log: ImageCacheLog
    ) {
        (self.view, self.catalog, self.disk, self.rows, self.clock, self.log) = (view, catalog, disk, rows, clock, log)
        copies = IndexCopySchedule(last: disk.copyTime)
    }

    /// The work of a period that precedes ``ImageCache/enforceLimits()``.
    func beginPeriod() async {
        if needsCredentialCheck { await removeUnreachable() }
        await disk.keepReserve()
        await disk.retryWriting()
    }

    /// The other work of a period.
    func endPeriod() async {
        await expire()
        await writeTouches()
        await copyIndexIfDue()
        if await disk.takeLeftovers() { needsSweep = true }
        periods += 1
        if needsSweep || periods.isMultiple(of: Self.periodsBetweenSweeps) { await sweep() }
    }

    /// Writes the last changes to disk and records an orderly stop.
    func stop() async {
        await writeTouches(seconds: 2)
        await disk.settle()
        if await disk.unsavedChanges?.hasRows == true {
            if await disk.isCopiedAtStop { await copyIndex() }
            if await disk.unsavedChanges?.hasRows == true { await disk.deferCopy() }
        }
        do throws(ImageError) {
            try await disk.markClean()
        } catch {
            log.logger.warning("cannot mark the image cache as cleanly closed", metadata: ["error": "\(error)"])
        }
    }

    // MARK: Images

    /// Removes images that are older than the settings allow.
    func expire() async {
        guard catalog.hasMaximumAge else { return }
        let now = clock.now
        var slot: UInt32? = 0
        while let next = slot, !Task.isCancelled {
            let slice = catalog.takeExpired(from: next, limit: CatalogWriter.removalSlice, now: now)
            slot = slice.next
            do throws(ImageError) {
                try await rows.evict(slice.entries)
            } catch {
                return log.warn("cannot remove images that are too old", error)
            }
        }
    }

    /// Removes images that were fetched with credentials that are no longer in the settings. No request can find them.
    func removeUnreachable() async {
        needsCredentialCheck = false
        let (version, resolver) = (view.settingsVersion, catalog.keys)
        do throws(ImageError) {
            let keys = try await disk.keys { resolver.origin(ofCredential: $0) == nil }
            for start in stride(from: 0, to: keys.count, by: CatalogWriter.removalSlice) {
                // New settings may contain the credential again.
                if Task.isCancelled || view.settingsVersion != version { return needsCredentialCheck = true }
                let slice = keys[start..<min(start + CatalogWriter.removalSlice, keys.count)]
                let entries = slice.compactMap { catalog.entry($0) }
                try await rows.drop(entries.filter { catalog.remove($0) })
            }
        } catch {
            needsCredentialCheck = true
            log.warn("cannot remove the images of removed credentials", error)
        }
    }

    // MARK: The index

    /// Writes the times of last use to the index. Ends early if the agent stops.
    ///
    /// - Parameter seconds: the maximum duration. The times of other images are lost if the agent then stops
    func writeTouches(seconds: Int = .max) async {
        let start = clock.uptime
        while !disk.accounts.isInterrupted, clock.uptime - start < seconds {
            let touches = catalog.takeTouches(limit: 1000)
            if touches.isEmpty { return }
            do throws(ImageError) {
                try await disk.touch(touches)
            } catch {
                return log.warn("cannot record the uses of images", error)
            }
        }
    }

    func copyIndexIfDue() async {
        guard let unsaved = await disk.unsavedChanges, copies.isDue(unsaved, at: clock.now) else { return }
        await copyIndex()
    }

    private func copyIndex() async {
        copies.begin(at: clock.now)
        do throws(ImageError) {
            try await disk.copyIndex()
            copies.succeed(at: clock.now)
        } catch {
            if error.code == .shuttingDown { return }
            log.warn("cannot copy the index of the image cache", error)
        }
    }

    // MARK: Files

    /// Removes unreferenced files, and the rows of missing files.
    func sweep() async {
        needsSweep = false
        var (removed, bytes) = (0, 0)
        var failure: ImageError?
        do throws(ImageError) {
            var step: Int? = 0
            while let next = step {
                if Task.isCancelled { return needsSweep = true }
                let slice = try await disk.sweep(step: next)
                (removed, bytes) = (removed + slice.removed, bytes + slice.removedBytes)
                failure = failure ?? slice.failure
                step = slice.next
            }
            failure = try await removeRowsWithoutFiles() ?? failure
        } catch {
            failure = error
            needsSweep = true
        }
        // A file that cannot be read may stay so. The next regular sweep tries again.
        if let failure { log.warn("cannot search the image cache for orphaned files", failure) }
        if removed > 0 {
            log.logger.info(
                "removed orphaned files of the image cache", metadata: ["files": "\(removed)", "bytes": "\(bytes)"])
        }
    }

    /// Removes the rows of images whose files another program removed. Otherwise clients would be given paths of
    /// missing files.
    ///
    /// - Returns: the first error if a file could not be checked
    /// - Throws: ``ImageError`` if the rows cannot be removed
    private func removeRowsWithoutFiles() async throws(ImageError) -> ImageError? {
        var failure: ImageError?
        var (slot, count): (UInt32?, Int) = (0, 0)
        while let next = slot {
            if Task.isCancelled {
                needsSweep = true
                break
            }
            let slice = catalog.digests(from: next)
            slot = slice.next
            let (missing, failed) = await disk.missing(among: slice.digests)
            failure = failure ?? failed
            if missing.isEmpty { continue }
            let entries = catalog.takeMissing(missing, from: next)
            count += entries.count
            try await rows.drop(entries)
        }
        if count > 0 {
            log.logger.warning(
                "files of the image cache are missing; their images are downloaded again on request",
                metadata: ["images": "\(count)"])
        }
        return failure
    }
}
