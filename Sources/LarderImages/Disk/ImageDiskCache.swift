internal import LarderPlatform
internal import Synchronization

/// The images on disk: files, and the index of their rows. All methods that access the disk run on the threads of
/// ``BlockingWork``.
///
/// Changes to the index run one at a time, in the order of submission. ``ImageCache`` submits each change in the same
/// step in which it changes its ``ImageCatalog``, so disk and memory change in the same order. The caller stores a row
/// after its file was published, and removes a file after its last row was removed.
final class ImageDiskCache: Sendable {
    let blobs: BlobStore
    let blocking: BlockingWork
    let indexQueue: SerialDiskQueue
    /// Runs the removals of files whose last reference was released.
    private let removals: SerialDiskQueue
    private let hasLeftovers = Atomic(false)

    private let opening = Mutex(Opening.pending)
    private let changeFailure = Mutex<ImageError?>(nil)

    private enum Opening {
        case pending
        case open(ImageIndex)
        case failed(ImageError)
    }

    init(blobs: BlobStore, blocking: BlockingWork) {
        (self.blobs, self.blocking) = (blobs, blocking)
        indexQueue = SerialDiskQueue(blocking)
        removals = SerialDiskQueue(blocking)
    }

    /// Opens the index. All work on the index that is submitted later follows, and fails if the index cannot be opened.
    func open(_ body: @escaping @Sendable () throws(ImageError) -> ImageIndex) -> DiskFuture<Void> {
        indexQueue.submit { [self] () throws(ImageError) in
            do throws(ImageError) {
                let index = try body()
                opening.withLock { $0 = .open(index) }
            } catch {
                opening.withLock { $0 = .failed(error) }
                throw error
            }
        }
    }

    /// The index; nil while it is being opened, and if it cannot be opened.
    var openIndex: ImageIndex? { opening.withLock { if case .open(let index) = $0 { index } else { nil } } }

    /// Why the index cannot be opened; nil if it is open or being opened.
    var openingFailure: ImageError? { opening.withLock { if case .failed(let error) = $0 { error } else { nil } } }

    /// Submits work on the index.
    private func use<Value: Sendable>(
        _ body: @escaping @Sendable (ImageIndex) throws(ImageError) -> Value
    ) -> DiskFuture<Value> {
        indexQueue.submit { [self] () throws(ImageError) in
            guard let index = openIndex else { throw openingFailure ?? ImageCache.shuttingDown }
            return try body(index)
        }
    }

    /// Submits a change of the index.
    private func change(_ body: @escaping @Sendable (ImageIndex) throws(ImageError) -> Void) -> DiskFuture<Void> {
        use { [self] index throws(ImageError) in
            do throws(ImageError) {
                try body(index)
            } catch {
                changeFailure.withLock { $0 = error }
                throw error
            }
            changeFailure.withLock { $0 = nil }
        }
    }

    /// Why the last change of the index could not be written; nil if it was written.
    var writeProblem: ImageError? { changeFailure.withLock { $0 } }

    /// Tries to write to the index if its last change could not be written.
    func retryWriting() async {
        if writeProblem == nil { return }
        try? await change { index throws(ImageError) in try index.tryWriting() }.value()
    }

    // MARK: Rows

    /// Adds a row, or replaces the row with the same key.
    func store(_ row: ImageRow) -> DiskFuture<Void> {
        change { index throws(ImageError) in try index.put([row]) }
    }

    /// Removes rows.
    ///
    /// - Parameter hasPins: whether one of the images is pinned or a client requested the removal. The index is then
    ///   copied within a minute
    func removeRows(_ keys: [ImageKey], hasPins: Bool) -> DiskFuture<Void> {
        change { index throws(ImageError) in try index.remove(keys, hasPins: hasPins) }
    }

    func pin(_ key: ImageKey, _ isPinned: Bool) -> DiskFuture<Void> {
        change { index throws(ImageError) in try index.pin(key, isPinned) }
    }

    /// Records when images were last used.
    func touch(_ uses: [(key: ImageKey, time: Int)]) -> DiskFuture<Void> {
        change { index throws(ImageError) in try index.touch(uses) }
    }

    /// Returns the row of an image; nil if it does not exist or is damaged.
    func row(_ key: ImageKey) async throws(ImageError) -> ImageRow? {
        try await use { index throws(ImageError) in try index.row(key) }.value()
    }

    /// Returns up to `limit` rows in the order of their keys.
    func rows(after key: ImageKey?, limit: Int) async throws(ImageError) -> [ImageRow] {
        try await use { index throws(ImageError) in try index.rows(after: key, limit: limit) }
            .value()
    }

    /// Returns the keys of images that were fetched with certain credentials.
    ///
    /// - Parameter isIncluded: whether to include the credential of this name
    func keys(ofCredentials isIncluded: @escaping @Sendable (String) -> Bool) async throws(ImageError) -> [ImageKey] {
        try await use { index throws(ImageError) in try index.keys(ofCredentials: isIncluded) }
            .value()
    }

