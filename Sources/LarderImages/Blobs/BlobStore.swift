import Glibc
package import LarderImageFormats
internal import LarderPlatform
internal import Synchronization

/// Stores images on disk. Each file is named by the SHA-256 of its bytes, never changes, and stays as long as it is
/// referenced.
///
/// The cache directory contains `lock`, `clean` (present only after an orderly stop, while no agent runs), `tmp/`, and
/// up to 256 shard directories with files such as `blobs/ab/abcd…`. The store survives `kill -9` at any point:
///
/// - Bytes are written to a file in `tmp/`, which no reader opens. link(2) adds the name in `blobs/` in one step, after
///   length, digest and header have been checked and the bytes are durable. A name in `blobs/` therefore never refers
///   to a partial file.
/// - The caller writes an index row after ``BlobWriter/finish(expectedDigest:)`` and deletes it before
///   ``removeUnreferenced(_:)``. A row therefore always has its file. A kill can leave a file without a row: an orphan.
/// - ``sweeper`` finds orphans, slice by slice. It removes only files that are unreferenced at that moment, under the
///   lock that also guards the addition and removal of names. A new image with the same bytes as an orphan uses the
///   file of the orphan.
/// - Disks can corrupt data, and a power failure may damage files that were reported as durable. Each process therefore
///   hashes a file from an earlier process before it first serves the file, and removes the file if the hash differs
///   from the file name. After a stop that was not orderly, all files are also verified in the background.
///
/// ``retain(_:)``, ``release(_:)``, ``adopt(_:size:)``, ``update(limits:imageLimits:)`` and ``usage`` access only
/// memory. Methods that access files block the calling thread.
package final class BlobStore: Sendable {
    /// The space in use.
    package struct Usage: Sendable, Hashable {
        /// Disk space of images and their directories, in bytes.
        package let bytes: Int
        /// The number of images.
        package let count: Int
        /// Disk space reserved for images that are being written, including the directories that they may add.
        package let reservedBytes: Int
    }

    /// The path of the cache directory, as passed to the initializer.
    package let path: String
    /// Whether the last stop was not orderly. All files are then verified in the background.
    package let isUnclean: Bool
    /// Removes files that no blob refers to.
    package let sweeper: BlobSweeper
    let blobs: BlobFiles
    private let lock: FileLock
    private let interruption = Atomic(false)

    /// Opens the cache directory, and creates it if it does not exist.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse`` with the PID of the process that has locked it;
    ///   ``ImageError/Code/storageFailed``
    package convenience init(
        path: String, limits: SpaceLimits = SpaceLimits(), imageLimits: ImageLimits = ImageLimits()
    ) throws(ImageError) {
        let files: LocalCacheFiles
        do throws(CacheFileError) { files = try LocalCacheFiles(path: path) } catch { throw error.asImageError }
        try self.init(path: path, files: files, limits: limits, imageLimits: imageLimits)
    }

    init(
        path: String, files: any CacheFiles, limits: SpaceLimits = SpaceLimits(),
        imageLimits: ImageLimits = ImageLimits()
    ) throws(ImageError) {
        self.path = path
        let table = BlobTable(ledger: SpaceLedger(limits: limits), imageLimits: imageLimits)
        blobs = BlobFiles(files, table)
        sweeper = BlobSweeper(blobs: blobs)
        lock = try FileLock(cacheDirectory: path)
        do throws(CacheFileError) {
            let isNew = try files.createDirectory("blobs")
            _ = try files.createDirectory("tmp")
            // The removal of `clean` must be durable before anything else changes. Otherwise a later crash could look
            // like an orderly stop.
            isUnclean = try !files.remove("clean") && !isNew
            try files.synchronizeDirectory(".")
            try blobs.measureDirectories()
        } catch {
            throw error.asImageError
        }
    }

    /// The files of the cache directory, in which the index also has its files.
    var files: any CacheFiles { blobs.files }

    /// Whether work that takes long, on the index or its copy, must end, because the agent stops.
    var isInterrupted: Bool {
        get { interruption.load(ordering: .relaxed) }
        set { interruption.store(newValue, ordering: .relaxed) }
    }

    /// The space in use now.
    package var usage: Usage {
        blobs.withTable { table in
            Usage(
                bytes: table.ledger.bytes + table.ledger.directoryBytes, count: table.ledger.count,
                reservedBytes: table.ledger.promisedBytes)
        }
    }

    /// `bytes` is the disk space of leased blobs, that is, of blobs with references other than those of rows.
    /// `leftoverBytes` is the part of it that belongs to blobs without a row.
    var leases: (bytes: Int, leftoverBytes: Int) { blobs.withTable { ($0.leasedBytes, $0.leftoverBytes) } }

    /// The blobs that must not be evicted because they are leased or pinned: their number, and their disk space
    /// including that of their directories.
    var retained: (bytes: Int, count: Int) {
        blobs.withTable { ($0.retainedBytes, $0.retained.count) }
    }

    var limits: SpaceLimits { blobs.withTable { $0.ledger.limits } }

    /// Changes the limits, which then apply to the next bytes written. The caller must evict the images that exceed
    /// them; see ``excess()``.
    package func update(limits: SpaceLimits, imageLimits: ImageLimits) {
        blobs.withTable { table in
            table.ledger.limits = limits
            table.imageLimits = imageLimits
        }
    }

    /// The minimum number of images and bytes to evict to comply with the limits again. The limits can be exceeded
    /// because they were lowered, or because other files filled the disk. Nil if they are not exceeded.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    func excess() throws(ImageError) -> SpaceShortage? {
        let free = try blobs.freeBytes()
        return blobs.withTable { $0.ledger.shortage(0, writers: 0, free: free) }
    }

    /// The path of a blob's file, for clients.
    package func path(of digest: BlobDigest) -> String { path + "/" + BlobFiles.name(digest) }

    // MARK: References

    /// Adds a reference for an index row that an earlier process wrote.
    package func adopt(_ digest: BlobDigest, size: Int) {
        // The disk space is estimated, because a stat(2) of each file would delay the start.
        // ``BlobSweeper/missing(among:)`` corrects it.
        blobs.withTable { $0.adopt(digest, bytes: blobs.space(of: size)) }
    }

    /// Adds a reference (a lease). Returns false if there is no such blob.
    package func retain(_ digest: BlobDigest) -> Bool { retain(digest, ifVerified: false) }

    /// Adds a reference. Returns false if there is no such blob, or if `ifVerified` is true and this process has not
    /// verified the file of the blob yet.
    func retain(_ digest: BlobDigest, ifVerified: Bool) -> Bool {
        blobs.withTable { $0.retain(digest, ifVerified: ifVerified) }
    }

    /// Releases a reference.
    ///
    /// - Returns: whether it was the last reference. If so, call ``removeUnreferenced(_:)`` to remove the file.
    package func release(_ digest: BlobDigest) -> Bool { blobs.withTable { $0.release(digest, isRow: false) } }

    /// Turns one of the caller's references into the reference of a row.
    func addRowReference(_ digest: BlobDigest) { blobs.withTable { $0.change(digest) { $0?.rows += 1 } } }

    /// Adds `change` to the number of pinned rows of a blob: 1 for a new pin, -1 for a removed one.
    func countPin(_ digest: BlobDigest, _ change: Int32) {
        blobs.withTable { $0.change(digest) { $0?.pins += change } }
    }

    /// See ``BlobTable/pinnedBytes(with:insteadOf:)``.
    func pinnedBytes(with digest: BlobDigest, insteadOf old: BlobDigest?) -> Int {
        blobs.withTable { $0.pinnedBytes(with: digest, insteadOf: old) }
    }

    /// Releases the reference of a row. Returns whether it was the last reference.
    func releaseRow(_ digest: BlobDigest) -> Bool { blobs.withTable { $0.release(digest, isRow: true) } }

    /// Whether a blob has references other than those of rows.
    func isLeased(_ digest: BlobDigest) -> Bool {
        blobs.withTable { $0.entries[digest]?.isLeased ?? false }
    }

    /// Changes whenever an image may be evicted that had to stay before; see ``BlobTable/releases``.
    var releases: Int { blobs.withTable { $0.releases } }

    /// The number of rows that refer to a blob.
    func rowCount(of digest: BlobDigest) -> Int { blobs.withTable { Int($0.entries[digest]?.rows ?? 0) } }

    /// Whether a blob can be served without opening its file first, because this process has verified the file.
    func isVerified(_ digest: BlobDigest) -> Bool { blobs.withTable { $0.isVerified(digest) } }

    /// Removes the file of a blob, unless the blob has been referenced again.
    ///
    /// - Returns: the disk space that the file took; nil if it was not removed
    /// - Throws: ``ImageError/Code/storageFailed``. The file is then an orphan. The next sweep removes it; until then
    ///   it counts as used space
    @discardableResult
    package func removeUnreferenced(_ digest: BlobDigest) throws(ImageError) -> Int? {
        do throws(CacheFileError) { return try blobs.removeUnreferenced(digest) } catch { throw error.asImageError }
    }

    // MARK: Writing

    /// Creates a writer for a new image. Space is reserved as bytes arrive, not for the declared length.
    ///
    /// - Parameter declaredLength: the length of the body in bytes; nil if the origin does not declare it or a content
    ///   coding changes it
    /// - Throws: ``ImageError/Code/tooLarge``; ``ImageError/Code/cacheFull``, without a ``SpaceShortage``, if the declared
    ///   length does not fit beside the leased and pinned images; ``ImageError/Code/storageFailed``
    package func begin(declaredLength: Int? = nil) throws(ImageError) -> BlobWriter {
        try BlobWriter(blobs, declaredLength: declaredLength)
    }

    // MARK: Reading

    /// Opens a blob to which the caller has a reference.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if the file is missing, or if its hash differs from its name. A
    ///   damaged file is removed, and the caller must delete the rows of the blob. ``ImageError/Code/storageFailed``
    package func open(_ digest: BlobDigest) throws(ImageError) -> BlobFile {
        let isVerified = isVerified(digest)
        let opening = try ImageError.from { () throws(CacheFileError) in
            try blobs.open(digest, isVerified: isVerified)
        }
        switch opening {
        case .whole(let file):
            if !isVerified { setVerified(digest, true) }
            return file
        case .missing:
            setVerified(digest, false)
            throw ImageError(.damagedBlob, "the file of \(digest) is missing; the image is downloaded again")
        case .damaged:
            setVerified(digest, false)
            throw ImageError(
                .damagedBlob,
                "the file of \(digest) was damaged on disk and has been removed; the image is downloaded again")
        }
    }

    /// Sets whether the blob is verified. A missing or damaged blob is marked unverified so that it is not served
    /// before it has been opened again.
    private func setVerified(_ digest: BlobDigest, _ isVerified: Bool) {
        blobs.withTable { $0.setVerified(digest, isVerified) }
    }

    /// Records an orderly stop by creating `clean`. If `clean` was missing at the start, this method creates it only if
    /// all files have been verified since. Call it last; the lock on the directory is released when the store is
    /// deallocated.
    package func markClean() throws(ImageError) {
        guard !isUnclean || blobs.withTable({ $0.entries.values.allSatisfy(\.isVerified) }) else { return }
        try ImageError.from { () throws(CacheFileError) in
            _ = try files.create("clean")
            try files.synchronizeDirectory(".")
        }
    }
}

