internal import LarderUpstream
internal import Logging

extension ImageCache {
    // MARK: Removing

    /// Finishes the removal of images that were taken out of the catalog just now: their rows, then their files, as far as
    /// nobody refers to them.
    ///
    /// The work for the index is handed in before the first suspension, so that no newer row of the same key is removed.
    ///
    /// - Returns: how many files are gone, and their bytes
    @discardableResult
    func drop(_ entries: [ImageEntry]) async -> (files: Int, bytes: Int) {
        guard !entries.isEmpty else { return (0, 0) }
        return await finishDrop(entries, submitRemoval(entries))
    }

    /// The same, without waiting for it.
    func dropSoon(_ entries: [ImageEntry]) {
        guard !entries.isEmpty else { return }
        let removal = submitRemoval(entries)
        Task { _ = await finishDrop(entries, removal) }
    }

    private func submitRemoval(_ entries: [ImageEntry]) -> DiskResult<Void> {
        let index = index
        let keys = entries.map(\.key)
        return indexQueue.submit { () throws(ImageError) in try index.remove(keys) }
    }

    private func finishDrop(
        _ entries: [ImageEntry], _ removal: DiskResult<Void>
    ) async -> (files: Int, bytes: Int) {
        do throws(ImageError) {
            try await removal.value()
        } catch {
            logger.warning("Rows of the image cache could not be removed", metadata: ["error": "\(error)"])
            // The rows are still on disk, so their files must be, until the next start at the latest.
            for entry in entries { _ = catalog.restore(entry) }
            return (0, 0)
        }
        return await releaseRows(entries.map(\.digest))
    }

    /// Takes back what rows referred to that are gone from the index.
    @discardableResult
    func releaseRows(_ digests: [BlobDigest]) async -> (files: Int, bytes: Int) {
        let last = digests.filter { self.store.releaseRow($0) }
        guard !last.isEmpty else { return (0, 0) }
        let store = store
        let (files, bytes, failure) = await blocking.run {
            var (files, bytes): (Int, Int) = (0, 0)
            var failure: ImageError?
            for digest in last {
                do throws(ImageError) {
                    guard let size = try store.removeUnreferenced(digest) else { continue }
                    (files, bytes) = (files + 1, bytes + size)
                } catch {
                    failure = error
                }
            }
            return (files, bytes, failure)
        }
        if let failure {
            needsSweep = true
            logger.warning("An image's file could not be removed", metadata: ["error": "\(failure)"])
        }
        return (files, bytes)
    }

    /// Removes every image that has a blob.
    func removeRows(of digest: BlobDigest) async throws(ImageError) -> Int {
        var (slot, count): (UInt32?, Int) = (0, 0)
        while let next = slot {
            let slice = catalog.take(from: next) { entry, _ in entry.digest == digest }
            slot = slice.next
            count += slice.entries.count
            await drop(slice.entries)
        }
        return count
    }

    /// Removes an image, pinned or not; no if it was not held. Its file stays for those that have a reference.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``
    public func remove(_ request: ImageRequest) async throws(ImageError) -> Bool {
        let place = try place(of: request)
        guard let entry = catalog.entry(place.key), catalog.remove(entry) else { return false }
        await drop([entry])
        return true
    }

