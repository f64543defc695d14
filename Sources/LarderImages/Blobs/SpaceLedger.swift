/// The limits of what the cache may take.
package struct SpaceLimits: Sendable, Hashable {
    /// The maximum disk space of all images together with their directories, in bytes, those being written included.
    package var bytes: Int
    /// The most images, those being written included.
    package var count: Int
    /// What must stay free on the disk, in bytes.
    package var freeBytes: Int
    /// The most bytes of one image, below 4 GiB.
    package let bytesPerImage: Int

    /// Makes limits: 1 GiB in 100,000 images of 64 MiB at most, 256 MiB of the disk left free.
    package init(bytes: Int = 1 << 30, count: Int = 100_000, freeBytes: Int = 256 << 20, bytesPerImage: Int = 64 << 20)
    {
        self.bytes = bytes
        self.count = count
        self.freeBytes = freeBytes
        self.bytesPerImage = min(bytesPerImage, Int(UInt32.max))
    }
}

/// What has to go before there is room.
package struct SpaceShortage: Sendable, Hashable {
    /// Disk space of images in bytes, at least.
    package let bytes: Int
    /// So many images, at least.
    package let count: Int
    /// Bytes that were taken or promised when this was found.
    let taken: Int
}

/// Counts the disk space that images take and that is reserved for writers. Bytes are reserved before they are written, so
/// the limits hold at every moment, not only between writes.
struct SpaceLedger: Sendable {
    var limits: SpaceLimits
    /// Disk space of published images.
    private(set) var bytes = 0
    /// Disk space of the directories that they are in.
    var directoryBytes = 0
    /// The space of a new directory, which a publication may add. It is reserved for each writer.
    var newDirectoryBytes = 0
    /// Published images.
    private(set) var count = 0
    /// Bytes promised to writers, written or not.
    private(set) var reservedBytes = 0
    /// Of those, bytes that are on disk already.
    private(set) var writtenBytes = 0
    /// Writers.
    private(set) var writers = 0
    /// Bytes promised to writers, with the space of the directory that each may add.
    var promisedBytes: Int { reservedBytes + writers * newDirectoryBytes }

    init(limits: SpaceLimits) { self.limits = limits }

    /// Promises bytes, and a place for a new writer.
    ///
    /// - Parameters:
    ///   - more: how many bytes
    ///   - isNew: whether the writer has no place yet
    ///   - free: the bytes that are free on the disk now
    /// - Returns: nothing if it is promised, or what has to go first
    mutating func reserve(_ more: Int, isNew: Bool, free: Int) -> SpaceShortage? {
        if let shortage = shortage(more, writers: isNew ? 1 : 0, free: free) { return shortage }
        reservedBytes += more
        if isNew { writers += 1 }
        return nil
    }

    /// What has to go first before so many more bytes and writers can be promised; nothing if they can be now.
    func shortage(_ more: Int, writers new: Int, free: Int) -> SpaceShortage? {
        let taken = bytes + directoryBytes + promisedBytes
        let overBytes = taken + new * newDirectoryBytes + more - limits.bytes
        // A writer that has its place needs no other one, and a limit that was lowered does not stop it.
        let overCount = new > 0 || more == 0 ? count + writers + new - limits.count : 0
        // What was promised and not written yet is still free on the disk.
        let overDisk = limits.freeBytes + (reservedBytes - writtenBytes) + more - free
        guard max(overBytes, overCount, overDisk) > 0 else { return nil }
        return SpaceShortage(bytes: max(0, overBytes, overDisk), count: max(0, overCount), taken: taken)
    }

    mutating func wrote(_ more: Int) { writtenBytes += more }

    /// Whether an image fits after all images that may be evicted are gone and all other writers have ended.
    ///
    /// - Parameters:
    ///   - size: the disk space of its declared length
    ///   - held: the disk space of images that may not go, and of their directories
    ///   - free: the bytes that are free on the disk now
    func canEverHold(_ size: Int, held: Int, free: Int) -> Bool {
        let onDisk = bytes + directoryBytes + writtenBytes + free - limits.freeBytes
        return size <= min(limits.bytes - newDirectoryBytes, onDisk) - held
    }

    /// Ends a writer. One that reserved nothing was not counted. The caller adds the published image with ``add(_:)``.
    mutating func settle(reserved: Int, written: Int) {
        reservedBytes -= reserved
        writtenBytes -= written
        if reserved > 0 { writers -= 1 }
    }

    /// Counts an image that is on disk.
    mutating func add(_ bytes: Int) {
        self.bytes += bytes
        count += 1
    }

    /// Stops counting one.
    mutating func remove(_ bytes: Int) {
        self.bytes -= bytes
        count -= 1
    }
}
