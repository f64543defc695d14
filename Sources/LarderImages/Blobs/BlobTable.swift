internal import LarderImageFormats

/// The references and the disk space of all blobs of a ``BlobStore``, and the limits of the store. The table does no
/// I/O. It is one of the ``CacheTables``.
struct BlobTable: Sendable {
    /// The state of one blob. An entry is small, because the table has one for each blob on disk.
    struct Entry: Sendable {
        private var shortBytes: UInt32
        var references: Int32
        /// The number of references that are rows of the index.
        var rows: Int32
        /// The number of rows that are pinned.
        var pins: Int32 = 0
        var isVerified: Bool

        /// - Parameter bytes: the disk space of the blob. 4 GiB and more count as one byte less than 4 GiB.
        init(bytes: Int, references: Int32, rows: Int32 = 0, isVerified: Bool) {
            shortBytes = UInt32(clamping: bytes)
            self.references = references
            self.rows = rows
            self.isVerified = isVerified
        }

        /// The disk space of the blob.
        var bytes: Int {
            get { Int(shortBytes) }
            set { shortBytes = UInt32(clamping: newValue) }
        }
        /// Whether the blob is leased or pinned and so must not be evicted.
        fileprivate var isRetained: Bool { isLeased || pins > 0 }
        /// Whether there are references other than those of rows.
        var isLeased: Bool { references > rows }
        /// The disk space of the blob if it is leased, otherwise 0.
        fileprivate var leasedBytes: Int { isLeased ? bytes : 0 }
        /// The disk space of the blob if it has leases and no rows, otherwise 0.
        fileprivate var leftoverBytes: Int { references > 0 && rows == 0 ? bytes : 0 }
    }

    /// Change the entries only with ``change(_:_:)``.
    private(set) var entries: [BlobDigest: Entry] = [:]
    var ledger: SpaceLedger
    var directories = BlobDirectories()
    var imageLimits: ImageLimits
    /// As in ``DirectoryFiles/blockBytes``.
    private let blockBytes: Int
    /// The number of writers so far. The name of a writer's temporary file contains this number.
    private var writers = 0
    private(set) var leasedBytes = 0
    private(set) var leftoverBytes = 0
    /// The number and the disk space of the leased or pinned blobs. A blob that is both counts once.
    private(set) var retained = (bytes: 0, count: 0)
    /// The disk space of the pinned blobs. A blob counts once, however many pinned rows it has.
    private(set) var pinnedBytes = 0
    /// Increases whenever an image of a blob may be evicted that had to stay before: at the end of the last lease of the
    /// blob, and when one of its rows is unpinned.
    private(set) var releases = 0
    /// Why no new image fits on the disk, as of the last ``excess(free:)``; nil if one fits.
    private(set) var diskProblem: String?

    init(ledger: SpaceLedger, imageLimits: ImageLimits, blockBytes: Int) {
        self.ledger = ledger
        self.imageLimits = imageLimits
        self.blockBytes = blockBytes
    }

    /// Changes, adds or removes the entry of a blob, and updates the totals.
    mutating func change<T>(_ digest: BlobDigest, _ body: (inout Entry?) -> T) -> T {
        // One lookup, because each cache hit changes an entry twice.
        let index = entries.index(forKey: digest)
        let old = index.map { entries.values[$0] }
        var new = old
        let result = body(&new)
        if let index, let new { entries.values[index] = new } else { entries[digest] = new }
        count(digest, old, -1)
        count(digest, new, 1)
        if let old, let new, old.isLeased && !new.isLeased || old.pins > new.pins { releases += 1 }
        return result
    }

    private mutating func count(_ digest: BlobDigest, _ entry: Entry?, _ sign: Int) {
        leasedBytes += sign * (entry?.leasedBytes ?? 0)
        leftoverBytes += sign * (entry?.leftoverBytes ?? 0)
        guard let entry, entry.isRetained else { return }
        retained.bytes += sign * entry.bytes
        retained.count += sign
        if entry.pins > 0 { pinnedBytes += sign * entry.bytes }
        directories.countRetained(sign, in: digest.shard)
    }

    /// Changes the disk space of a shard directory.
    mutating func setDirectoryBytes(_ bytes: Int, of shard: UInt8) {
        directories.setBytes(bytes, of: shard)
        ledger.directoryBytes = directories.bytes
    }

    // MARK: References

