import LarderHTTPSemantics
import LarderImageFormats
import LarderImages
import LarderUpstream
import LarderProtocol

// Converts between the types of the image cache and those of the protocol.

extension ImageRequest {
    /// The request to the image cache for an `image.get`.
    init(_ parameters: ImageGet.Parameters) {
        self.init(parameters.image, policy: parameters.policy, maximumAge: parameters.maximumAgeSeconds)
        // The conversion cannot fail, because the digits were validated when the request was read.
        expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
        priority =
            switch parameters.priority {
            case .low: .low
            case .normal: .normal
            case .high: .high
            }
    }

    /// The request to the image cache for the other methods that name one image.
    init(_ image: ImageReference, policy: ImagePolicy = .default, maximumAge: Int? = nil) {
        self.init(
            url: image.url, cacheKey: image.cacheKey,
            cache: CacheRequest(policy: CachePolicy(policy), maximumAge: maximumAge))
    }

    /// The request to the image cache for one image of an `image.prefetch`.
    init(_ item: ImagePrefetch.Item, for rights: PeerRights) {
        self.init(item.image)
        user = rights.user
        expectedDigest = item.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
        priority = .prefetch
    }
}

extension CachePolicy {
    fileprivate init(_ policy: ImagePolicy) {
        switch policy {
        case .default: self = .default
        case .cacheFirst: self = .cacheFirst
        case .networkFirst: self = .networkFirst
        case .cacheOnly: self = .cacheOnly
        case .networkOnly: self = .networkOnly
        case .staleWhileRevalidate: self = .staleWhileRevalidate
        }
    }
}

extension WireDigest {
    /// Converts a digest of the cache.
    init(_ digest: BlobDigest) {
        guard let read = WireDigest(digest.description) else {
            preconditionFailure("a digest has 64 hexadecimal digits")
        }
        self = read
    }
}

extension WireImage {
    /// Converts an image of the cache, for the reply to `image.get`.
    init(_ image: CachedImage) {
        self.init(
            digest: WireDigest(image.digest), mediaType: image.type.mediaType, width: image.width, height: image.height,
            bytes: image.bytes, details: WireImageDetails(image.details))
    }

    /// Converts a row of the cache's index, which describes one cached image.
    init(_ row: ImageRow) {
        self.init(
            digest: WireDigest(row.digest), mediaType: row.header.type.mediaType, width: row.header.width,
            height: row.header.height, bytes: row.size, details: WireImageDetails(row.details))
    }
}

extension WireImageDetails {
    fileprivate init(_ details: ImageDetails) {
        self.init(
            frames: details.frames, isAnimation: details.isAnimated, hasAlpha: details.hasAlpha,
            orientation: details.orientation, lastModified: details.lastModified.map { Timestamp(seconds: $0) },
            etag: details.etag)
    }
}

extension Timestamp {
    /// Converts a time of the cache, in seconds since 1970. The time is clamped to the range 0 to 2^40.
    init(seconds: Int) { self.init(milliseconds: min(max(seconds, 0), 1 << 40) * 1000) }
}

extension ImageRow {
    /// The freshness of the image according to the cache headers of its response, regardless of the policy of a
    /// request.
    func wireFreshness(at now: Int) -> ImageFreshness {
        let freshness = ResponseFreshness(response)
        return !freshness.requiresValidation && freshness.remaining(at: now) > 0 ? .fresh : .stale
    }

    /// When the image becomes stale; nil if each use requires a validation.
    var wireExpiry: Timestamp? {
        ResponseFreshness(response).requiresValidation ? nil : Timestamp(seconds: expiresAt)
    }
}

extension ImageList.Entry {
    /// Converts a row of the cache's index to an entry in the result of `image.list`.
    init(_ row: ImageRow, now: Int) {
        let (url, cacheKey) = row.lookup
        self.init(
            reference: ImageReference(url: url, cacheKey: cacheKey), image: WireImage(row), isPinned: row.isPinned,
            storedAt: Timestamp(seconds: row.storedAt),
            lastUsedAt: Timestamp(seconds: row.lastUse), expiresAt: row.wireExpiry,
            freshness: row.wireFreshness(at: now))
    }
}

