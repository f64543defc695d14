internal import LarderHTTPSemantics
internal import LarderUpstream
internal import Logging

/// Adds, replaces and removes cached images, in the catalog and on disk. Part of an ``ImageCache``, whose actor calls it.
///
/// Each change of the catalog and the call of the disk with the same change are one step without suspension, so both
/// change in the same order.
final class CatalogWriter {
    /// A change of the catalog that has to be made on disk with ``write(_:)``, in the same step.
    enum Change: Sendable {
        case put(ImageRow, replacing: ImageEntry?, PinWrites.Write?)
        case removal(Removal)
    }

    /// Images that were removed from the catalog.
    struct Removal: Sendable {
        let entries: [ImageEntry]
        let writes: [PinWrites.Write]
        let isEviction: Bool
        /// Whether one of the images is pinned or a client requested the removal. The index is then copied within a
        /// minute, so that the removed rows do not return if the index is restored from its copy.
        let hasPins: Bool
    }

    /// The number of rows that are removed in one transaction. The disk space that ``ImageIndex`` reserves must suffice
    /// for one such transaction.
    static let removalSlice = 48
    /// The number of rows to read at once when searching for images under a prefix.
    private static let listSlice = 500
    /// The maximum number of rows to read for one page.
    private static let maxScan = 20_000

    private let catalog: ImageCatalog
    private let disk: ImageDiskCache
    private let reclaimer: SpaceReclaimer
    private let log: ImageCacheLog
    private var pins = PinWrites()
    /// The removals of all images that are in progress, by number.
    private var clearings: [Int: Clearing] = [:]
    private var lastClearing = 0

    init(catalog: ImageCatalog, disk: ImageDiskCache, reclaimer: SpaceReclaimer, log: ImageCacheLog) {
        (self.catalog, self.disk, self.reclaimer, self.log) = (catalog, disk, reclaimer, log)
    }

    private var accounts: BlobAccounts { disk.accounts }

    // MARK: Adding

    /// Adds a row, or replaces the row with the same key, if the response may be stored, its credential is still in the
    /// settings, and the maximum number of images allows another row. Otherwise removes the previous row, which is
    /// outdated.
    ///
    /// - Returns: whether the caller's reference to the blob now belongs to the row, and the changes to write
    func keep(_ row: ImageRow) -> (isKept: Bool, changes: [Change]) {
        let old = catalog.entry(row.key)
        var changes: [Change] = []
        guard row.response.reasonNotToStore == nil, !catalog.keys.belongsToRemovedCredential(row),
            old != nil || makePlaceForRow(&changes)
        else {
            if let old, catalog.remove(old) { changes.append(removal(of: [old])) }
            return (false, changes)
        }
        var row = row
        row.isPinned = old?.isPinned ?? false
        if row.isPinned, let old, old.digest != row.digest, row.size > old.size, !mayPin(row.entry) {
            row.isPinned = false
            log.logger.warning(
                "an image was unpinned: its new version is too large to stay pinned",
                metadata: ["url": "\((try? FetchURL(parsing: row.url))?.display ?? "")", "bytes": "\(row.size)"])
        }
        changes.append(put(row, ImageDetails(header: row.header, response: row.response)))
        return (true, changes)
    }

    /// Replaces the row of an image after the origin has confirmed that the bytes are the same.
    ///
    /// - Returns: the change to write; nil if the image is not cached
    func update(_ row: ImageRow) -> Change? {
        guard let old = catalog.entry(row.key) else { return nil }
        guard row.response.reasonNotToStore == nil, !catalog.keys.belongsToRemovedCredential(row) else {
            return catalog.remove(old) ? removal(of: [old]) : nil
        }
        guard accounts.retain(row.digest) else { return nil }
        var row = row
        row.isPinned = old.isPinned
        return put(row, catalog.details(of: old)?.with(row.response))
    }

