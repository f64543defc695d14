internal import Synchronization

/// The disk space of `blobs` and of its 256 shard directories, and the number of leased or pinned blobs in each.
struct BlobDirectories: Sendable {
    /// The space of `blobs` itself.
    var rootBytes = 0
    private var shards = [UInt32](repeating: 0, count: 256)
    private var heldBlobs = [UInt32](repeating: 0, count: 256)
    private var shardBytes = 0

    var bytes: Int { rootBytes + shardBytes }

    mutating func setBytes(_ bytes: Int, of shard: UInt8) {
        shardBytes -= Int(shards[Int(shard)])
        shards[Int(shard)] = UInt32(clamping: bytes)
        shardBytes += Int(shards[Int(shard)])
    }

    /// Adds `change`, which is 1 or -1, to the number of leased or pinned blobs in a shard.
    mutating func countHeld(_ change: Int, in shard: UInt8) {
        heldBlobs[Int(shard)] = UInt32(clamping: Int(heldBlobs[Int(shard)]) + change)
    }

    /// The space of `blobs` and of the shard directories that contain leased or pinned blobs.
    var heldBytes: Int { rootBytes + (0..<256).reduce(0) { $0 + (heldBlobs[$1] > 0 ? Int(shards[$1]) : 0) } }
}

extension BlobStore {
    /// The estimated disk space of a file of `size` bytes: the size, rounded up to whole blocks.
    func space(of size: Int) -> Int { (size + files.blockBytes - 1) / files.blockBytes * files.blockBytes }

    /// Measures `blobs` and all shard directories.
    func measureDirectories() throws(CacheFileError) {
        let root = try files.allocatedBytes("blobs")
        state.withLock { state in
            state.directories.rootBytes = root
            // `blobs` has at most 256 short names, so it takes no more space than a new directory.
            state.ledger.newDirectoryBytes = root
        }
        for shard in UInt8.min...UInt8.max { try measureDirectory(shard) }
    }

    /// Measures a shard directory. Directories grow with their entries and shrink only when they are removed.
    private func measureDirectory(_ shard: UInt8) throws(CacheFileError) {
        let bytes = try files.allocatedBytes(Self.shard(shard))
        state.withLock { $0.setDirectoryBytes(bytes, of: shard) }
    }

    /// Measures a shard directory after a blob was published in it. On failure the last measurement stays.
    func remeasureDirectory(_ shard: UInt8) { try? measureDirectory(shard) }

    /// Removes a shard directory if it is empty. The caller must have locked ``names``, so that no blob is published in
    /// the directory at the same time. An empty directory that cannot be removed is harmless; the next sweep retries.
    func removeEmptyDirectory(_ shard: UInt8) {
        guard (try? files.removeDirectory(Self.shard(shard))) == true else { return }
        state.withLock { $0.setDirectoryBytes(0, of: shard) }
    }

    /// Replaces the estimated disk space of a blob by that of its file. Blobs of an earlier process are counted with an
    /// estimate at first.
    func correctSpace(of digest: BlobDigest, _ file: any CacheFile) throws(CacheFileError) {
        let bytes = try file.allocatedBytes()
        state.withLock { state in
            let old = state.change(digest) { entry in
                defer { entry?.bytes = bytes }
                return entry?.bytes
            }
            guard let old, old != bytes else { return }
            state.ledger.remove(old)
            state.ledger.add(state.entries[digest]?.bytes ?? 0)
        }
    }

    static func shard(_ shard: UInt8) -> String { "blobs/" + (shard < 16 ? "0" : "") + String(shard, radix: 16) }
}
