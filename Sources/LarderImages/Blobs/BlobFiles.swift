import Glibc
internal import LarderDigest
internal import Synchronization

/// The files of a cache directory together with the table of its blobs. A ``BlobStore``, its writers and its sweeper
/// share one instance.
final class BlobFiles: Sendable {
    /// The files by name. Names in `blobs/` are added and removed only by the methods of this type.
    let files: any CacheFiles
    /// A random prefix that distinguishes the temporary files of this process from those of an earlier process.
    let session = String(UInt64.random(in: .min ... .max), radix: 16)
    /// Never locked during disk I/O, because a cache hit locks it on an event loop.
    private let table: Mutex<BlobTable>
    /// Locked while names in `blobs/` are added or removed. A method that needs both locks acquires `names` before
    /// ``table``.
    private let names = Mutex(())

    init(_ files: any CacheFiles, _ table: BlobTable) {
        self.files = files
        self.table = Mutex(table)
    }

    static func shard(_ shard: UInt8) -> String { "blobs/" + (shard < 16 ? "0" : "") + String(shard, radix: 16) }

    static func name(_ digest: BlobDigest) -> String { shard(digest.shard) + "/" + digest.description }

    /// Runs `body` with the table locked. `body` must not do I/O.
    func withTable<T: Sendable, E: Error>(_ body: (inout BlobTable) throws(E) -> T) throws(E) -> T {
        try table.withLock { table throws(E) in try body(&table) }
    }

    // MARK: Space

    /// The estimated disk space of a file of `size` bytes: the size, rounded up to whole blocks.
    func space(of size: Int) -> Int { (size + files.blockBytes - 1) / files.blockBytes * files.blockBytes }

    func freeBytes() throws(ImageError) -> Int {
        do throws(CacheFileError) { return try files.freeBytes() } catch { throw error.asImageError }
    }

    /// Measures `blobs` and all shard directories.
    func measureDirectories() throws(CacheFileError) {
        let root = try files.allocatedBytes("blobs")
        withTable { table in
            table.directories.rootBytes = root
            // The space of a new shard directory is estimated by that of `blobs`, which has at most 256 short names.
            table.ledger.newDirectoryBytes = root
        }
        for shard in UInt8.min...UInt8.max { try measureDirectory(shard) }
    }

    /// Measures a shard directory. A directory grows with its entries and shrinks only when it is removed.
    private func measureDirectory(_ shard: UInt8) throws(CacheFileError) {
        let bytes = try files.allocatedBytes(Self.shard(shard))
        withTable { $0.setDirectoryBytes(bytes, of: shard) }
    }

    // MARK: Reading

