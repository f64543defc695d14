internal import LarderImageFormats
internal import LarderPlatform
internal import Logging

/// The background work of the cache: enforcing limits and maximum age, removing unreferenced files, verifying files
/// after a crash, and copying the index. It runs in slices, isolated to the ``ImageCache`` actor.
final class ImageMaintenance {
    private static let period = Duration.seconds(10)
    /// One hour. Sweeps find files that other programs added or removed.
    private static let periodsBetweenSweeps = 360

    private let catalog: ImageCatalog
    private let disk: ImageDiskCache
    private let rows: ImageRows
    private let clock: ImageClock
    private let log: ImageCacheLog
    /// The schedule for copying the index.
    private var copies: IndexCopySchedule
    /// Whether there may be images that were fetched with credentials that are no longer in the settings.
    private var needsCredentialCheck = true
    /// Whether files without a row may exist.
    private var needsSweep = true
    private var periods = 0

    init(catalog: ImageCatalog, disk: ImageDiskCache, rows: ImageRows, clock: ImageClock, log: ImageCacheLog) {
        (self.catalog, self.disk, self.rows, self.clock, self.log) = (catalog, disk, rows, clock, log)
        copies = IndexCopySchedule(last: IndexCopy(disk.blobs).time)
    }

    /// Runs until the task is cancelled.
    func run(on cache: isolated ImageCache) async {
        while !Task.isCancelled {
            if needsCredentialCheck { await removeUnreachable() }
            await disk.keepReserve()
            await disk.retryWriting()
            await enforceLimits(on: cache)
            await expire()
            await writeTouches()
            await copyIndexIfDue()
            if disk.takeLeftovers() { needsSweep = true }
            periods += 1
            if needsSweep || periods.isMultiple(of: Self.periodsBetweenSweeps) { await sweep() }
            do { try await clock.sleep(for: Self.period) } catch { return }
        }
    }

    /// Writes the last changes to disk and records an orderly stop.
    func stop() async {
        await writeTouches(seconds: 2)
        await disk.settle()
        if let index = disk.openIndex, index.unsavedChanges.hasRows {
            if index.isCopiedAtStop { await copyIndex() }
            if index.unsavedChanges.hasRows { await disk.deferCopy() }
        }
        do throws(ImageError) {
            try await disk.markClean()
        } catch {
            log.logger.warning("cannot mark the image cache as cleanly closed", metadata: ["error": "\(error)"])
        }
    }

    // MARK: Images

    /// Evicts images over the limits. If that fails, the next maintenance period tries again. A period lasts ten
    /// seconds.
    func enforceLimits(on cache: isolated ImageCache) async {
        do throws(ImageError) {
            try await cache.reclaimer.enforceLimits(on: cache)
        } catch {
            log.warn("the image cache exceeds its limits, and no image can be evicted", error)
        }
    }

    /// Removes images that are older than the settings allow.
    func expire() async {
        guard catalog.hasMaximumAge else { return }
        let now = clock.now
        var slot: UInt32? = 0
        while let next = slot, !Task.isCancelled {
            let slice = catalog.take(from: next, limit: ImageRows.removalSlice) { $1.isTooOld($0, now) }
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
        let (version, resolver) = (catalog.settingsVersion, catalog.keys)
        do throws(ImageError) {
            let keys = try await disk.keys { resolver.origin(ofCredential: $0) == nil }
            for start in stride(from: 0, to: keys.count, by: ImageRows.removalSlice) {
                // New settings may contain the credential again.
                if Task.isCancelled || catalog.settingsVersion != version { return needsCredentialCheck = true }
                let slice = keys[start..<min(start + ImageRows.removalSlice, keys.count)]
                let entries = slice.compactMap { catalog.entry($0) }
                try await rows.drop(entries.filter { catalog.remove($0) })
            }
        } catch {
            needsCredentialCheck = true
            log.warn("cannot remove the images of removed credentials", error)
        }
    }

    /// After a stop that was not orderly, verifies every file that this process has not verified yet.
    func verifyAll(on cache: isolated ImageCache) async {
        guard disk.blobs.isUnclean else { return }
        var slot: UInt32? = 0
        while let next = slot, !Task.isCancelled {
            let slice = catalog.digests(from: next)
            slot = slice.next
            for digest in slice.digests where !disk.blobs.isVerified(digest) {
                if Task.isCancelled { return }
                do throws(ImageError) {
                    try await cache.verifier.verify(digest, on: cache)
                } catch {
                    // A damaged sector concerns one file. The other files are verified.
                    log.warn("cannot read an image on disk", error)
                }
            }
        }
    }

    // MARK: The index

    /// Writes the times of last use to the index. Ends early if the agent stops.
    ///
    /// - Parameter seconds: the maximum duration. The times of other images are lost if the agent then stops
    func writeTouches(seconds: Int = .max) async {
        let start = clock.uptime
        while !disk.blobs.isInterrupted, clock.uptime - start < seconds {
            let touches = catalog.takeTouches(limit: 1000)
            if touches.isEmpty { return }
            do throws(ImageError) {
                try await disk.touch(touches).value()
            } catch {
                return log.warn("cannot record the uses of images", error)
            }
        }
    }

    func copyIndexIfDue() async {
        guard let index = disk.openIndex, copies.isDue(index.unsavedChanges, at: clock.now) else { return }
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
        let blobs = disk.blobs
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
            // Images that were downloaded again in the meantime stay.
            let images = catalog.take(from: next) { entry, _ in
                missing.contains(entry.digest) && !blobs.isVerified(entry.digest)
            }
            count += images.entries.count
            try await rows.drop(images.entries)
        }
        if count > 0 {
            log.logger.warning(
                "files of the image cache are missing; their images are downloaded again on request",
                metadata: ["images": "\(count)"])
        }
        return failure
    }
}

/// Verifies the files of blobs that this process has not opened yet. Concurrent requests for a blob share one check.
/// The verifier is part of an ``ImageCache`` and isolated to that actor.
final class BlobVerifier {
    private let disk: ImageDiskCache
    private let rows: ImageRows
    private let log: ImageCacheLog
    private var checks: [BlobDigest: Task<ImageError?, Never>] = [:]

    init(disk: ImageDiskCache, rows: ImageRows, log: ImageCacheLog) {
        (self.disk, self.rows, self.log) = (disk, rows, log)
    }

    /// Verifies the file of a blob. If it is damaged or missing, removes the blob's rows.
    ///
    /// - Throws: ``ImageError`` if the file cannot be read or the rows cannot be removed
    func verify(_ digest: BlobDigest, on cache: isolated ImageCache) async throws(ImageError) {
        let check = checks[digest] ?? Task { await self.check(digest, on: cache) }
        checks[digest] = check
        let error = await check.value
        if checks[digest] == check { checks[digest] = nil }
        if let error { throw error }
    }

    private func check(_ digest: BlobDigest, on cache: isolated ImageCache) async -> ImageError? {
        var isUsable = false
        if disk.blobs.retain(digest) {
            defer { cache.release(digest) }
            do throws(ImageError) {
                try await disk.verify(digest)
                isUsable = true
            } catch {
                guard error.code == .damagedBlob else { return error }
                log.logger.warning("an image on disk is damaged", metadata: ["error": "\(error)"])
                // If the image was downloaded again during the check, its new file counts as verified, and the rows
                // stay.
                isUsable = disk.blobs.isVerified(digest)
            }
        }
        if isUsable { return nil }
        do throws(ImageError) { try await rows.removeAll(of: digest) } catch { return error }
        return nil
    }
}
