internal import LarderPlatform

/// The images on disk: the names of their files, and the index of their rows. The actor runs on the threads of
/// ``BlockingThreadPool``.
///
/// Changes run one at a time, in the order of the calls (``DiskExecutor``). ``ImageCache`` calls each change in the same
/// step in which it changes its ``ImageCatalog``, so disk and memory change in the same order. The caller stores a row
/// after its file was published, and removes a file after its last row was removed.
///
/// Work on the bytes of one file needs no order, and may take long: writing, hashing and fsync(2) run on other threads,
/// and the actor only adds and removes the name.
actor ImageDiskCache {
    nonisolated let accounts: BlobAccounts
    /// Creates the writers of new images.
    nonisolated let writers: BlobWriters
    /// Whether the last stop was not orderly. All files are then verified in the background.
    nonisolated let isUnclean: Bool
    /// The path of the cache directory.
    nonisolated let directory: String
    nonisolated let blocking: BlockingThreadPool
    private nonisolated let executor: DiskExecutor
    let store: BlobStore
    /// The index; nil while it is being opened, and if it cannot be opened.
    private(set) var index: ImageIndex?
    private var openingFailure: ImageError?
    private var hasLeftovers = false
    /// Whether the last change of the index could not be written.
    private var isWriteDue = false

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ store: sending BlobStore, _ blocking: BlockingThreadPool) {
        (accounts, writers, isUnclean, directory) = (store.accounts, store.writers, store.isUnclean, store.path)
        (self.blocking, executor) = (blocking, DiskExecutor(blocking))
        self.store = store
    }

    nonisolated var files: any DirectoryFiles { writers.files }

    /// Waits for the changes that were submitted before this call if there are at least 1,024. Without that, downloads
    /// that are faster than the disk would fill the memory with changes.
    nonisolated func waitForRoom() async {
        if executor.count >= 1024 { await run() }
    }

    private func run() {}

    /// Opens the index, and adds its rows to the tables in memory. Call this method first: all work on the index fails if
    /// the index cannot be opened.
    func open(clock: ImageClock, log: ImageCacheLog) throws(ImageError) {
        do throws(ImageError) {
            let opened = try ImageIndex.open(in: store, now: clock.now)
            log.indexOpened(opened.condition)
            store.register.adopt(opened.table)
            index = opened.index
        } catch {
            openingFailure = error
            store.register.setOpening(.failed(error))
            throw error
        }
        store.register.setOpening(.open)
    }

    private func use<Value>(_ body: (ImageIndex) throws(ImageError) -> Value) throws(ImageError) -> Value {
        guard let index else { throw openingFailure ?? ImageError.shuttingDown }
        return try body(index)
    }

    /// Changes the index.
    private func change(_ body: (ImageIndex) throws(ImageError) -> Void) throws(ImageError) {
        try use { index throws(ImageError) in
            do throws(ImageError) {
                try body(index)
            } catch {
                isWriteDue = true
                store.register.setWriteProblem(error)
                throw error
            }
            if isWriteDue { store.register.setWriteProblem(nil) }
            isWriteDue = false
        }
    }

    /// Tries to write to the index if its last change could not be written.
    func retryWriting() {
        if isWriteDue { try? change { index throws(ImageError) in try index.tryWriting() } }
    }

    // MARK: Rows

    /// Adds a row, or replaces the row with the same key.
    func put(_ row: ImageRow) throws(ImageError) {
        try change { index throws(ImageError) in try index.put([row]) }
    }

    /// Removes rows.
    ///
    /// - Parameter hasPins: whether one of the images is pinned or a client requested the removal. The index is then
    ///   copied within a minute
    func removeRows(_ keys: [ImageKey], hasPins: Bool) throws(ImageError) {
        try change { index throws(ImageError) in try index.remove(keys, hasPins: hasPins) }
    }

    func pin(_ key: ImageKey, _ isPinned: Bool) throws(ImageError) {
        try change { index throws(ImageError) in try index.pin(key, isPinned) }
    }

    /// Records when images were last used.
    func touch(_ uses: [(key: ImageKey, time: Int)]) throws(ImageError) {
        try change { index throws(ImageError) in try index.touch(uses) }
    }

    /// Returns the row of an image; nil if it does not exist or is damaged.
    func row(_ key: ImageKey) throws(ImageError) -> ImageRow? {
        try use { index throws(ImageError) in try index.row(key) }
    }

    /// Returns up to `limit` rows in the order of their keys.
    func rows(after key: ImageKey?, limit: Int) throws(ImageError) -> [ImageRow] {
        try use { index throws(ImageError) in try index.rows(after: key, limit: limit) }
    }

    /// Returns the keys of images that were fetched with certain credentials.
    ///
    /// - Parameter isIncluded: whether to include the credential of this name
    func keys(ofCredentials isIncluded: @Sendable (String) -> Bool) throws(ImageError) -> [ImageKey] {
        try use { index throws(ImageError) in try index.keys(ofCredentials: isIncluded) }
    }

    // MARK: The index as a whole

    /// Reserves disk space that allows rows to be removed when the disk is full.
    func keepReserve() { index?.keepReserve() }

    /// The changes that the copy of the index does not contain yet; nil if the index is not open.
    var unsavedChanges: ImageIndex.Unsaved? { index?.unsavedChanges }

    /// When the copy of the index was written, in seconds since 1970; nil if there is no copy.
    nonisolated var copyTime: Int? { IndexCopy.time(in: directory) }

    /// Copies the index in slices. Other work on the index runs between them.
    ///
    /// - Throws: ``ImageError/Code/shuttingDown`` if the agent stops, and the errors of the disk
    nonisolated func copyIndex() async throws(ImageError) {
        guard let (copy, changes) = try await beginCopy() else { return }
        do throws(ImageError) {
            while try await !continueCopy() { if accounts.isInterrupted { throw ImageError.shuttingDown } }
            try await blocking.run { () throws(ImageError) in try copy.publish() }
        } catch {
            await abandonCopy(changes)
            throw accounts.isInterrupted ? ImageError.shuttingDown : error
        }
    }

    private func beginCopy() throws(ImageError) -> (IndexCopy, ImageIndex.Unsaved)? {
        guard let index else { return nil }
        return (index.copy, try index.beginCopy())
    }

    private func continueCopy() throws(ImageError) -> Bool {
        try use { index throws(ImageError) in try index.continueCopy(pages: 256) }
    }

    private func abandonCopy(_ changes: ImageIndex.Unsaved) { index?.abandonCopy(changes) }

    /// Leaves the copy of the last changes to the next start.
    func deferCopy() { index?.deferCopy() }

    /// Whether the index is small enough to be copied at the stop of the agent.
    var isCopiedAtStop: Bool { index?.isCopiedAtStop ?? false }

    /// Compacts the index if removed rows take most of its disk space.
    func compactIndex() throws(ImageError) { try use { index throws(ImageError) in try index.compact() } }

    // MARK: Files

    /// Publishes the image of a writer if its length, digest, header and end are valid. The caller then has a reference
    /// to it.
    ///
    /// - Parameter expectedDigest: the digest that the caller expects, if any
    /// - Throws: ``ImageError``. The image is not published then, and the temporary file is removed
    nonisolated func publish(
        _ writer: BlobWriter, expectedDigest: BlobDigest? = nil
    ) async throws(ImageError) -> PublishedBlob {
        let sealed = try await blocking.run { () throws(ImageError) in try writer.seal(expectedDigest: expectedDigest) }
        try await publish(sealed)
        let digest = sealed.blob.digest
        do throws(FileError) {
            try await blocking.run { [files] () throws(FileError) in
                try files.synchronizeDirectory(BlobFiles.shard(digest.shard))
            }
        } catch {
            try await undoPublication(of: digest)
            throw error.asImageError
        }
        return sealed.blob
    }

    private func publish(_ sealed: SealedBlob) throws(ImageError) {
        do throws(FileError) { try store.blobs.publish(sealed) } catch { throw error.asImageError }
    }

    private func undoPublication(of digest: BlobDigest) throws(ImageError) {
        try ImageError.from { () throws(FileError) in try store.blobs.undoPublication(of: digest) }
    }

    /// Opens the file of a blob to which the caller has a reference. Hashes the file, unless this process has hashed it
    /// before.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if the file is missing, or if its hash differs from its name. A
    ///   damaged file is removed, and the caller must delete the rows of the blob. ``ImageError/Code/storageFailed``
    nonisolated func open(_ digest: BlobDigest) async throws(ImageError) -> BlobFile {
        let isVerified = accounts.isVerified(digest)
        let opening: BlobFiles.Opening
        do throws(FileError) {
            opening = try await blocking.run { [files] () throws(FileError) in
                try BlobFiles.open(digest, in: files, isVerified: isVerified)
            }
        } catch {
            throw error.asImageError
        }
        if isVerified, case .whole(let file) = opening { return file }
        return try await complete(opening, of: digest)
    }

    private func complete(_ opening: BlobFiles.Opening, of digest: BlobDigest) throws(ImageError) -> BlobFile {
        try store.complete(opening, of: digest)
    }

    /// Removes the files of those blobs that are unreferenced.
    func removeUnreferenced(_ digests: [BlobDigest]) -> RemovedFiles {
        var removed = RemovedFiles()
        for digest in digests {
            do throws(ImageError) {
                guard let size = try store.removeUnreferenced(digest) else { continue }
                removed.count += 1
                removed.bytes += size
            } catch {
                removed.failure = error
            }
        }
        if removed.failure != nil { hasLeftovers = true }
        return removed
    }

    /// Whether ``removeUnreferenced(_:)`` failed to remove a file since the last call of this method. A sweep removes such
    /// files.
    func takeLeftovers() -> Bool {
        defer { hasLeftovers = false }
        return hasLeftovers
    }

    /// Returns the minimum that must be evicted until the cache is within its limits; nil if it already is.
    nonisolated func excess() async throws(ImageError) -> SpaceShortage? {
        try await blocking.run { [writers] () throws(ImageError) in try writers.excess() }
    }

    /// Removes the unreferenced files from one of the parts of the cache directory that a sweep visits in turn.
    func sweep(step: Int) throws(ImageError) -> BlobSweeper.Slice { try store.sweeper.sweep(step: step) }

    /// Returns the blobs whose files another program removed, and the first error if a file could not be checked.
    nonisolated func missing(among digests: [BlobDigest]) async -> (missing: Set<BlobDigest>, failure: ImageError?) {
        let check = await blocking.run { [files] in BlobSweeper.check(digests, in: files) }
        return await missing(after: check)
    }

    private func missing(after check: BlobSweeper.Check) -> (Set<BlobDigest>, ImageError?) {
        store.sweeper.missing(after: check)
    }

    // MARK: The stop

    /// Returns after all work that was submitted before this call.
    func settle() {}

    /// Records on disk that the cache was stopped in an orderly way. Call this method last.
    func markClean() throws(ImageError) {
        // Without the rows it is unknown which files were verified.
        if index == nil, isUnclean { return }
        try store.markClean()
    }
}