extension ImagePeek.Result {
    /// Converts the cache's explanation of how it would answer a request for an image to the result of `image.peek`.
    init(
        _ explanation: ImageExplanation, _ images: ImageService, explains: Bool, for rights: PeerRights, now: Int
    ) {
        let cached = explanation.row.map { row in
            ImagePeek.Cached(
                path: images.view.path(of: row.digest), image: WireImage(row), freshness: row.wireFreshness(at: now),
                ageSeconds: ResponseFreshness(row.response).age(at: now), isPinned: row.isPinned,
                storedAt: Timestamp(seconds: row.storedAt), lastUsedAt: Timestamp(seconds: row.lastUse),
                expiresAt: row.wireExpiry)
        }
        let (decision, revalidates): (ImagePeek.Decision, Bool) =
            switch explanation.decision {
            case .fresh: (.fresh, false)
            case .stale(let revalidates): (.stale, revalidates)
            case .revalidate: (.revalidate, false)
            case .fetch: (.fetch, false)
            case .notCached: (.notCached, false)
            }
        self.init(
            cached: cached, decision: decision, revalidates: revalidates,
            download: explanation.download.map { ImageDownloads.Download($0, images, for: rights) },
            rules: explains ? Self.rules(explanation) : nil)
    }

    /// Returns the rules that were applied and, if a download of the image is queued or running, one that describes it.
    private static func rules(_ explanation: ImageExplanation) -> [ImagePeek.Rule] {
        let rules = explanation.rules.rules.map { ImagePeek.Rule(name: $0.name, text: $0.text) }
        guard let download = explanation.download else { return rules }
        let state = download.isQueued ? "queued" : "in progress, with \(download.receivedBytes) bytes received"
        let text = "a download is \(state); \(download.waiters) requests wait for it"
        return rules + [ImagePeek.Rule(name: "download", text: text)]
    }
}

extension ImageDownloads.Download {
    /// Converts a download of the cache. Omits its URL if the peer may not have images of the URL's origin, and the query
    /// of the URL if the peer's user has not requested this URL.
    init(_ download: DownloadStatus, _ images: ImageService, for rights: PeerRights) {
        let priority: Priority =
            switch download.priority {
            case .prefetch: .prefetch
            case .low: .low
            case .normal: .normal
            case .high: .high
            }
        let url =
            download.users.contains(rights.user)
            ? download.url
            : String(decoding: download.url.utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
        self.init(
            id: download.id, url: images.denial(of: download.url, to: rights) == nil ? url : nil,
            state: download.isQueued ? .queued : .running, receivedBytes: download.receivedBytes,
            totalBytes: download.totalBytes, bytesPerSecond: download.bytesPerSecond, requests: download.waiters,
            priority: priority)
    }
}

extension AgentStats.Images {
    /// Converts the statistics of the cache.
    init(_ statistics: ImageStatistics) {
        self.init()
        hits = statistics.hits
        misses = statistics.misses
        joined = statistics.joined
        revalidations = statistics.revalidations
        staleAnswers = statistics.staleAnswers
        failures = statistics.failures
        evictions = statistics.evictions
        downloadedBytes = statistics.downloadedBytes
        entries = statistics.entries
        bytes = statistics.bytes
        indexBytes = statistics.indexBytes
        reservedBytes = statistics.reservedBytes
        leasedBytes = statistics.leftoverBytes
        activeDownloads = statistics.activeDownloads
        queued = statistics.queued
        certificateExpiresAt = statistics.certificateExpiresAt.map { Timestamp(milliseconds: 1000 * $0) }
        certificateFile = statistics.certificateFile
        maximumBytes = statistics.limits.bytes
        maximumImages = statistics.limits.count
    }
}