    // MARK: The index as a whole

    /// Reserves disk space that allows rows to be removed when the disk is full.
    func keepReserve() async {
        try? await use { index throws(ImageError) in index.keepReserve() }.value()
    }

    /// Copies the index in slices. Other work on the index runs between them.
    ///
    /// - Throws: ``ImageError/Code/shuttingDown`` if the agent stops, and the errors of the disk
    func copyIndex() async throws(ImageError) {
        guard let index = openIndex else { return }
        let changes = try await use { index throws(ImageError) in try index.beginCopy() }.value()
        do throws(ImageError) {
            while try await !use({ index throws(ImageError) in try index.continueCopy(pages: 256) }).value() {
                if blobs.isInterrupted { throw ImageCache.shuttingDown }
            }
            try await blocking.run { () throws(ImageError) in try index.publishCopy() }
        } catch {
            await blocking.run { index.abandonCopy(changes) }
            throw blobs.isInterrupted ? ImageCache.shuttingDown : error
        }
    }

    /// Leaves the copy of the last changes to the next start.
    func deferCopy() async {
        try? await use { index throws(ImageError) in index.deferCopy() }.value()
    }

    /// Compacts the index if removed rows take most of its disk space.
    func compactIndex() async throws(ImageError) {
        try await use { index throws(ImageError) in try index.compact() }.value()
    }

    // MARK: Files

    /// Opens the file of a blob to which the caller has a reference. Hashes the file, unless this process has hashed it
    /// before.
    ///
    /// - Throws: as ``BlobStore/open(_:)``
    func verify(_ digest: BlobDigest) async throws(ImageError) {
        _ = try await blocking.run { [blobs] () throws(ImageError) in try blobs.open(digest) }
    }

    /// Releases the references of rows that are no longer in the index, and removes the files that have no other
    /// reference.
    func releaseRows(of digests: [BlobDigest]) async -> RemovedFiles {
        let last = digests.filter { blobs.releaseRow($0) }
        guard !last.isEmpty else { return RemovedFiles() }
        let removed = await blocking.run { [blobs] in
            var removed = RemovedFiles()
            for digest in last {
                do throws(ImageError) {
                    guard let size = try blobs.removeUnreferenced(digest) else { continue }
                    removed.count += 1
                    removed.bytes += size
                } catch {
                    removed.failure = error
                }
            }
            return removed
        }
        if removed.failure != nil { hasLeftovers.store(true, ordering: .relaxed) }
        return removed
    }

    /// Removes the file of a blob in the background if it is unreferenced.
    ///
    /// - Parameter done: called on any thread with whether the file was removed
    func removeUnreferenced(_ digest: BlobDigest, done: @escaping @Sendable (Result<Bool, ImageError>) -> Void) {
        removals.submit { [blobs] () throws(ImageError) in
            do throws(ImageError) {
                done(.success(try blobs.removeUnreferenced(digest) != nil))
            } catch {
                done(.failure(error))
            }
        }
    }

    /// Whether ``releaseRows(of:)`` failed to remove a file since the last call of this method. A sweep removes such
    /// files.
    func takeLeftovers() -> Bool { hasLeftovers.exchange(false, ordering: .relaxed) }

    /// Returns the minimum that must be evicted until the cache is within its limits; nil if it already is.
    func excess() async throws(ImageError) -> SpaceShortage? {
        try await blocking.run { [blobs] () throws(ImageError) in try blobs.excess() }
    }

    /// Removes the unreferenced files from one of the parts of the cache directory that a sweep visits in turn.
    func sweep(step: Int) async throws(ImageError) -> BlobSweeper.Slice {
        try await blocking.run { [blobs] () throws(ImageError) in try blobs.sweeper.sweep(step: step) }
    }

    /// Returns the blobs whose files another program removed, and the first error if a file could not be checked.
    func missing(among digests: [BlobDigest]) async -> (missing: Set<BlobDigest>, failure: ImageError?) {
        await blocking.run { [blobs] in blobs.sweeper.missing(among: digests) }
    }

    // MARK: The stop

    /// Waits for all work that was submitted before this call.
    func settle() async {
        try? await removals.submit { () throws(ImageError) in }.value()
        try? await indexQueue.submit { () throws(ImageError) in }.value()
    }

    /// Records on disk that the cache was stopped in an orderly way. Call this method last.
    func markClean() async throws(ImageError) {
        // Without the rows it is unknown which files were verified.
        if openIndex == nil, blobs.isUnclean { return }
        try await indexQueue.submit { [blobs] () throws(ImageError) in try blobs.markClean() }.value()
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
    let blocking: BlockingWork

    /// Runs a step of the writer on a thread of ``BlockingWork``.
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
