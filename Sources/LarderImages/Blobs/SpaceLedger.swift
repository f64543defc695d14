/// Limits on the disk space of the cache.
package struct SpaceLimits: Sendable, Hashable {
    /// The maximum disk space of all images and their directories in bytes, including images that are being written.
    package var bytes: Int
    /// The maximum number of images, including those that are being written.
    package var count: Int
    /// The space that must stay free on the disk, in bytes.
    package var freeBytes: Int
    /// The maximum size of one image in bytes, below 4 GiB.
    package let bytesPerImage: Int

    /// Creates limits. By default: 1 GiB, 100,000 images, at most 64 MiB per image, and 256 MiB of free disk space.
    package init(bytes: Int = 1 << 30, count: Int = 100_000, freeBytes: Int = 256 << 20, bytesPerImage: Int = 64 << 20)
    {
        self.bytes = bytes
        self.count = count
        self.freeBytes = freeBytes
        self.bytesPerImage = min(bytesPerImage, Int(UInt32.max))
    }
}

/// The disk space in use.
struct SpaceUsage: Sendable, Hashable {
    /// Disk space of images and their directories, in bytes.
    let bytes: Int
    /// The number of images.
    let count: Int
    /// Disk space reserved for images that are being written, including the directories that they may add.
    let reservedBytes: Int
}

/// The minimum that must be evicted before a reservation fits.
package struct SpaceShortage: Sendable, Hashable {
    /// Disk space of images in bytes.
    package let bytes: Int
    /// Number of images.
    package let count: Int
    /// The disk space that was used or reserved in the cache when the shortage was found, in bytes.
    let taken: Int
}

/// Accounts for the disk space that images use and that writers have reserved. Bytes are reserved before they are
/// written, so the limits hold at every moment.
struct SpaceLedger: Sendable {
    var limits: SpaceLimits
    /// Disk space of published images.
    private(set) var bytes = 0
    /// Disk space of `blobs` and its shard directories.
    var directoryBytes = 0
    /// The space of a new directory. It is reserved for each writer, because each publication may create one.
    var newDirectoryBytes = 0
    /// The number of published images.
    private(set) var count = 0
    /// Bytes reserved for writers, written or not.
    private(set) var reservedBytes = 0
    /// The part of ``reservedBytes`` that has been written.
    private(set) var writtenBytes = 0
    /// The number of writers that have reserved bytes.
    private(set) var writers = 0
    /// Bytes reserved for writers, including the directory that each may create.
    var promisedBytes: Int { reservedBytes + writers * newDirectoryBytes }

    init(limits: SpaceLimits) { self.limits = limits }

    /// Reserves bytes for a writer, and with the first reservation also counts the writer as an image.
    ///
    /// - Parameters:
    ///   - more: the number of bytes
    ///   - isNew: whether this is the writer's first reservation
    ///   - free: the free bytes on the disk
    /// - Returns: nil if the bytes are reserved; otherwise the minimum to evict first
    mutating func reserve(_ more: Int, isNew: Bool, free: Int) -> SpaceShortage? {
        if let shortage = shortage(more, writers: isNew ? 1 : 0, free: free) { return shortage }
        reservedBytes += more
        if isNew { writers += 1 }
        return nil
    }

    /// The minimum to evict before `more` bytes and `new` writers can be reserved; nil if they fit now.
    func shortage(_ more: Int, writers new: Int, free: Int) -> SpaceShortage? {
        let taken = bytes + directoryBytes + promisedBytes
        let overBytes = taken + new * newDirectoryBytes + more - limits.bytes
        // A writer that is already counted can continue even if the maximum number of images was lowered.
        let overCount = new > 0 || more == 0 ? count + writers + new - limits.count : 0
        // Bytes that are reserved but not written are still free on the disk.
        let overDisk = limits.freeBytes + (reservedBytes - writtenBytes) + more - free
        guard max(overBytes, overCount, overDisk) > 0 else { return nil }
        return SpaceShortage(bytes: max(0, overBytes, overDisk), count: max(0, overCount), taken: taken)
    }

    /// Whether the free space of the disk limits the cache more than ``SpaceLimits/bytes`` does.
    func isLimitedByDisk(free: Int) -> Bool { onDisk(free: free) < limits.bytes }

    /// The disk space that the cache could use if it evicted all images and all other writers had ended.
    private func onDisk(free: Int) -> Int { bytes + directoryBytes + writtenBytes + free - limits.freeBytes }

    mutating func wrote(_ more: Int) { writtenBytes += more }

    /// Whether an image would fit once all other writers have ended and all evictable images have been evicted.
    ///
    /// - Parameters:
    ///   - size: the disk space for the image's declared length
    ///   - retained: the disk space of images that must not be evicted, and of their directories
    ///   - free: the free bytes on the disk
    func canEverFit(_ size: Int, retained: Int, free: Int) -> Bool {
        size <= min(limits.bytes - newDirectoryBytes, onDisk(free: free)) - retained
    }

    /// Releases the reservation of a writer that has ended. A writer without reserved bytes was never counted in
    /// ``writers``. The caller adds the published image with ``add(_:)``.
    mutating func settle(reserved: Int, written: Int) {
        reservedBytes -= reserved
        writtenBytes -= written
        if reserved > 0 { writers -= 1 }
    }

    /// Adds an image that is on disk.
    mutating func add(_ bytes: Int) {
        self.bytes += bytes
        count += 1
    }

    /// Removes an image.
    mutating func remove(_ bytes: Int) {
        self.bytes -= bytes
        count -= 1
    }

    /// What is inconsistent; nil if nothing is. For tests.
    var inconsistency: String? {
        if [bytes, count, directoryBytes, writers].contains(where: { $0 < 0 }) {
            return "the ledger has a negative sum"
        }
        if writers == 0, reservedBytes != 0 || writtenBytes != 0 { return "bytes are reserved without a writer" }
        return writtenBytes >= 0 && writtenBytes <= reservedBytes ? nil : "more bytes are written than reserved"
    }
}
