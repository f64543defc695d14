/// The blobs of pinned images, each counted once however many images have it.
struct PinnedBlobs: Sendable {
    private var images: [BlobDigest: Int] = [:]
    /// Their bytes together.
    private(set) var bytes = 0

    var count: Int { images.count }

    /// Counts an image, if it is pinned.
    mutating func add(_ entry: ImageEntry) {
        guard entry.isPinned else { return }
        if images[entry.digest, default: 0] == 0 { bytes += entry.size }
        images[entry.digest, default: 0] += 1
    }

    /// What ``bytes`` would be with another pinned image.
    func bytes(with entry: ImageEntry) -> Int { images[entry.digest] == nil ? bytes + entry.size : bytes }

    /// Stops counting an image, if it is pinned.
    mutating func remove(_ entry: ImageEntry) {
        guard entry.isPinned, let number = images[entry.digest] else { return }
        images[entry.digest] = number > 1 ? number - 1 : nil
        if number == 1 { bytes -= entry.size }
    }
}