    /// Changes the catalog. A reference of the caller to the blob becomes that of the row.
    ///
    /// - Parameter details: the details of the image; nil if they have not been loaded
    private func put(_ row: ImageRow, _ details: ImageDetails?) -> Change {
        if let credential = row.credential {
            for number in clearings.keys { clearings[number]?.stored(row.key, credential, catalog.keys) }
        }
        let old = catalog.put(row.entry, details)
        return .put(row, replacing: old, pins.join(row.key, row.isPinned))
    }

    /// Whether the limit on rows allows another row. If the limit is reached, evicts images.
    private func makePlaceForRow(_ changes: inout [Change]) -> Bool {
        let limit = max(1, accounts.limits.count)
        while true {
            let excess = catalog.count - limit + 1
            guard excess > 0 else { return true }
            let (entries, isExhausted) = catalog.takeVictims(limit: excess, bytes: .max)
            if !entries.isEmpty { changes.append(removal(of: entries, isEviction: true)) }
            if entries.isEmpty, isExhausted { return false }
        }
    }

    /// - Parameter isExplicit: whether a client requested the removal
    private func removal(of entries: [ImageEntry], isEviction: Bool = false, isExplicit: Bool = false) -> Change {
        let writes = pins.isEmpty ? [] : entries.compactMap { pins.join($0.key, nil) }
        let hasPins = isExplicit || entries.contains(where: \.isPinned)
        return .removal(Removal(entries: entries, writes: writes, isEviction: isEviction, hasPins: hasPins))
    }

    // MARK: Writing

    /// Makes a change on disk, and undoes it in the catalog if that fails. Calls the disk before it suspends.
    func write(_ change: Change) async {
        switch change {
        case .put(let row, let old, let write):
            do throws(ImageError) {
                try await disk.put(row)
                end(write, hasSucceeded: true)
                // The row of the old blob is no longer on disk, so the reference of that row is released.
                if let old { await releaseRows(of: [old.digest]) }
            } catch {
                log.warn("cannot write the row of an image", error)
                // The old row may still be on disk, so its blob must stay until that row is removed. If the catalog has
                // a newer row, the blob stays until the next start.
                let entries = catalog.remove(row.entry) ? (old.map { [$0] } ?? []) + [row.entry] : []
                let undoing = entries.isEmpty ? nil : removal(of: entries)
                end(write, hasSucceeded: false)
                if let undoing { await self.write(undoing) }
            }
        case .removal(let removal):
            do throws(ImageError) {
                try await finish(removal)
            } catch {
                log.warn("cannot remove rows of the image index", error)
            }
        }
    }

    /// Deletes the rows of removed images, then the files without other references.
    ///
    /// - Returns: the removed files, and the error if one could not be removed
    @discardableResult
    private func finish(_ removal: Removal) async throws(ImageError) -> RemovedFiles {
        do throws(ImageError) {
            try await disk.removeRows(removal.entries.map(\.key), hasPins: removal.hasPins)
        } catch {
            // The rows are still on disk, so their files must stay too.
            for entry in removal.entries { _ = catalog.restore(entry) }
            for write in removal.writes { end(write, hasSucceeded: false) }
            throw error
        }
        for write in removal.writes { end(write, hasSucceeded: true) }
        let removed = await releaseRows(of: removal.entries.map(\.digest))
        if removal.isEviction { catalog.count { $0.evictions += removal.entries.count } }
        return removed
    }

    @discardableResult
    private func releaseRows(of digests: [BlobDigest]) async -> RemovedFiles {
        let unreferenced = catalog.releaseRows(of: digests)
        if unreferenced.isEmpty { return RemovedFiles() }
        let removed = await disk.removeUnreferenced(unreferenced)
        if let failure = removed.failure { log.warn("cannot remove the file of an image", failure) }
        // While a caller of the ``SpaceReclaimer`` evicts images, the freed space belongs to that caller, so no waiter
        // is resumed here.
        if removed.count > 0, !reclaimer.queue.isReclaiming { reclaimer.spaceFreed() }
        return removed
    }

    /// Loads the details of an image into the catalog, which contains no details after a start.
    func loadDetails(_ entry: ImageEntry) async {
        guard catalog.details(of: entry) == nil else { return }
        // If the row cannot be read, the image is still served, without details.
        let row = try? await disk.row(entry.key)
        catalog.setDetails(row?.details ?? .unknown, of: entry)
    }