/// Finds files without a reference, and references without a file.
package struct BlobSweeper: Sendable {
    /// The result of one slice of a sweep.
    package struct Slice: Sendable, Hashable {
        /// The step at which to continue; nil at the end.
        package let next: Int?
        /// The number of removed files.
        package let removed: Int
        /// The size of the removed files in bytes.
        package let removedBytes: Int
        /// The first error, if a file could not be removed. The other files of the directory were removed.
        package let failure: ImageError?
    }

    let blobs: BlobFiles

    /// Removes unreferenced files from one directory: `tmp/` in step 0, and the shard directories in steps 1 to 256. Run a
    /// whole sweep after each start, once all rows of the index have been adopted, and again after a removal failed.
    ///
    /// In `tmp/`, this method removes all files that this process did not create. In `blobs/`, it ignores files whose
    /// names are not digests. It ignores directories in both. Another program put these there.
    ///
    /// - Throws: ``ImageError/Code/storageFailed`` if the directory cannot be read
    package func sweep(step: Int) throws(ImageError) -> Slice {
        let shard = step == 0 ? nil : UInt8(step - 1)
        let names = try ImageError.from { () throws(CacheFileError) in
            try blobs.files.list(shard.map(BlobFiles.shard) ?? "tmp")
        }
        var (removed, bytes) = (0, 0)
        var failure: ImageError?
        for name in names {
            do throws(CacheFileError) {
                let size = if let shard { try removeOrphan(name, in: shard) } else { try removeTemporary(name) }
                if let size { (removed, bytes) = (removed + 1, bytes + size) }
            } catch {
                if error.errno != EISDIR { failure = failure ?? error.asImageError }
            }
        }
        if let shard, names.isEmpty { blobs.removeDirectoryIfEmpty(shard) }
        return Slice(next: step < 256 ? step + 1 : nil, removed: removed, removedBytes: bytes, failure: failure)
    }

    /// Removes a file of an earlier process from `tmp/`. Returns its size; nil if it was not removed.
    private func removeTemporary(_ name: String) throws(CacheFileError) -> Int? {
        guard !name.hasPrefix(blobs.session + "-") else { return nil }
        // The size is only for the log. A file that cannot be opened is removed, too.
        let size = try? blobs.files.open("tmp/" + name)?.size()
        return try blobs.files.remove("tmp/" + name) ? size ?? 0 : nil
    }

    private func removeOrphan(_ name: String, in shard: UInt8) throws(CacheFileError) -> Int? {
        guard let digest = BlobDigest(hex: name), digest.shard == shard else { return nil }
        return try blobs.removeOrphan(digest)
    }

    /// Returns the blobs whose files another program removed, and corrects the disk space of the other blobs. Marks
    /// missing blobs as unverified, so that they are not served before they have been opened again. The caller deletes
    /// the rows of missing blobs, unless a blob has been published again in the meantime.
    ///
    /// - Returns: the blobs, and the first error if a file could not be checked
    func missing(among digests: [BlobDigest]) -> (missing: Set<BlobDigest>, failure: ImageError?) {
        var missing: Set<BlobDigest> = []
        var failure: ImageError?
        for digest in digests {
            do throws(CacheFileError) {
                if let file = try blobs.openFile(digest) {
                    // The disk space of blobs from an earlier process is an estimate at first.
                    let bytes = try file.allocatedBytes()
                    blobs.withTable { $0.correctSpace(of: digest, bytes: bytes) }
                } else if try blobs.markMissing(digest) {
                    missing.insert(digest)
                }
            } catch {
                failure = failure ?? error.asImageError
            }
        }
        return (missing, failure)
    }
}
