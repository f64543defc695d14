internal import LarderImageFormats

/// The state that a ``BlobStore`` keeps in memory about its files.
extension BlobStore {
    /// The state of one blob. It is small, because every blob on disk has one in memory.
    struct Entry: Sendable {
        private var shortBytes: UInt32
        private var shortReferences: UInt32
        private var shortRows: UInt32
        private var shortPins: UInt32 = 0
        var isVerified: Bool

        /// - Parameter bytes: the disk space of the blob. 4 GiB and more count as one byte less than 4 GiB.
        init(bytes: Int, references: Int, rows: Int = 0, isVerified: Bool) {
            shortBytes = UInt32(clamping: bytes)
            shortReferences = UInt32(clamping: references)
            shortRows = UInt32(clamping: rows)
            self.isVerified = isVerified
        }

        /// The disk space of the blob.
        var bytes: Int {
            get { Int(shortBytes) }
            set { shortBytes = UInt32(clamping: newValue) }
        }
        var references: Int {
            get { Int(shortReferences) }
            set { shortReferences = UInt32(clamping: newValue) }
        }
        /// The number of references that are rows of the index.
        var rows: Int {
            get { Int(shortRows) }
            set { shortRows = UInt32(clamping: newValue) }
        }
        /// The number of rows that are pinned.
        var pins: Int {
            get { Int(shortPins) }
            set { shortPins = UInt32(clamping: newValue) }
        }
        /// Whether the blob is leased or pinned and so must not be evicted.
        fileprivate var isHeld: Bool { references > rows || pins > 0 }
        /// The disk space of the blob if it is leased, otherwise 0.
        fileprivate var leasedBytes: Int { references > rows ? bytes : 0 }
        /// The disk space of the blob if it has leases and no rows, otherwise 0.
        fileprivate var leftoverBytes: Int { references > 0 && rows == 0 ? bytes : 0 }
    }

    struct State: Sendable {
        /// Change the entries only with ``change(_:_:)``.
        private(set) var entries: [BlobDigest: Entry] = [:]
        var ledger: SpaceLedger
        var directories = BlobDirectories()
        var imageLimits: ImageLimits
        var writers = 0
        private(set) var leasedBytes = 0
        private(set) var leftoverBytes = 0
        /// The leased or pinned blobs, each counted once.
        private(set) var held = (bytes: 0, count: 0)

        init(ledger: SpaceLedger, imageLimits: ImageLimits) {
            self.ledger = ledger
            self.imageLimits = imageLimits
        }

        /// Changes, adds or removes the entry of a blob, and updates the totals.
        mutating func change<T>(_ digest: BlobDigest, _ body: (inout Entry?) -> T) -> T {
            count(digest, entries[digest], -1)
            let result = body(&entries[digest])
            count(digest, entries[digest], 1)
            return result
        }

        private mutating func count(_ digest: BlobDigest, _ entry: Entry?, _ sign: Int) {
            leasedBytes += sign * (entry?.leasedBytes ?? 0)
            leftoverBytes += sign * (entry?.leftoverBytes ?? 0)
            guard let entry, entry.isHeld else { return }
            held.bytes += sign * entry.bytes
            held.count += sign
            directories.countHeld(sign, in: digest.shard)
        }

        mutating func reserveCapacity(_ count: Int) { entries.reserveCapacity(count) }

        /// Changes the disk space of a shard directory.
        mutating func setDirectoryBytes(_ bytes: Int, of shard: UInt8) {
            directories.setBytes(bytes, of: shard)
            ledger.directoryBytes = directories.bytes
        }
    }
}