    // MARK: Removing

    /// Completes the removal of images that were removed from the catalog in the same step: deletes their rows, then
    /// the files without other references.
    ///
    /// The disk is called before the first suspension, so this method never deletes a newer row with the same key.
    ///
    /// - Returns: the removed files, and the error if one could not be removed
    /// - Throws: ``ImageError/Code/cacheFull`` or ``ImageError/Code/storageFailed`` if the rows could not be deleted. The
    ///   images are then back in the catalog, unless they have been replaced
    @discardableResult
    func drop(_ entries: [ImageEntry]) async throws(ImageError) -> RemovedFiles {
        try await finish(entries, isExplicit: true)
    }

    /// Completes the eviction of images that were removed from the catalog, and adds them to the statistics.
    @discardableResult
    func evict(_ entries: [ImageEntry]) async throws(ImageError) -> RemovedFiles {
        try await finish(entries, isEviction: true)
    }

    private func finish(
        _ entries: [ImageEntry], isEviction: Bool = false, isExplicit: Bool = false
    ) async throws(ImageError) -> RemovedFiles {
        guard !entries.isEmpty,
            case .removal(let removal) = removal(of: entries, isEviction: isEviction, isExplicit: isExplicit)
        else { return RemovedFiles() }
        return try await finish(removal)
    }

    /// Removes all images with this blob.
    func removeAll(of digest: BlobDigest) async throws(ImageError) {
        try await removeAll { $0.digest == digest }
    }

    /// Removes the images that meet a condition, in slices.
    ///
    /// - Parameter willRemove: called with each slice before it is removed
    private func removeAll(
        limit: Int = .max, where isIncluded: (ImageEntry) -> Bool,
        willRemove: ([ImageEntry]) -> Void = { _ in }
    ) async throws(ImageError) {
        var slot: UInt32? = 0
        while let next = slot {
            let slice = catalog.take(from: next, limit: limit, where: isIncluded)
            slot = slice.next
            willRemove(slice.entries)
            try await drop(slice.entries)
        }
    }

    /// Removes an image; see ``ImageCache/remove(_:)``.
    func remove(_ key: ImageKey) async throws(ImageError) -> Bool {
        guard let entry = catalog.entry(key), catalog.remove(entry) else { return false }
        try await drop([entry])
        return true
    }

    /// Removes the images under a prefix; see ``ImageCache/remove(_:isTrial:)``.
    func remove(_ prefix: ImagePrefix, isTrial: Bool) async throws(ImageError) -> (images: Int, bytes: Int) {
        var images = 0
        /// The size of each file, and the number of removed images that use it.
        var files: [BlobDigest: (size: Int, images: Int)] = [:]
        var last: ImageKey?
        while true {
            let rows = try await disk.rows(after: last, limit: Self.listSlice)
            guard let end = rows.last else { break }
            last = end.key
            let resolver = catalog.keys
            let matching = rows.filter { prefix.contains($0) && !resolver.belongsToRemovedCredential($0) }
            for start in stride(from: 0, to: matching.count, by: Self.removalSlice) {
                let entries = matching[start..<min(start + Self.removalSlice, matching.count)]
                    .compactMap { catalog.entry($0.key) }.filter { isTrial || catalog.remove($0) }
                images += entries.count
                for entry in entries { files[entry.digest, default: (entry.size, 0)].images += 1 }
                if !isTrial { try await drop(entries) }
            }
        }
        // A file is freed only if no image that uses it is left.
        let freed = files.filter { accounts.rowCount(of: $0.key) == (isTrial ? $0.value.images : 0) }
        return (images, freed.values.reduce(0) { $0 + $1.size })
    }

