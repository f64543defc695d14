/// Statistics of the image cache. Counters start at 0 with the process.
public struct ImageStatistics: Sendable, Hashable {
    /// Requests that were answered with a cached image.
    public var hits = 0
    /// Requests that began a download.
    public var misses = 0
    /// Requests that waited for the download of another one.
    public var joined = 0
    /// Responses of origins that a cached image is current.
    public var revalidations = 0
    /// Requests that were answered with a stale image.
    public var staleAnswers = 0
    /// Downloads that failed. Those whose last waiter left are not counted.
    public var failures = 0
    /// Images that were removed to make room, or because of their age.
    public var evictions = 0
    /// Received bytes of bodies.
    public var downloadedBytes = 0
    /// Cached images: rows of the index. Several of them may have the same bytes.
    public var entries = 0
    /// Disk space of all files of images and of their directories, in bytes. Files that only a lease keeps are included.
    public var bytes = 0
    /// Disk space of the index, its log and its copy, in bytes. No limit applies to it.
    public var indexBytes = 0
    public var files = 0
    /// Bytes that are reserved for images being written.
    public var reservedBytes = 0
    /// Bytes of files with references besides those of the index.
    public var leasedBytes = 0
    /// Bytes of files with such references only.
    public var leftoverBytes = 0
    /// Running downloads.
    public var flights = 0
    /// Queued downloads.
    public var queued = 0
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