    /// Adds a reference of a row that an earlier process wrote.
    ///
    /// - Parameter bytes: the disk space of the blob, used if the blob is new to the table
    mutating func adopt(_ digest: BlobDigest, bytes: Int) {
        let isNew = change(digest) { entry in
            let isNew = entry == nil
            if isNew { entry = Entry(bytes: bytes, references: 0, isVerified: false) }
            entry?.references += 1
            entry?.rows += 1
            return isNew
        }
        if isNew { ledger.add(bytes) }
    }

    /// Adds a reference. Returns false if there is no such blob, or if `ifVerified` is true and the blob is unverified.
    mutating func retain(_ digest: BlobDigest, ifVerified: Bool) -> Bool {
        change(digest) { entry in
            guard let known = entry, known.isVerified || !ifVerified else { return false }
            entry?.references += 1
            return true
        }
    }

    /// Releases a reference. Returns whether it was the last one.
    mutating func release(_ digest: BlobDigest, isRow: Bool) -> Bool {
        change(digest) { entry in
            guard let references = entry?.references, references > 0 else { return false }
            entry?.references = references - 1
            if isRow { entry?.rows -= 1 }
            return references == 1
        }
    }

    /// Turns a reference into that of a row.
    mutating func addRow(_ digest: BlobDigest) { change(digest) { $0?.rows += 1 } }

    /// Adds `change` to the number of pinned rows of a blob: 1 for a new pin, -1 for a removed one.
    mutating func countPin(_ digest: BlobDigest, _ change: Int32) { self.change(digest) { $0?.pins += change } }

    /// Whether a blob has references other than those of rows.
    func isLeased(_ digest: BlobDigest) -> Bool { entries[digest]?.isLeased ?? false }

    /// The number of rows that refer to a blob.
    func rowCount(of digest: BlobDigest) -> Int { Int(entries[digest]?.rows ?? 0) }

    // MARK: Space

    /// The estimated disk space of a file of `size` bytes: the size, rounded up to whole blocks.
    func space(of size: Int) -> Int { (size + blockBytes - 1) / blockBytes * blockBytes }

    /// The space in use.
    var usage: SpaceUsage {
        SpaceUsage(
            bytes: ledger.bytes + ledger.directoryBytes, count: ledger.count, reservedBytes: ledger.promisedBytes)
    }

    /// The disk space of leased or pinned blobs and of their directories.
    var retainedBytes: Int { retained.bytes + directories.retainedBytes }

    /// The value that ``pinnedBytes`` would have if a row of a blob were pinned, and replaced a pinned row of `old`.
    func pinnedBytes(with digest: BlobDigest, insteadOf old: BlobDigest?) -> Int {
        var bytes = pinnedBytes
        if let old, old != digest, let entry = entries[old], entry.pins == 1 { bytes -= entry.bytes }
        if let entry = entries[digest], entry.pins == 0 { bytes += entry.bytes }
        return bytes
    }

    /// Counts a new writer.
    ///
    /// - Parameters:
    ///   - bytes: the disk space for the declared length of the image; 0 if no length is declared
    ///   - free: the free bytes on the disk
    /// - Returns: the number of the writer
    /// - Throws: ``ImageError/Code/cacheFull`` if the image would not fit even after all evictable images have been
    ///   evicted
    mutating func addWriter(_ bytes: Int, free: Int) throws(ImageError) -> Int {
        // Leased blobs without a row do not count as retained: most of them have just been published, and can be
        // evicted once they have a row.
        guard ledger.canEverFit(bytes, retained: retainedBytes - leftoverBytes, free: free) else {
            throw cacheFull(for: bytes, free: free)
        }
        writers += 1
        return writers
    }

    /// Reserves disk space for bytes that a writer received; see ``SpaceLedger/reserve(_:isNew:free:)``.
    mutating func reserve(_ bytes: Int, isNew: Bool, free: Int) throws(ImageError) {
        if let shortage = ledger.reserve(bytes, isNew: isNew, free: free) {
            throw cacheFull(for: bytes, free: free, shortage)
        }
    }

    /// The minimum to evict to comply with the limits again; nil if they are not exceeded. Updates ``diskProblem``.
    ///
    /// - Parameter free: the free bytes on the disk
    mutating func excess(free: Int) -> SpaceShortage? {
        let fits = ledger.canEverFit(blockBytes, retained: retainedBytes - leftoverBytes, free: free)
        diskProblem = fits || !ledger.isLimitedByDisk(free: free) ? nil : diskLimit(free: free)
        return ledger.shortage(0, writers: 0, free: free)
    }

