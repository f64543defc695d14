/// Statistics of the image cache. Counters start at 0 with the process.
package struct ImageStatistics: Sendable, Hashable {
    /// Requests that were answered with a cached image.
    package var hits = 0
    /// Requests that began a download.
    package var misses = 0
    /// Requests that waited for the download of another one.
    package var joined = 0
    /// Responses of origins that a cached image is current.
    package var revalidations = 0
    /// Requests that were answered with a stale image.
    package var staleAnswers = 0
    /// Downloads that failed. Those whose last waiter left are not counted.
    package var failures = 0
    /// Images that were removed to make room, or because of their age.
    package var evictions = 0
    /// Received bytes of bodies.
    package var downloadedBytes = 0
    /// Cached images: rows of the index. Several of them may have the same bytes.
    package var entries = 0
    /// Disk space of all files of images and of their directories, in bytes. Files that only a lease keeps are included.
    package var bytes = 0
    /// Disk space of the index, its log and its copy, in bytes. No limit applies to it.
    package var indexBytes = 0
    package var files = 0
    /// Bytes that are reserved for images being written.
    package var reservedBytes = 0
    /// Bytes of files with references besides those of the index.
    package var leasedBytes = 0
    /// Bytes of files with such references only.
    package var leftoverBytes = 0
    /// Running downloads.
    package var flights = 0
    /// Queued downloads.
    package var queued = 0
    package var limits = SpaceLimits()

    package init() {}

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
