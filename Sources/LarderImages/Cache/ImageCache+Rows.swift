internal import LarderImageFormats
internal import LarderPlatform
internal import LarderUpstream
internal import Logging

extension ImageCache {
    // MARK: Removing

    /// Finishes the removal of images that were taken out of the catalog just now: their rows, then their files, as far as
    /// nobody refers to them.
    ///
    /// The work for the index is handed in before the first suspension, so that no newer row of the same key is removed.
    ///
    /// - Returns: the files that are gone, and why one could not be removed
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the rows could not be removed; the
    ///   images are in the catalog again then, as far as there are no newer ones
    @discardableResult
    func drop(_ entries: [ImageEntry], isEviction: Bool = false) async throws(ImageError) -> RemovedFiles {
        guard !entries.isEmpty else { return RemovedFiles() }
        return try await finishDrop(entries, submitRemoval(entries, isExplicit: !isEviction))
    }

    /// The same, without waiting for it.
    ///
    /// - Parameter isEviction: whether they go to make room, which is counted once they are gone
    func dropSoon(_ entries: [ImageEntry], isEviction: Bool = false) {
        guard !entries.isEmpty else { return }
        let removal = submitRemoval(entries)
        Task {
            do throws(ImageError) {
                try await finishDrop(entries, removal)
                if isEviction { catalog.count { $0.evictions += entries.count } }
            } catch {
                warnOfIndex("Rows of the image cache could not be removed", error)
            }
        }
    }

    func warnOfIndex(_ message: Logger.Message, _ error: ImageError) {
        if diskWarnings.add(error.code, { $0 = (message, error) }) { return }
        logger.debug(message, metadata: ["error": "\(error)"])
    }

    /// - Parameter isExplicit: whether a client asked for it, and the copy of the index must soon not have them
    private func submitRemoval(_ entries: [ImageEntry], isExplicit: Bool = false) -> DiskFuture<Void> {
        let index = index
        let keys = entries.map(\.key)
        let hasPins = isExplicit || entries.contains(where: \.isPinned)
        return indexQueue.submit { () throws(ImageError) in try index.remove(keys, hasPins: hasPins) }
    }

    @discardableResult
    private func finishDrop(
        _ entries: [ImageEntry], _ removal: DiskFuture<Void>
    ) async throws(ImageError) -> RemovedFiles {
        do throws(ImageError) {
            try await removal.value()
        } catch {
            // The rows are still on disk, so their files must be, until the next start at the latest.
            for entry in entries { _ = catalog.restore(entry) }
            throw error
        }
        return await releaseRows(entries.map(\.digest))
    }

    /// Takes back what rows referred to that are gone from the index.
    @discardableResult
    func releaseRows(_ digests: [BlobDigest]) async -> RemovedFiles {
        let last = digests.filter { self.store.releaseRow($0) }
        guard !last.isEmpty else { return RemovedFiles() }
        let store = store
        let removed = await blocking.run {
            var removed = RemovedFiles()
            for digest in last {
                do throws(ImageError) {
                    guard let size = try store.removeUnreferenced(digest) else { continue }
                    removed.count += 1
                    removed.bytes += size
                } catch {
                    removed.failure = error
                }
            }
            return removed
        }
        if let failure = removed.failure {
            needsSweep = true
            warnOfIndex("An image's file could not be removed", failure)
        }
        // Room that is being made is for the caller of ``makeRoom(for:_:)``.
        if removed.count > 0, !isMakingRoom { noteRoom() }
        return removed
    }

    /// Removes every image that has a blob.
    func removeRows(of digest: BlobDigest) async throws(ImageError) -> Int {
        var (slot, count): (UInt32?, Int) = (0, 0)
        while let next = slot {
            let slice = catalog.take(from: next) { entry, _ in entry.digest == digest }
            slot = slice.next
            count += slice.entries.count
            try await drop(slice.entries)
        }
        return count
    }

    /// Removes an image, pinned or not; no if it was not held. Its file stays for those that have a reference.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the
    ///   index cannot be written, and the image stays then
    public func remove(_ request: ImageRequest) async throws(ImageError) -> Bool {
        let place = try place(of: request)
        guard let entry = catalog.entry(place.key), catalog.remove(entry) else { return false }
        try await drop([entry])
        return true
    }

    /// Removes the images below a prefix, pinned or not. Their files stay for those that have a reference.
    ///
    /// - Parameter isTrial: whether they are only counted
    /// - Returns: how many images, and the bytes of the files that only they have, each counted once
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written; what is
    ///   not gone by then stays
    public func remove(_ prefix: ImagePrefix, isTrial: Bool) async throws(ImageError) -> (images: Int, bytes: Int) {
        let index = index
        var images = 0
        /// The size of each file, and how many of the images have it.
        var files: [BlobDigest: (size: Int, images: Int)] = [:]
        var last: ImageKey?
        while true {
            let rows = try await indexQueue.submit { [last] () throws(ImageError) in
                try index.rows(after: last, limit: Self.listSlice)
            }.value()
            guard let end = rows.last else { break }
            last = end.key
            let lookup = catalog.lookup
            let matching = rows.filter { prefix.contains($0) && !lookup.belongsToRemovedCredential($0) }
            for start in stride(from: 0, to: matching.count, by: Self.removalSlice) {
                let entries = matching[start..<min(start + Self.removalSlice, matching.count)]
                    .compactMap { catalog.entry($0.key) }.filter { isTrial || catalog.remove($0) }
                images += entries.count
                for entry in entries { files[entry.digest, default: (entry.size, 0)].images += 1 }
                if !isTrial { try await drop(entries) }
            }
        }
        // A file goes with the last of its images.
        let freed = files.filter { store.rowCount(of: $0.key) == (isTrial ? $0.value.images : 0) }
        return (images, freed.values.reduce(0) { $0 + $1.size })
    }

