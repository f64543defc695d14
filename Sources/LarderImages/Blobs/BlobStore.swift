internal import Crypto
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
/// - ``sweep(_:)`` finds orphans, slice by slice. It removes only files that are unreferenced at that moment, under the
///   lock that also guards the addition and removal of names. If a new image has the same bytes as an orphan, it uses
///   the existing file.
/// - Disks can corrupt data, and a power failure may damage files that were reported as durable. Each process therefore
///   hashes a file before it opens it for the first time, and removes the file if the hash differs from its name. After
///   a stop that was not orderly, all files are also verified in the background.
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

    /// The path of the cache directory, as passed to the initialiser.
    package let path: String
    /// Whether the last stop was not orderly. All files are then verified in the background.
    package let isUnclean: Bool
    let files: any CacheFiles
    let state: Mutex<State>
    /// Locked while names in `blobs/` are added or removed. Lock it before ``state``. ``state`` is never locked during
    /// disk I/O, because a cache hit locks it on an event loop.
    let names = Mutex(())
    /// A random prefix that distinguishes our temporary files from those of an earlier process.
    let session = String(UInt64.random(in: .min ... .max), radix: 16)
    private let lock: FileLock

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
        self.files = files
        state = Mutex(State(ledger: SpaceLedger(limits: limits), imageLimits: imageLimits))
        lock = try FileLock(cacheDirectory: path)
        do throws(CacheFileError) {
            let isNew = try files.createDirectory("blobs")
            _ = try files.createDirectory("tmp")
            // The removal of `clean` must be durable before anything else changes.
            isUnclean = try !files.remove("clean") && !isNew
            try files.synchronizeDirectory(".")
            try measureDirectories()
        } catch {
            throw error.asImageError
        }
    }

    /// The space in use now.
    package var usage: Usage {
        state.withLock { state in
            Usage(
                bytes: state.ledger.bytes + state.ledger.directoryBytes, count: state.ledger.count,
                reservedBytes: state.ledger.promisedBytes)
        }
    }

    /// The disk space of leased blobs, and of those among them that have no row.
    var leases: (bytes: Int, leftoverBytes: Int) { state.withLock { ($0.leasedBytes, $0.leftoverBytes) } }

    /// The blobs that must not be evicted because they are leased or pinned: their number, and their disk space
    /// including that of their directories.
    var held: (bytes: Int, count: Int) {
        state.withLock { ($0.held.bytes + $0.directories.heldBytes, $0.held.count) }
    }

    var limits: SpaceLimits { state.withLock { $0.ledger.limits } }

    var imageLimits: ImageLimits { state.withLock { $0.imageLimits } }

    /// Changes the limits, with effect from the next bytes. The caller evicts the excess: ``excess()``.
    package func update(limits: SpaceLimits, imageLimits: ImageLimits) {
        state.withLock { state in
            state.ledger.limits = limits
            state.imageLimits = imageLimits
        }
    }

    /// The images and bytes to evict before the limits hold again, because the limits were lowered or other files
    /// filled the disk. Nil if the limits hold.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    func excess() throws(ImageError) -> SpaceShortage? {
        let free: Int
        do throws(CacheFileError) { free = try files.freeBytes() } catch { throw error.asImageError }
        return state.withLock { $0.ledger.shortage(0, writers: 0, free: free) }
    }

    /// The path of a blob's file, for clients.
    package func path(of digest: BlobDigest) -> String { path + "/" + Self.name(digest) }

    // MARK: References

    /// Adds a reference for an index row that an earlier process wrote.
    package func adopt(_ digest: BlobDigest, size: Int) { adopt(CollectionOfOne((digest: digest, size: size))) }

    func adopt(_ blobs: some Collection<(digest: BlobDigest, size: Int)>) {
        state.withLock { state in
            state.reserveCapacity(state.entries.count + blobs.count)
            for (digest, size) in blobs {
                // A stat(2) of each file would delay the start. ``missing(among:)`` corrects the estimate.
                let bytes = space(of: size)
                let isNew = state.change(digest) { entry in
                    let isNew = entry == nil
                    if isNew { entry = Entry(bytes: bytes, references: 0, isVerified: false) }
                    entry?.references += 1
                    entry?.rows += 1
                    return isNew
                }
                if isNew { state.ledger.add(bytes) }
            }
        }
    }

    /// Adds a reference (a lease). Returns false if there is no such blob.
    package func retain(_ digest: BlobDigest) -> Bool { retain(digest, ifVerified: false) }

    /// Adds a reference. Returns false if there is no such blob, or if `ifVerified` is true and the blob must be opened
    /// first to verify it.
    func retain(_ digest: BlobDigest, ifVerified: Bool) -> Bool {
        state.withLock { state in
            state.change(digest) { entry in
                guard let known = entry, known.isVerified || !ifVerified else { return false }
                entry?.references += 1
                return true
            }
        }
    }

    /// Releases a reference.
    ///
    /// - Returns: whether it was the last one. Then call ``removeUnreferenced(_:)`` to remove the file.
    package func release(_ digest: BlobDigest) -> Bool { release(digest, isRow: false) }

    /// Turns one of the caller's references into the reference of a row.
    func giveToRow(_ digest: BlobDigest) { state.withLock { $0.change(digest) { $0?.rows += 1 } } }

    /// Adds `change` to the number of pinned rows: 1 for a new pin, -1 for a removed one.
    func countPin(_ digest: BlobDigest, _ change: Int) { state.withLock { $0.change(digest) { $0?.pins += change } } }

    /// Releases the reference of a row. Returns whether it was the last reference.
    func releaseRow(_ digest: BlobDigest) -> Bool { release(digest, isRow: true) }

    private func release(_ digest: BlobDigest, isRow: Bool) -> Bool {
        state.withLock { state in
            state.change(digest) { entry in
                guard let references = entry?.references, references > 0 else { return false }
                entry?.references = references - 1
                if isRow { entry?.rows -= 1 }
                return references == 1
            }
        }
    }

    /// Whether a blob has references other than those of rows.
    func isLeased(_ digest: BlobDigest) -> Bool {
        state.withLock { $0.entries[digest].map { $0.references > $0.rows } ?? false }
    }

    /// The number of rows that refer to a blob.
    func rowCount(of digest: BlobDigest) -> Int { state.withLock { $0.entries[digest]?.rows ?? 0 } }

    /// Whether a blob can be served without opening its file first.
    func isVerified(_ digest: BlobDigest) -> Bool { state.withLock { $0.entries[digest]?.isVerified ?? false } }

    /// Removes the file of a blob, unless the blob has been referenced again.
    ///
    /// - Returns: the disk space that the file took; nil if it was not removed
    /// - Throws: ``ImageError/Code/storageFailed``. The file is then an orphan. The next sweep removes it; until then
    ///   it counts as used space
    @discardableResult
    package func removeUnreferenced(_ digest: BlobDigest) throws(ImageError) -> Int? {
        do throws(CacheFileError) {
            return try names.withLock { _ throws(CacheFileError) in
                guard let entry = takeUnreferenced(digest) else { return nil }
                do throws(CacheFileError) {
                    _ = try removeFile(digest)
                } catch {
                    state.withLock { $0.change(digest) { $0 = entry } }
                    throw error
                }
                state.withLock { $0.ledger.remove(entry.bytes) }
                return entry.bytes
            }
        } catch {
            throw error.asImageError
        }
    }

    /// Removes the entry of an unreferenced blob, so that no caller can retain it any longer. Its disk space counts
    /// until its file is removed.
    private func takeUnreferenced(_ digest: BlobDigest) -> Entry? {
        state.withLock { state in
            state.change(digest) { entry in
                guard let known = entry, known.references == 0 else { return nil }
                entry = nil
                return known
            }
        }
    }

    // MARK: Reading

    /// Opens a blob to which the caller has a reference.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if the file is missing, or if its hash differs from its name. A
    ///   damaged file is removed, and the caller must delete the rows of the blob. ``ImageError/Code/storageFailed``
    package func open(_ digest: BlobDigest) throws(ImageError) -> BlobFile {
        let isVerified = state.withLock { $0.entries[digest]?.isVerified ?? false }
        let opening: Opening
        do throws(CacheFileError) {
            opening = try openFile(digest, isVerified: isVerified)
        } catch {
            throw error.asImageError
        }
        switch opening {
        case .whole(let file):
            if !isVerified { setVerified(digest, true) }
            return file
        case .missing:
            setVerified(digest, false)
            throw ImageError(.damagedBlob, "the file of \(digest) is gone; it is fetched again")
        case .damaged:
            setVerified(digest, false)
            throw ImageError(
                .damagedBlob, "the file of \(digest) was damaged on disk and has been removed; it is fetched again")
        }
    }

    /// Sets whether the blob is verified. A missing or damaged blob is marked unverified so that it is not served
    /// before it has been opened again.
    private func setVerified(_ digest: BlobDigest, _ isVerified: Bool) {
        state.withLock { $0.change(digest) { $0?.isVerified = isVerified } }
    }

    private enum Opening {
        case whole(BlobFile)
        case missing
        case damaged
    }

    private func openFile(_ digest: BlobDigest, isVerified: Bool) throws(CacheFileError) -> Opening {
        guard let file = try files.open(Self.name(digest)) else { return .missing }
        if !isVerified {
            guard try Self.hash(file) == digest else {
                // Another thread may have replaced the file by an undamaged one in the meantime.
                return try names.withLock { _ throws(CacheFileError) in
                    if state.withLock({ $0.entries[digest]?.isVerified ?? false }) {
                        return try openFile(digest, isVerified: true)
                    }
                    _ = try removeFile(digest)
                    return .damaged
                }
            }
        }
        return .whole(BlobFile(file, size: try file.size()))
    }

    /// Records an orderly stop by creating `clean`, unless the previous stop was not orderly and some files have not
    /// been verified since. Call it last; the lock on the directory is released when the store is deallocated.
    package func markClean() throws(ImageError) {
        guard !isUnclean || state.withLock({ $0.entries.values.allSatisfy(\.isVerified) }) else { return }
        do throws(CacheFileError) {
            _ = try files.create("clean")
            try files.synchronizeDirectory(".")
        } catch {
            throw error.asImageError
        }
    }

    // MARK: For the writer and the sweep

    static func shard(_ digest: BlobDigest) -> String { shard(digest.shard) }

    static func name(_ digest: BlobDigest) -> String { shard(digest) + "/" + digest.description }

    /// The SHA-256 of a file's bytes on disk.
    static func hash(_ file: any CacheFile) throws(CacheFileError) -> BlobDigest? {
        var hash = SHA256()
        var offset = 0
        while true {
            let piece = try file.read(at: offset, count: 1 << 18)
            if piece.isEmpty { return BlobDigest(Array(hash.finalize())) }
            hash.update(data: piece)
            offset += piece.count
        }
    }
}

/// A blob that is open for reading. It stays readable as long as this value exists, even if its name is removed.
package struct BlobFile: Sendable {
    private let file: any CacheFile
    /// The size in bytes.
    package let size: Int

    init(_ file: any CacheFile, size: Int) { (self.file, self.size) = (file, size) }

    /// The read-only descriptor, to pass to a client while this value exists.
    package var descriptor: CInt? { file.descriptor }

    /// Reads up to `count` bytes at an offset; empty at the end.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    package func read(at offset: Int, count: Int) throws(ImageError) -> [UInt8] {
        do throws(CacheFileError) { return try file.read(at: offset, count: count) } catch { throw error.asImageError }
    }
}