/// The result of removing files.
struct RemovedFiles: Sendable {
    /// The number of removed files.
    var count = 0
    /// The disk space of the removed files.
    var bytes = 0
    /// The last error, if a file could not be removed.
    var failure: ImageError?
}

/// Frees disk space for downloads and puts, and is notified of failed attempts. ``ImageCache`` conforms to it.
protocol DownloadOwner: Sendable {
    /// Evicts images to resolve a shortage.
    ///
    /// - Returns: whether there may be room now, so that the caller should retry
    /// - Throws: ``ImageError`` if nothing can be evicted
    func reclaim(_ shortage: SpaceShortage, for id: TransferID) async throws(ImageError) -> Bool

    /// Records that a transfer has obtained the space that was freed for it.
    func spaceFound(by id: TransferID) async

    /// Handles the failure of an attempt of a download that will be retried.
    func attemptFailed(_ id: TransferID, _ error: ImageError) async
}

/// Retries the steps of a writer until disk space is available.
struct SpaceRetry: Sendable {
    /// The maximum number of times that space is freed for one step. Once may not suffice, because other writers may
    /// take the freed space: on a busy machine with eight writers, some steps need more than 64 attempts. Whenever that
    /// happens, another writer makes progress. If there is still no space after the last attempt, the step fails.
    private static let maxRequests = 4096

    let id: TransferID
    let space: any DownloadOwner
    let blocking: BlockingThreadPool

    /// Runs a step of the writer on a thread of ``BlockingThreadPool``.
    ///
    /// - Throws: the errors of the step, including ``ImageError/Code/cacheFull`` after all retries, and those of
    ///   ``DownloadOwner/reclaim(_:for:)``
    func run<Value: Sendable>(
        _ step: @escaping @Sendable () throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        var requests = 0
        while true {
            do throws(ImageError) {
                let value = try await blocking.run(step)
                if requests > 0 { await space.spaceFound(by: id) }
                return value
            } catch {
                requests += 1
                guard let shortage = error.shortage, requests <= Self.maxRequests, !Task.isCancelled,
                    try await space.reclaim(shortage, for: id)
                else { throw error }
            }
        }
    }
}
