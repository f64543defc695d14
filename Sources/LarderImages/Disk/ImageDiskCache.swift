internal import LarderPlatform
internal import Synchronization

/// The images on disk: their files, and the index that names them. All methods that wait for the disk do so on the threads of
/// ``BlockingWork``.
///
/// Changes of the index run one after the other, in the order in which they were submitted. ``ImageCache`` submits each
/// change in the same step in which it changes its ``ImageCatalog``, so disk and memory change in the same order. The caller
/// stores a row after its file was published, and removes a file when the removal of its last row is complete.
final class ImageDiskCache: Sendable {
    let blobs: BlobStore
    let index: ImageIndex
    let blocking: BlockingWork
    let indexQueue: SerialDiskQueue
    /// The removal of files whose last reference was released.
    private let removals: SerialDiskQueue
    private let hasLeftovers = Atomic(false)

    init(blobs: BlobStore, index: ImageIndex, blocking: BlockingWork) {
        (self.blobs, self.index, self.blocking) = (blobs, index, blocking)
        indexQueue = SerialDiskQueue(blocking)
        removals = SerialDiskQueue(blocking)
    }

    // MARK: Rows

    /// Adds a row, or replaces the one with the same key.
    func store(_ row: ImageRow) -> DiskFuture<Void> {
        indexQueue.submit { [index] () throws(ImageError) in try index.put([row]) }
    }

    /// Removes rows.
    ///
    /// - Parameter hasPins: whether pinned images are among them, so that the copy of the index follows within a minute
    func removeRows(_ keys: [ImageKey], hasPins: Bool) -> DiskFuture<Void> {
        indexQueue.submit { [index] () throws(ImageError) in try index.remove(keys, hasPins: hasPins) }
    }

    func pin(_ key: ImageKey, _ isPinned: Bool) -> DiskFuture<Void> {
        indexQueue.submit { [index] () throws(ImageError) in try index.pin(key, isPinned) }
    }

    /// Notes when images were used last.
    func touch(_ uses: [(key: ImageKey, time: Int)]) -> DiskFuture<Void> {
        indexQueue.submit { [index] () throws(ImageError) in try index.touch(uses) }
    }

    /// Returns the row of an image; nil if there is none or it is damaged.
    func row(_ key: ImageKey) async throws(ImageError) -> ImageRow? {
        try await indexQueue.submit { [index] () throws(ImageError) in try index.row(key) }.value()
    }

    /// Returns a page of rows in the order of their keys.
    func rows(after key: ImageKey?, limit: Int) async throws(ImageError) -> [ImageRow] {
        try await indexQueue.submit { [index] () throws(ImageError) in try index.rows(after: key, limit: limit) }
            .value()
    }

    /// Returns the keys of images that some credentials opened.
    ///
    /// - Parameter isIncluded: whether a credential, by its name, is one of them
    func keys(ofCredentials isIncluded: @escaping @Sendable (String) -> Bool) async throws(ImageError) -> [ImageKey] {
        try await indexQueue.submit { [index] () throws(ImageError) in try index.keys(ofCredentials: isIncluded) }
            .value()
    }

    // MARK: The index as a whole

    /// Keeps some of the disk back for removals of rows.
    func keepReserve() async {
        try? await indexQueue.submit { [index] () throws(ImageError) in index.keepReserve() }.value()
    }

    /// Copies the index in slices. Other work on the index runs between them.
    func copyIndex() async throws(ImageError) {
        let changes = try await indexQueue.submit { [index] () throws(ImageError) in try index.beginCopy() }.value()
        do throws(ImageError) {
            while try await !indexQueue.submit({ [index] () throws(ImageError) in try index.continueCopy(pages: 256) })
                .value()
            {}
            try await blocking.run { [index] () throws(ImageError) in try index.publishCopy() }
        } catch {
            await blocking.run { [index] in index.abandonCopy(changes) }
            throw error
        }
    }

    /// Returns the disk space of removed rows to the file system if it is most of the index.
    func compactIndex() async throws(ImageError) {
        try await indexQueue.submit { [index] () throws(ImageError) in try index.compact() }.value()
    }

    // MARK: Files

    /// Opens the file of a blob to which the caller refers, and hashes it if this process has not done so yet.
    ///
    /// - Throws: as ``BlobStore/open(_:)``
    func verify(_ digest: BlobDigest) async throws(ImageError) {
        _ = try await blocking.run { [blobs] () throws(ImageError) in try blobs.open(digest) }
    }

    /// Releases the references of rows that the index no longer has, and removes the files that have no other reference.
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

    /// Removes the file of a blob, in the background, if it has no reference.
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

    /// Whether files that ``releaseRows(of:)`` could not remove are left since this was called last. A sweep removes them.
    func takeLeftovers() -> Bool { hasLeftovers.exchange(false, ordering: .relaxed) }

    /// Returns what has to be removed before the limits hold.
    func excess() async throws(ImageError) -> SpaceShortage? {
        try await blocking.run { [blobs] () throws(ImageError) in try blobs.excess() }
    }

    /// Removes the files of one slice that have no reference.
    func sweep(_ position: BlobStore.SweepPosition) async throws(ImageError) -> BlobStore.SweepSlice {
        try await blocking.run { [blobs] () throws(ImageError) in try blobs.sweep(position) }
    }

    /// Returns the blobs whose files another program removed.
    func missing(among digests: [BlobDigest]) async throws(ImageError) -> Set<BlobDigest> {
        try await blocking.run { [blobs] () throws(ImageError) in try blobs.missing(among: digests) }
    }

    // MARK: Start and stop

    /// Removes a part of a cache in an older layout that was set aside when the index was opened.
    ///
    /// - Returns: whether there is more
    func removeOutdated() async throws(ImageError) -> Bool {
        try await blocking.run { [blobs] () throws(ImageError) in try !OutdatedImages(blobs).remove(limit: 1000) }
    }

    /// Returns what a cache in an older layout contained, once.
    func takeOutdatedContents() async throws(ImageError) -> (version: Int, contents: OutdatedImages.Contents)? {
        try await blocking.run { [blobs] () throws(ImageError) in try OutdatedImages(blobs).takeContents() }
    }

    /// Returns once all work that was submitted before is done.
    func settle() async {
        try? await removals.submit { () throws(ImageError) in }.value()
        try? await indexQueue.submit { () throws(ImageError) in }.value()
    }

    /// Notes an orderly stop. Call it last.
    func markClean() async throws(ImageError) {
        try await indexQueue.submit { [blobs] () throws(ImageError) in try blobs.markClean() }.value()
    }
}

/// The result of the removal of files.
struct RemovedFiles: Sendable {
    /// The number of removed files.
    var count = 0
    /// Their disk space.
    var bytes = 0
    /// Why one of the others could not be removed.
    var failure: ImageError?
}
