internal import LarderHTTPSemantics
internal import LarderPlatform
package import LarderUpstream
internal import Synchronization

/// The image cache as event loops see it. It can look up images, and add and release leases, on any thread.
package final class ImageCacheView: Sendable {
    let tables: CacheTables
    private let files: any DirectoryFiles
    /// The path of the cache directory.
    private let directory: String
    /// The hash of the fields that the agent sends with every image request; see ``Variant/fingerprint(of:)``.
    let fingerprint: UInt64
    /// The bytes that downloads have received.
    let receivedBytes = ByteCounter()
    /// Raised when the actor has to fetch uses or releases.
    let signal: Signal
    private let versions = Atomic(0)

    init(_ disk: ImageDiskCache, fingerprint: UInt64, signal: Signal) {
        (tables, files, directory) = (disk.accounts.tables, disk.files, disk.directory)
        (self.fingerprint, self.signal) = (fingerprint, signal)
    }

    /// Invalidates the prepared requests. ``ImageCache`` calls it after the ``ImageCatalog`` has applied new settings.
    func settingsChanged() { versions.add(1, ordering: .releasing) }

    /// Increases with every change of the settings, which invalidates each earlier ``PreparedImageRequest``.
    package var settingsVersion: Int { versions.load(ordering: .acquiring) }

    var keys: ImageKeyResolver { tables.read { $0.keys } }

    /// The settings of a URL's origin, if any.
    package func origin(of url: String) -> ImageOrigin? { keys.origin(of: url) }

    /// The path of a blob's file, for clients.
    package func path(of digest: BlobDigest) -> String { directory + "/" + BlobFiles.name(digest) }

    /// Whether the index has been read, so that ``hit(_:now:)`` and ``peek(_:now:)`` find all images.
    package var isOpen: Bool { tables.read { if case .open = $0.opening { true } else { false } } }

    /// Why the index cannot be read; nil if it was read or is being read.
    package var problem: ImageError? {
        if tables.isInterrupted { return nil }
        return tables.read { if case .failed(let error) = $0.opening { error } else { nil } }
    }

    /// Why no new image fits on the disk, as of the last maintenance period; nil if one fits.
    package var diskProblem: String? { tables.read { $0.blobs.diskProblem } }

    /// Why the last change of the index could not be written; nil if it was written. Such a change is undone, so that an
    /// image may be fetched again.
    package var writeProblem: ImageError? { tables.read { $0.writeProblem } }

    package var statistics: ImageStatistics {
        var statistics = tables.read { state in
            var statistics = state.statistics
            statistics.entries = state.images.count
            let usage = state.blobs.usage
            (statistics.bytes, statistics.files) = (usage.bytes, usage.count)
            statistics.reservedBytes = usage.reservedBytes
            (statistics.leasedBytes, statistics.leftoverBytes) = (state.blobs.leasedBytes, state.blobs.leftoverBytes)
            statistics.limits = state.blobs.ledger.limits
            return statistics
        }
        statistics.downloadedBytes = receivedBytes.bytes
        let certificate = keys.certificateExpiry
        (statistics.certificateExpiresAt, statistics.certificateFile) = (certificate?.seconds, certificate?.file)
        statistics.indexBytes = isOpen ? ImageIndex.diskBytes(files) : 0
        return statistics
    }

    // MARK: Lookup

    /// Computes the key of a request.
    /// - Returns: nil if the URL is invalid
    package func prepare(_ request: ImageRequest) -> PreparedImageRequest? {
        (try? keys.resolve(request)).map { PreparedImageRequest(request: request, key: $0.key) }
    }

    /// Answers a request from the cache, if the caching rules permit it without the network. Blocks on the disk only for
    /// one fstatat(2).
    /// - Returns: the image with a reference to its blob; nil if ``ImageCache/image(_:reporting:)`` has to answer
    package func hit(_ prepared: PreparedImageRequest, now: Int) -> CachedImage? {
        take(now: now) { state in
            guard
                let slot = state.images.slot(
                    of: prepared.key, prepared.request.expectedDigest, now, maximumAge: state.maximumAge),
                let entry = state.images[slot], entry.matches(fingerprint) == true
            else { return nil }
            switch prepared.request.cache.decide(StoredCandidate(freshness: entry.freshness), now: now) {
            case .fresh, .stale(revalidateInBackground: false): return slot
            default: return nil
            }
        }
    }

    /// Answers with an image if the image is still cached, its file exists and its file is verified; otherwise nil. Adds
    /// a reference and counts the use.
    func take(_ entry: ImageEntry, now: Int) -> CachedImage? {
        take(now: now) { state in
            guard let slot = state.images.slot(of: entry.key), state.images[slot]?.digest == entry.digest else {
                return nil
            }
            return slot
        }
    }

    @inline(__always)
    private func take(now: Int, _ find: (borrowing CacheTables.State) -> UInt32?) -> CachedImage? {
        let (image, isBatchFull) = tables.take(now: now, find)
        if isBatchFull { signal.raise() }
        return image.flatMap { withFile($0) }
    }

    /// Returns an image whose file exists. If another program has removed the file, releases the reference to the blob.
    func withFile(_ image: CachedImage) -> CachedImage? {
        if hasFile(image.digest) { return image }
        release(image.digest)
        return nil
    }

    /// Whether the file of a blob exists. Blocks only on one fstatat(2). If another program has removed the file, marks
    /// the blob as unverified, so that the blob is not served before its file has been opened.
    func hasFile(_ digest: BlobDigest) -> Bool {
        let hasFile = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 74) { name in
            guard let start = name.baseAddress else { return true }
            // "blobs/", two digits, a slash, 64 digits and a zero byte; see ``BlobFiles/name(_:)``.
            digest.write(to: start + 9)
            (name[0], name[1], name[2], name[3], name[4], name[5]) = (0x62, 0x6C, 0x6F, 0x62, 0x73, 0x2F)
            (name[6], name[7], name[8], name[73]) = (name[9], name[10], 0x2F, 0)
            return files.hasFile(start)
        }
        if !hasFile { tables.markMissing(digest) }
        return hasFile
    }

    /// Returns the cached image of a request, fresh or stale; nil if it is not cached. Adds no reference and does
    /// not count as a use.
    package func peek(_ request: ImageRequest, now: Int) -> CachedImage? {
        guard let location = try? keys.resolve(request) else { return nil }
        return tables.read { state in
            guard
                let slot = state.images.slot(
                    of: location.key, request.expectedDigest, now, maximumAge: state.maximumAge),
                let entry = state.images[slot],
                entry.matches(fingerprint) != false
            else { return nil }
            return CachedImage(entry, state.details[slot] ?? .unknown, source: .hit, now: now)
        }
    }

    /// Releases a reference. If it was the last one, the file is removed in the background.
    package func release(_ digest: BlobDigest) {
        if tables.release(digest) { signal.raise() }
    }
}

/// A request with its computed key, for repeated use. The key is valid until the settings change.
package struct PreparedImageRequest: Sendable {
    package let request: ImageRequest
    let key: ImageKey
}

extension CachedImage {
    init(
        _ entry: ImageEntry, _ details: ImageDetails, source: Source, now: Int, freshness: Freshness? = nil
    ) {
        let isFresh = entry.freshness.remaining(at: now) > 0 && !entry.freshness.requiresValidation
        self.init(
            digest: entry.digest, type: entry.type, width: entry.width, height: entry.height, bytes: entry.size,
            freshness: freshness ?? (isFresh ? .fresh : .stale), source: source, age: entry.freshness.age(at: now),
            details: details)
    }
}