    /// Removes all images that are not pinned, or all.
    ///
    /// - Parameter isSpared: whether what an origin gave to its credential stays
    /// - Returns: how many, and the bytes of all files that no image is left of, although some may stay for a while for
    ///   those that have a reference
    /// - Throws: ``ImageError/Code/noRoom`` or ``ImageError/Code/storageFailed`` if the index cannot be written; what is
    ///   not gone by then stays
    public func clear(
        includingPinned: Bool = false, sparing isSpared: @escaping @Sendable (ImageOrigin) -> Bool = { _ in false }
    ) async throws(ImageError) -> (images: Int, bytes: Int) {
        let (index, lookup) = (index, catalog.lookup)
        let spared = try await indexQueue.submit { () throws(ImageError) in
            Set(try index.keys { lookup.origin(ofCredential: $0).map(isSpared) ?? false })
        }.value()
        var images = 0
        var sizes: [BlobDigest: Int] = [:]
        var slot: UInt32? = 0
        while let next = slot {
            let slice = catalog.take(from: next, limit: Self.removalSlice) { entry, _ in
                (includingPinned || !entry.isPinned) && !spared.contains(entry.key)
            }
            slot = slice.next
            images += slice.entries.count
            for entry in slice.entries { sizes[entry.digest] = entry.size }
            try await drop(slice.entries)
        }
        await compactIndex()
        return (images, sizes.reduce(0) { $0 + (store.rowCount(of: $1.key) > 0 ? 0 : $1.value) })
    }

    // MARK: Pins and lists

    /// Rows that are read at once to find those below a prefix.
    private static let listSlice = 500
    /// Rows that are read for one page at most.
    private static let longestScan = 20_000

    /// Pins an image or unpins it; no if it is not held.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``; ``ImageError/Code/noRoom`` if too much would be pinned, and that or
    ///   ``ImageError/Code/storageFailed`` if the index cannot be written. The image is as it was then
    public func pin(_ request: ImageRequest, _ pinned: Bool) async throws(ImageError) -> Bool {
        let key = try place(of: request).key
        guard let entry = catalog.entry(key) else { return false }
        if pinned, !entry.isPinned, !mayPin(entry) {
            throw ImageError(
                .noRoom,
                "with this image more than three quarters of the cache would be pinned, \(mostPinnedBytes) bytes; unpin others or raise images.maximumBytes"
            )
        }
        let before = entry.isPinned
        guard catalog.pin(key, pinned) else { return false }
        lastNumber += 1
        let number = lastNumber
        latestPins[key] = number
        defer { if latestPins[key] == number { latestPins[key] = nil } }
        let index = index
        do throws(ImageError) {
            try await indexQueue.submit { () throws(ImageError) in try index.pin(key, pinned) }.value()
        } catch {
            // Unless somebody said something newer meanwhile.
            if latestPins[key] == number { _ = catalog.pin(key, before) }
            throw error
        }
        if !pinned { noteEvictable() }
        return true
    }

    /// The most bytes that may be pinned: a quarter of the cache is always left for what comes and goes.
    private var mostPinnedBytes: Int { store.limits.bytes / 4 * 3 }

    /// Whether there is room to pin an image, in the place of the one of its key.
    func mayPin(_ entry: ImageEntry) -> Bool { catalog.pinnedBytes(with: entry) <= mostPinnedBytes }

    /// A page of what is held, in no order that means something. A page may have fewer than `limit`.
    ///
    /// - Parameters:
    ///   - after: what the page before gave as `next`; nothing for the first
    ///   - limit: how many at most
    ///   - prefix: which images; nil for all
    /// - Returns: `next` is nothing on the last page
    /// - Throws: ``ImageError/Code/invalidURL`` for an `after` that no page gave; ``ImageError/Code/storageFailed``
    public func list(
        after: String?, limit: Int, prefix: ImagePrefix? = nil
    ) async throws(ImageError) -> (rows: [ImageRow], next: String?) {
        var key: ImageKey?
        if let after {
            key = ImageKey(hex: after)
            guard key != nil else {
                throw ImageError(.invalidURL, "after is not what a page before gave as next; begin without it")
            }
        }
        let count = max(1, limit)
        var found: [ImageRow] = []
        var scanned = 0
        var isMore = true
        while isMore, found.count < count, scanned < Self.longestScan {
            let (index, size) = (index, prefix == nil ? count : Self.listSlice)
            let rows = try await indexQueue.submit { [key] () throws(ImageError) in
                // An extra row shows whether there is another page.
                try index.rows(after: key, limit: size + 1)
            }.value()
            isMore = rows.count > size
            scanned += size
            for row in rows.prefix(size) {
                if found.count == count {
                    isMore = true
                    break
                }
                key = row.key
                if prefix?.contains(row) ?? true { found.append(row) }
            }
        }
        let lookup = catalog.lookup
        return (found.filter { !lookup.belongsToRemovedCredential($0) }, isMore ? key?.description : nil)
    }

    func place(of request: ImageRequest) throws(ImageError) -> CacheLocation {
        guard let place = catalog.lookup.place(of: request) else {
            throw ImageError(.invalidURL, ImageAddress.refusal(of: request.url))
        }
        return place
    }
}

/// What came of the removal of files.
struct RemovedFiles: Sendable {
    /// Files that are gone.
    var count = 0
    /// Their bytes.
    var bytes = 0
    /// Why one of the others could not be removed.
    var failure: ImageError?
}