    /// Removes all images; see ``ImageCache/clear(includingPinned:sparing:)``.
    func clear(
        includingPinned: Bool, sparing isSpared: @escaping @Sendable (ImageOrigin) -> Bool
    ) async throws(ImageError) -> (images: Int, bytes: Int) {
        let resolver = catalog.keys
        lastClearing += 1
        let number = lastClearing
        clearings[number] = Clearing(isSpared: isSpared)
        defer { clearings[number] = nil }
        let spared = try await disk.keys { resolver.origin(ofCredential: $0).map(isSpared) ?? false }
        clearings[number]?.spared.formUnion(spared)
        var images = 0
        var sizes: [BlobDigest: Int] = [:]
        try await removeAll(
            limit: Self.removalSlice,
            where: { entry in
                (includingPinned || !entry.isPinned) && clearings[number]?.spared.contains(entry.key) == false
            },
            willRemove: { entries in
                images += entries.count
                for entry in entries { sizes[entry.digest] = entry.size }
            })
        do throws(ImageError) {
            try await disk.compactIndex()
        } catch {
            log.warn("cannot compact the index of the image cache", error)
        }
        return (images, sizes.reduce(0) { $0 + (accounts.rowCount(of: $1.key) > 0 ? 0 : $1.value) })
    }

    // MARK: Pins

    /// Pins or unpins an image; see ``ImageCache/pin(_:_:)``.
    func pin(_ key: ImageKey, _ isPinned: Bool) async throws(ImageError) -> Bool {
        guard let entry = catalog.entry(key) else { return false }
        if isPinned, !entry.isPinned, !mayPin(entry) {
            throw ImageError(
                .cacheFull,
                "with this image more than \(maxPinnedBytes) bytes, three quarters of the cache, would be pinned; unpin others or raise images.maximumBytes"
            )
        }
        guard catalog.pin(key, isPinned) else { return false }
        let write = pins.begin(key, isPinned, before: entry.isPinned)
        do throws(ImageError) {
            try await disk.pin(key, isPinned)
        } catch {
            end(write, hasSucceeded: false)
            throw error
        }
        end(write, hasSucceeded: true)
        if !isPinned { reclaimer.imagesBecameRemovable() }
        return true
    }

    /// Handles the result of a write to the row of an image. After the last one, the catalog has the state on disk.
    private func end(_ write: PinWrites.Write?, hasSucceeded: Bool) {
        guard let write, let isPinned = pins.end(write, hasSucceeded: hasSucceeded) else { return }
        _ = catalog.pin(write.key, isPinned)
    }

    /// The limit on pinned bytes. It reserves a quarter of the cache for images that are not pinned.
    private var maxPinnedBytes: Int { accounts.limits.bytes / 4 * 3 }

    /// Whether the limit on pinned bytes allows `entry` to be pinned in place of the cached image with the same key.
    private func mayPin(_ entry: ImageEntry) -> Bool {
        let old = catalog.entry(entry.key).flatMap { $0.isPinned ? $0.digest : nil }
        return accounts.read { $0.pinnedBytes(with: entry.digest, insteadOf: old) } <= maxPinnedBytes
    }

    // MARK: Lists

    /// Returns a page of rows; see ``ImageCache/list(after:limit:prefix:)``.
    func list(
        after start: ImageKey?, limit: Int, prefix: ImagePrefix?
    ) async throws(ImageError) -> (rows: [ImageRow], next: String?) {
        var key = start
        let count = max(1, limit)
        var found: [ImageRow] = []
        var scanned = 0
        var isMore = true
        while isMore, found.count < count, scanned < Self.maxScan {
            let size = prefix == nil ? count : Self.listSlice
            // An extra row shows whether there is another page.
            let rows = try await disk.rows(after: key, limit: size + 1)
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
        let resolver = catalog.keys
        return (found.filter { !resolver.belongsToRemovedCredential($0) }, isMore ? key?.description : nil)
    }
}

/// A removal of all images. Images with certain credentials are spared, also those that are stored during the removal.
private struct Clearing {
    let isSpared: @Sendable (ImageOrigin) -> Bool
    var spared: Set<ImageKey> = []

    mutating func stored(_ key: ImageKey, _ credential: String, _ resolver: ImageKeyResolver) {
        if let origin = resolver.origin(ofCredential: credential), isSpared(origin) { spared.insert(key) }
    }
}
