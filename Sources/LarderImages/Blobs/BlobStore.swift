internal import Crypto
package import LarderImageFormats
internal import LarderPlatform
internal import Synchronization

/// The images on disk: each file is named by the SHA-256 of its bytes, is never changed, and stays as long as somebody
/// refers to it.
///
/// Below the cache directory are `lock`, `clean` (there only while nobody runs, after an orderly stop), `tmp/` and
/// `blobs/ab/abcd…`, in up to 256 shard directories. What makes it safe to be killed (`kill -9`) at any point:
///
/// - Bytes are written to a name in `tmp/` that nobody reads. A file gets its name in `blobs/` by link(2), in one step, after
///   its length, digest and header were found right and its bytes are durable. So no name there ever stands for a part.
/// - The caller writes an index row after ``BlobWriter/finish(expectedDigest:)`` and deletes it before
///   ``removeUnreferenced(_:)``. So a row has its file, and what a kill leaves behind is a file without a row: an orphan.
/// - Orphans are found by ``sweep(_:)``, slice by slice. It removes only what nobody refers to at that moment, under the
///   same lock under which names are given and taken away; a new image that finds its file there already takes it over.
/// - A disk loses bits, and a loss of power may damage what the file system had promised. So each process hashes a file
///   before it opens it for the first time, and one whose bytes are not its name is removed. After a stop that was not
///   orderly all are looked at in the background, too.
///
/// All methods but ``retain(_:)``, ``release(_:)``, ``adopt(_:size:)``, ``update(limits:imageLimits:)`` and ``usage`` wait for
/// the disk.
package final class BlobStore: Sendable {
    /// How much is held.
    package struct Usage: Sendable, Hashable {
        /// Disk space of images and their directories.
        package let bytes: Int
        /// Images.
        package let count: Int
        /// Disk space that is reserved for images being written, with the directories that they may add.
        package let reservedBytes: Int
    }

    /// The directory, as it was given.
    package let path: String
    /// Whether the last stop was not orderly, so that all files have to prove themselves soon.
    package let isUnclean: Bool
    let files: any CacheFiles
    let state: Mutex<State>
    /// Held while names in `blobs/` are given or taken away. Taken before ``state``, which is never held while the disk is
    /// waited for: a hit takes it on an event loop.
    let names = Mutex(())
    /// Tells our temporary files from those of a process that died.
    let session = String(UInt64.random(in: .min ... .max), radix: 16)
    private let lock: FileLock

    /// Opens the directory, making it if it does not exist.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse`` with the pid of the process that holds it,
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
            // It must be gone for good before anything is changed.
            isUnclean = try !files.remove("clean") && !isNew
            try files.synchronizeDirectory(".")
            try measureDirectories()
        } catch {
            throw error.asImageError
        }
    }

    /// How much is held now.
    package var usage: Usage {
        state.withLock { state in
            Usage(
                bytes: state.ledger.bytes + state.ledger.directoryBytes, count: state.ledger.count,
                reservedBytes: state.ledger.promisedBytes)
        }
    }

    /// Bytes of images that somebody refers to besides the index, and of those among them that no row has.
    var leases: (bytes: Int, leftoverBytes: Int) { state.withLock { ($0.leasedBytes, $0.leftoverBytes) } }

    /// The blobs that are not evicted because they are leased or pinned: their number, and their disk space with that of
    /// their directories.
    var held: (bytes: Int, count: Int) {
        state.withLock { ($0.held.bytes + $0.directories.heldBytes, $0.held.count) }
    }

    /// The limits of what may be held.
    var limits: SpaceLimits { state.withLock { $0.ledger.limits } }

    /// The limits of what an image may be.
    var imageLimits: ImageLimits { state.withLock { $0.imageLimits } }

    /// Takes other limits, from the next bytes on. What is held over them is for the caller to remove: ``excess()``.
    package func update(limits: SpaceLimits, imageLimits: ImageLimits) {
        state.withLock { state in
            state.ledger.limits = limits
            state.imageLimits = imageLimits
        }
    }

    /// What has to go before the limits hold again: they were lowered, or others filled the disk.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    func excess() throws(ImageError) -> SpaceShortage? {
        let free: Int
        do throws(CacheFileError) { free = try files.freeBytes() } catch { throw error.asImageError }
        return state.withLock { $0.ledger.shortage(0, writers: 0, free: free) }
    }

    /// Where a blob is, for clients.
    package func path(of digest: BlobDigest) -> String { path + "/" + Self.name(digest) }

    // MARK: References

    /// Counts a reference from a row of the index that was there before this process.
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

    /// Counts a reference: a lease. No if there is no such blob.
    package func retain(_ digest: BlobDigest) -> Bool { retain(digest, ifVerified: false) }

    /// Counts a reference; no if there is no such blob, or, if asked for, one that has to be opened first to see whether
    /// its bytes are right.
    func retain(_ digest: BlobDigest, ifVerified: Bool) -> Bool {
        state.withLock { state in
            state.change(digest) { entry in
                guard let known = entry, known.isVerified || !ifVerified else { return false }
                entry?.references += 1
                return true
            }
        }
    }

    /// Takes a reference back.
    ///
    /// - Returns: whether it was the last; then ``removeUnreferenced(_:)`` removes the file
    package func release(_ digest: BlobDigest) -> Bool { release(digest, isRow: false) }

    /// Makes a row's of a reference that the caller has.
    func giveToRow(_ digest: BlobDigest) { state.withLock { $0.change(digest) { $0?.rows += 1 } } }

    /// Counts a row that is pinned, or with -1 one that no longer is.
    func countPin(_ digest: BlobDigest, _ change: Int) { state.withLock { $0.change(digest) { $0?.pins += change } } }

    /// Takes a row's reference back; whether it was the last.
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

    /// Whether somebody refers to a blob besides the index.
    func isLeased(_ digest: BlobDigest) -> Bool {
        state.withLock { $0.entries[digest].map { $0.references > $0.rows } ?? false }
    }

    /// How many rows refer to a blob.
    func rowCount(of digest: BlobDigest) -> Int { state.withLock { $0.entries[digest]?.rows ?? 0 } }

    /// Whether a blob can be answered with without a look at its file.
    func isVerified(_ digest: BlobDigest) -> Bool { state.withLock { $0.entries[digest]?.isVerified ?? false } }

    /// Removes the file of a blob that nobody refers to; does nothing if somebody does again.
    ///
    /// - Returns: the disk space that it took, if it is gone now
    /// - Throws: ``ImageError/Code/storageFailed``; the file is then an orphan that the next sweep removes, and counts
    ///   until then
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

    /// Makes a blob unknown that nobody refers to, so that from now on nobody can. Its bytes count until its file is gone.
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

    /// Opens a blob to which the caller refers.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if its bytes are not what its name says or there is no file; it is
    ///   removed then, and the caller deletes its rows. ``ImageError/Code/storageFailed``
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

    /// A blob that turned out to be gone or damaged is never answered with again before it was opened.
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
                // Not if it was replaced by a good one while we read.
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

    /// Says that everything was put away in order, unless there are files that did not prove themselves yet since a stop
    /// that was not. Call it last; the lock ends with the store itself.
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

    /// The digest of a file's bytes as they are on disk.
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

/// A blob, open for reading. It stays readable as long as it is referenced, whatever happens to its name.
package struct BlobFile: Sendable {
    private let file: any CacheFile
    /// The size in bytes.
    package let size: Int

    init(_ file: any CacheFile, size: Int) { (self.file, self.size) = (file, size) }

    /// The descriptor, read-only, to pass to a client while this value is kept.
    package var descriptor: CInt? { file.descriptor }

    /// Reads bytes at an offset; none at the end.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    package func read(at offset: Int, count: Int) throws(ImageError) -> [UInt8] {
        do throws(CacheFileError) { return try file.read(at: offset, count: count) } catch { throw error.asImageError }
    }
}
