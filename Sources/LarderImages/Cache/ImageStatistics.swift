/// Statistics of the image cache. Counters start at 0 when the agent starts.
package struct ImageStatistics: Sendable, Hashable {
    /// Requests that were answered with a cached image.
    package var hits = 0
    /// Requests that started a download.
    package var misses = 0
    /// Requests that waited for a download that was already in progress.
    package var joined = 0
    /// Downloads that delivered an image.
    package var downloads = 0
    /// Revalidations in which the origin confirmed the cached image.
    package var revalidations = 0
    /// Requests that were answered with a stale image.
    package var staleAnswers = 0
    /// Failed downloads. Downloads that ended because their last waiter was cancelled do not count.
    package var failures = 0
    /// Images that were evicted to make room or because of their age.
    package var evictions = 0
    /// Bytes received in response bodies.
    package var downloadedBytes = 0
    /// Cached images, that is, rows of the index. Several rows may share a file.
    package var entries = 0
    /// Disk space of all image files and their directories in bytes, including leased files that have no row.
    package var bytes = 0
    /// Disk space of the index, its log and its copy, in bytes. No setting limits this space.
    package var indexBytes = 0
    package var files = 0
    /// Bytes reserved for images that are being written.
    package var reservedBytes = 0
    /// Bytes of leased files.
    package var leasedBytes = 0
    /// Bytes of leased files that have no row.
    package var leftoverBytes = 0
    /// Running downloads.
    package var activeDownloads = 0
    /// Queued downloads.
    package var queued = 0
    package var limits = SpaceLimits()
    /// When the first certificate of an origin's settings expires, in seconds since 1970, as of the last request to each
    /// origin; nil without certificates.
    package var certificateExpiresAt: Int?
    /// The file of that certificate; nil without certificates.
    package var certificateFile: String?

    package init() {}
}
