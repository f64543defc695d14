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