    /// Whether the file of a blob exists. Blocks only on one fstatat(2). If another program has removed the file, marks
    /// the blob as unverified, so that the blob is not served before its file has been opened.
    func hasFile(_ digest: BlobDigest) -> Bool {
        let hasFile = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 74) { name in
            guard let start = name.baseAddress else { return true }
            // "blobs/", two digits, a slash, 64 digits and a zero byte; see ``name(_:)``.
            digest.write(to: start + 9)
            (name[0], name[1], name[2], name[3], name[4], name[5]) = (0x62, 0x6C, 0x6F, 0x62, 0x73, 0x2F)
            (name[6], name[7], name[8], name[73]) = (name[9], name[10], 0x2F, 0)
            return files.hasFile(start)
        }
        if !hasFile { withTable { $0.setVerified(digest, false) } }
        return hasFile
    }

    enum Opening {
        case whole(BlobFile)
        case missing
        case damaged
    }

    func openFile(_ digest: BlobDigest) throws(CacheFileError) -> (any CacheFile)? {
        try files.open(Self.name(digest))
    }

    /// Opens the file of a blob. Unless `isVerified`, verifies the file first, and removes it if it is damaged.
    func open(_ digest: BlobDigest, isVerified: Bool) throws(CacheFileError) -> Opening {
        guard let file = try openFile(digest) else { return .missing }
        if !isVerified {
            guard try Self.hash(file) == digest else {
                // Another thread may have replaced the damaged file since this thread opened it.
                return try names.withLock { _ throws(CacheFileError) in
                    if withTable({ $0.isVerified(digest) }) { return try open(digest, isVerified: true) }
                    _ = try remove(digest)
                    return .damaged
                }
            }
        }
        return .whole(BlobFile(file, size: try file.size()))
    }

    /// The SHA-256 of a file's bytes on disk.
    static func hash(_ file: any CacheFile) throws(CacheFileError) -> BlobDigest? {
        var hash = SHA256()
        var offset = 0
        while true {
            let piece = try file.read(at: offset, count: 1 << 18)
            if piece.isEmpty { return BlobDigest(hash.finalize()) }
            hash.update(piece)
            offset += piece.count
        }
    }

    // MARK: Adding names

    /// Gives a temporary file the name of its blob, adds a reference to the blob and releases the space that the writer
    /// reserved. If this method throws, it added no reference and the space is still reserved.
    func publish(
        _ temporary: String, _ file: any CacheFile, _ blob: PublishedBlob, reserved: Int
    ) throws(CacheFileError) {
        try file.seal()
        // Measured after fsync(2), because a file system may allocate blocks only then.
        let bytes = try file.allocatedBytes()
        try names.withLock { _ throws(CacheFileError) in
            if try !link(temporary, blob.digest) { try useExistingFile(insteadOf: temporary, blob.digest) }
            // If this fails, the previous measurement of the directory remains in use.
            try? measureDirectory(blob.digest.shard)
            withTable { $0.publish(blob, bytes: bytes, reserved: reserved) }
        }
    }

    /// Gives a temporary file the name of a blob; false if that name exists. Creates the shard directory if it does not
    /// exist or was removed with its last blob. The caller must have locked ``names``.
    private func link(_ temporary: String, _ digest: BlobDigest) throws(CacheFileError) -> Bool {
        do throws(CacheFileError) {
            return try files.publish(temporary, as: Self.name(digest))
        } catch {
            guard error.errno == ENOENT else { throw error }
            if try files.createDirectory(Self.shard(digest.shard)) { try files.synchronizeDirectory("blobs") }
            return try files.publish(temporary, as: Self.name(digest))
        }
    }

    /// Removes the temporary file of a blob and keeps the existing file of the blob, which was stored for another URL
    /// or is an orphan. If the existing file has not been verified yet, it is verified first. If it is damaged or
    /// missing, the temporary file replaces it. The caller must have locked ``names``.
    private func useExistingFile(insteadOf temporary: String, _ digest: BlobDigest) throws(CacheFileError) {
        if !withTable({ $0.isVerified(digest) }) {
            let file = try openFile(digest)
            guard let file, try Self.hash(file) == digest else {
                return try files.replace(temporary, as: Self.name(digest))
            }
        }
        _ = try files.remove(temporary)
    }

    /// Makes the names in the shard directory of a blob durable (fsync(2)).
    func synchronizeDirectory(of digest: BlobDigest) throws(CacheFileError) {
        try files.synchronizeDirectory(Self.shard(digest.shard))
    }

    // MARK: Removing names

    /// Removes the file of a blob, and its shard directory if that is then empty. The caller must have locked
    /// ``names``, so that no blob is published in the directory at the same time.
    ///
    /// - Returns: whether the file existed
    private func remove(_ digest: BlobDigest) throws(CacheFileError) -> Bool {
        let existed = try files.remove(Self.name(digest))
        removeEmptyDirectory(digest.shard)
        return existed
    }

    /// Removes the entry and the file of a blob, unless the blob is referenced or has no entry.
    ///
    /// - Returns: the disk space that the file took; nil if it was not removed
    func removeUnreferenced(_ digest: BlobDigest) throws(CacheFileError) -> Int? {
        try names.withLock { _ throws(CacheFileError) in
            guard let entry = withTable({ $0.takeUnreferenced(digest) }).entry else { return nil }
            do throws(CacheFileError) {
                _ = try remove(digest)
            } catch {
                withTable { $0.restore(digest, entry) }
                throw error
            }
            withTable { $0.ledger.remove(entry.bytes) }
            return entry.bytes
        }
    }

    /// Removes the file of an unreferenced blob. Also removes the entry that the blob still has if an earlier removal
    /// failed.
    ///
    /// - Returns: the size of the file; nil if the blob is referenced or the file was already gone
    func removeOrphan(_ digest: BlobDigest) throws(CacheFileError) -> Int? {
        // Check without locking `names` first, because nearly all files are referenced.
        guard withTable({ !$0.isReferenced(digest) }) else { return nil }
        return try names.withLock { _ throws(CacheFileError) in
            let (isReferenced, entry) = withTable { $0.takeUnreferenced(digest) }
            guard !isReferenced else { return nil }
            do throws(CacheFileError) {
                let size = try openFile(digest)?.size() ?? 0
                let isRemoved = try remove(digest)
                if let entry { withTable { $0.ledger.remove(entry.bytes) } }
                return isRemoved ? size : nil
            } catch {
                if let entry { withTable { $0.restore(digest, entry) } }
                throw error
            }
        }
    }

    /// Removes a shard directory if it is still empty.
    func removeDirectoryIfEmpty(_ shard: UInt8) { names.withLock { _ in removeEmptyDirectory(shard) } }

    /// Removes a shard directory if it is empty. The caller must have locked ``names``. An empty directory that cannot
    /// be removed is harmless; the next sweep retries.
    private func removeEmptyDirectory(_ shard: UInt8) {
        guard (try? files.removeDirectory(Self.shard(shard))) == true else { return }
        withTable { $0.setDirectoryBytes(0, of: shard) }
    }

    /// Returns whether the file of a blob is missing. If so, marks the blob as unverified.
    func markMissing(_ digest: BlobDigest) throws(CacheFileError) -> Bool {
        // `names` is locked, because another thread may just be removing or publishing the file.
        try names.withLock { _ throws(CacheFileError) in
            guard try openFile(digest) == nil else { return false }
            withTable { $0.setVerified(digest, false) }
            return true
        }
    }
}

/// A blob that is open for reading. The bytes stay readable as long as this value exists, even if the file is removed.
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

/// The disk space of `blobs` and of its 256 shard directories, and the number of leased or pinned blobs in each shard.
struct BlobDirectories: Sendable {
    /// The disk space of the directory `blobs` itself, in bytes.
    var rootBytes = 0
    private var shards = [UInt32](repeating: 0, count: 256)
    private var retainedBlobs = [UInt32](repeating: 0, count: 256)
    private var shardBytes = 0

    var bytes: Int { rootBytes + shardBytes }

    mutating func setBytes(_ bytes: Int, of shard: UInt8) {
        shardBytes -= Int(shards[Int(shard)])
        shards[Int(shard)] = UInt32(clamping: bytes)
        shardBytes += Int(shards[Int(shard)])
    }

    /// Adds `change`, which is 1 or -1, to the number of leased or pinned blobs in a shard.
    mutating func countRetained(_ change: Int, in shard: UInt8) {
        retainedBlobs[Int(shard)] = UInt32(clamping: Int(retainedBlobs[Int(shard)]) + change)
    }

    /// The disk space of `blobs` and of the shard directories that contain leased or pinned blobs, in bytes.
    var retainedBytes: Int { rootBytes + (0..<256).reduce(0) { $0 + (retainedBlobs[$1] > 0 ? Int(shards[$1]) : 0) } }
}