    private func diskLimit(free: Int) -> String {
        "its file system has \(free) bytes free, and images.minimumFreeBytes is \(ledger.limits.freeBytes)"
    }

    private func cacheFull(for bytes: Int, free: Int, _ shortage: SpaceShortage? = nil) -> ImageError {
        // A shortage of zero bytes is one of the number of images.
        let isDiskFull = ledger.isLimitedByDisk(free: free) && shortage?.bytes != 0
        let cause = isDiskFull ? "\(diskLimit(free: free)); lower this setting" : "raise its limits"
        return ImageError(
            .cacheFull,
            "the cache has no room for another \(bytes) bytes of disk space: \(retainedBytes) are leased or pinned, and \(ledger.promisedBytes) are reserved for downloads; \(cause), free disk space, release or unpin images, or retry later",
            shortage: shortage)
    }

    // MARK: Files

    /// Adds a reference to a newly written blob, and releases the space that its writer reserved.
    ///
    /// - Parameters:
    ///   - bytes: the disk space of the blob
    ///   - reserved: the bytes that the writer reserved
    mutating func publish(_ blob: PublishedBlob, bytes: Int, reserved: Int) {
        let known = entries[blob.digest]
        ledger.settle(reserved: reserved, written: blob.size)
        if let known { ledger.remove(known.bytes) }
        change(blob.digest) { entry in
            entry = Entry(
                bytes: bytes, references: (known?.references ?? 0) + 1, rows: known?.rows ?? 0, isVerified: true)
            entry?.pins = known?.pins ?? 0
        }
        ledger.add(entries[blob.digest]?.bytes ?? 0)
    }

    /// Removes and returns the entry of an unreferenced blob, so that no caller can retain the blob any longer. The
    /// disk space of the blob counts as used until the file is removed.
    mutating func takeUnreferenced(_ digest: BlobDigest) -> (isReferenced: Bool, entry: Entry?) {
        change(digest) { entry in
            guard let known = entry else { return (false, nil) }
            if known.references > 0 { return (true, nil) }
            entry = nil
            return (false, known)
        }
    }

    /// Restores an entry whose file could not be removed.
    mutating func restore(_ digest: BlobDigest, _ entry: Entry) { change(digest) { $0 = entry } }

    /// Replaces the estimated disk space of a blob by that of its file.
    mutating func correctSpace(of digest: BlobDigest, bytes: Int) {
        let old = change(digest) { entry in
            defer { entry?.bytes = bytes }
            return entry?.bytes
        }
        guard let old, old != bytes else { return }
        ledger.remove(old)
        ledger.add(entries[digest]?.bytes ?? 0)
    }

    func isReferenced(_ digest: BlobDigest) -> Bool { (entries[digest]?.references ?? 0) > 0 }

    /// Whether a blob can be served without opening its file first, because this process has verified the file.
    func isVerified(_ digest: BlobDigest) -> Bool { entries[digest]?.isVerified ?? false }

    mutating func setVerified(_ digest: BlobDigest, _ isVerified: Bool) {
        change(digest) { $0?.isVerified = isVerified }
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

// MARK: Invariants, which tests check

extension BlobTable {
    /// What is inconsistent while no file is being removed; nil if nothing is.
    var inconsistency: String? {
        let entries = entries.values
        let held = entries.filter(\.isRetained)
        if leasedBytes != entries.reduce(0, { $0 + $1.leasedBytes }) { return "the leased bytes" }
        if leftoverBytes != entries.reduce(0, { $0 + $1.leftoverBytes }) { return "the bytes of blobs without a row" }
        if retained.count != held.count { return "the number of retained blobs" }
        if pinnedBytes != entries.reduce(0, { $0 + ($1.pins > 0 ? $1.bytes : 0) }) { return "the pinned bytes" }
        if retained.bytes != held.reduce(0, { $0 + $1.bytes }) { return "the bytes of retained blobs" }
        if entries.contains(where: { $0.rows > $0.references || $0.pins > $0.rows }) { return "the references" }
        if ledger.count != entries.count { return "the number of blobs" }
        if ledger.bytes != entries.reduce(0, { $0 + $1.bytes }) { return "the bytes of blobs" }
        return ledger.inconsistency
    }
}