    /// Removes all images that are not pinned, or all.
    ///
    /// - Parameter isSpared: whether what an origin gave to its credential stays
    /// - Returns: how many, and the bytes of all files that no image is left of, although some may stay for a while for
    ///   those that have a reference
    /// - Throws: ``ImageError/Code/storageFailed``
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
            let slice = catalog.take(from: next, limit: 128) { entry, _ in
                (includingPinned || !entry.isPinned) && !spared.contains(entry.key)
            }
            slot = slice.next
            images += slice.entries.count
            for entry in slice.entries { sizes[entry.digest] = entry.size }
            await drop(slice.entries)
        }
        return (images, sizes.reduce(0) { $0 + (store.hasRow($1.key) ? 0 : $1.value) })
    }

    // MARK: Pins and lists

    /// Pins an image or unpins it; no if it is not held.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``, ``ImageError/Code/storageFailed``
    public func pin(_ request: ImageRequest, _ pinned: Bool) async throws(ImageError) -> Bool {
        let key = try place(of: request).key
        guard catalog.pin(key, pinned) else { return false }
        let index = index
        try await indexQueue.submit { () throws(ImageError) in try index.pin(key, pinned) }.value()
        return true
    }

    /// A page of what is held, in no order that means something. A page may have fewer than `limit`.
    ///
    /// - Parameters:
    ///   - after: what the page before gave as `next`; nothing for the first
    ///   - limit: how many at most
    /// - Returns: `next` is nothing on the last page
    /// - Throws: ``ImageError/Code/invalidURL`` for an `after` that no page gave; ``ImageError/Code/storageFailed``
    public func list(after: String?, limit: Int) async throws(ImageError) -> (rows: [ImageRow], next: String?) {
        var key: ImageKey?
        if let after {
            key = ImageKey(hex: after)
            guard key != nil else {
                throw ImageError(.invalidURL, "after is not what a page before gave as next; begin without it")
            }
        }
        let (index, count) = (index, max(1, limit))
        let rows = try await indexQueue.submit { [key] () throws(ImageError) in
            // One more shows whether there is another page.
            try index.rows(after: key, limit: count + 1)
        }.value()
        let (page, lookup) = (rows.prefix(count), catalog.lookup)
        return (page.filter { !lookup.isForgotten($0) }, rows.count > count ? page.last?.key.description : nil)
    }

    func place(of request: ImageRequest) throws(ImageError) -> ImagePlace {
        guard let place = catalog.lookup.place(of: request) else {
            throw ImageError(.invalidURL, ImageAddress.refusal(of: request.url))
        }
        return place
    }

    // MARK: Room

    /// Removes what may go until there is as much room as is wanted, a slice at a time. Nothing goes where even everything
    /// would not be enough: a disk that others filled is no reason to lose what is held.
    ///
    /// One caller at a time. What is about to go for one is no longer there to be chosen, and not gone yet: another would
    /// take what is left as well, or find nothing and give up. It waits instead.
    ///
    /// - Returns: whether anything went, so that it is worth trying again
    func makeRoom(_ shortage: SpaceShortage) async -> Bool {
        if let other = roomMaking {
            _ = await other.value
            return true
        }
        let making = Task {
            let result = await removeVictims(shortage)
            roomMaking = nil
            return result
        }
        roomMaking = making
        return await withTaskCancellationHandler {
            await making.value
        } onCancel: {
            making.cancel()
        }
    }

    private func removeVictims(_ shortage: SpaceShortage) async -> Bool {
        let usage = store.usage
        guard shortage.bytes <= usage.bytes - store.leases.bytes, shortage.count <= usage.count else { return false }
        var (files, bytes) = (0, 0)
        while files < shortage.count || bytes < shortage.bytes {
            let wanted = shortage.bytes - bytes
            let slice =
                wanted > 0
                ? catalog.takeVictims(limit: 64, bytes: wanted)
                : catalog.takeVictims(limit: min(64, shortage.count - files), bytes: .max)
            let gone = await drop(slice.entries)
            files += gone.files
            bytes += gone.bytes
            if slice.isExhausted && slice.entries.isEmpty || Task.isCancelled { break }
        }
        return files > 0
    }

    /// Removes what is over the limits.
    func shrink() async {
        let store = store
        while !Task.isCancelled {
            let shortage = await blocking.run { () -> SpaceShortage? in try? store.excess() }
            guard let shortage, await makeRoom(shortage) else { break }
        }
        while catalog.statistics.entries > store.limits.count {
            let over = catalog.statistics.entries - store.limits.count
            let slice = catalog.takeVictims(limit: min(64, over), bytes: .max)
            await drop(slice.entries)
            if slice.isExhausted && slice.entries.isEmpty { break }
        }
    }
}
