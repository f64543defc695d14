/// The image cache in figures. Counters begin at 0 with the process.
public struct ImageStatistics: Sendable, Hashable {
    /// Requests that were answered with what was held.
    public var hits = 0
    /// Requests that began a flight.
    public var misses = 0
    /// Requests that waited for a flight of another one.
    public var joined = 0
    /// Times that an origin said that what is held is current.
    public var revalidations = 0
    /// Requests that were answered with something stale.
    public var staleAnswers = 0
    /// Flights that failed; those that nobody waited for any more are not counted.
    public var failures = 0
    /// Images that were removed to make room, or for their age.
    public var evictions = 0
    /// Bytes of bodies that came over the network.
    public var downloadedBytes = 0
    /// Images that are held: rows of the index. Several of them may have the same bytes.
    public var entries = 0
    /// Disk space of all files of images and of their directories, in bytes. Files that only a lease keeps are included.
    public var bytes = 0
    /// Disk space of the index, its log and its copy, in bytes. No limit applies to it.
    public var indexBytes = 0
    /// Files.
    public var files = 0
    /// Bytes promised to images that are being written.
    public var reservedBytes = 0
    /// Bytes of files that somebody refers to besides the index.
    public var leasedBytes = 0
    /// Bytes of files that nothing but such a reference keeps.
    public var leftoverBytes = 0
    /// Images that are being fetched.
    public var flights = 0
    /// Images that wait for a place among these.
    public var queued = 0
    /// The limits that hold.
    public var limits = SpaceLimits()

    public init() {}

    /// The statistics of a cache.
    init(_ catalog: ImageCatalog, _ disk: ImageDiskCache) {
        self = catalog.statistics
        let usage = disk.blobs.usage
        bytes = usage.bytes
        indexBytes = disk.index.diskBytes
        files = usage.count
        reservedBytes = usage.reservedBytes
        (leasedBytes, leftoverBytes) = disk.blobs.leases
        limits = disk.blobs.limits
    }
}
