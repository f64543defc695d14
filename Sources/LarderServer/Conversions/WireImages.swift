import LarderHTTPSemantics
import LarderImageFormats
import LarderImages
import LarderUpstream
import LarderProtocol

// What the image cache and the protocol call the same thing.

extension ImageRequest {
    /// What `image.get` asks for.
    init(_ parameters: ImageGet.Parameters) {
        self.init(parameters.image, policy: parameters.policy, maximumAge: parameters.maximumAgeSeconds)
        // The text was read as a digest already.
        expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
        priority =
            switch parameters.priority {
            case .low: .low
            case .normal: .normal
            case .high: .high
            }
    }

    /// What the methods on one image mean.
    init(_ image: ImageReference, policy: ImagePolicy = .default, maximumAge: Int? = nil) {
        self.init(
            url: image.url, cacheKey: image.cacheKey,
            cache: CacheRequest(policy: CachePolicy(policy), maximumAge: maximumAge))
    }

    /// One of the images that `image.prefetch` brings in.
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
    /// The digest as the protocol writes it.
    init(_ digest: BlobDigest) {
        guard let read = WireDigest(digest.description) else { preconditionFailure("it is 64 hexadecimal digits") }
        self = read
    }
}

extension WireImage {
    /// An image that answers a request.
    init(_ image: CachedImage) {
        self.init(
            digest: WireDigest(image.digest), mediaType: image.type.mediaType, width: image.width, height: image.height,
            bytes: image.bytes, details: WireImageDetails(image.details))
    }

    /// An image that is held.
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
    /// A time of the cache's, in seconds since 1970.
    init(seconds: Int) { self.init(milliseconds: min(max(seconds, 0), 1 << 40) * 1000) }
}

extension ImageRow {
    /// `fresh` or `stale`, whatever a policy makes of it.
    func wireFreshness(at now: Int) -> ImageFreshness {
        let freshness = ResponseFreshness(response)
        return !freshness.requiresValidation && freshness.remaining(at: now) > 0 ? .fresh : .stale
    }

    /// When it stops being fresh; nil where each use needs a validation.
    var wireExpiry: Timestamp? {
        ResponseFreshness(response).requiresValidation ? nil : Timestamp(seconds: expiresAt)
    }
}

extension ImageList.Entry {
    /// A row of the index.
    init(_ row: ImageRow, now: Int) {
        let (url, cacheKey) = row.lookup
        self.init(
            reference: ImageReference(url: cacheKey == nil ? url : row.url, cacheKey: cacheKey), image: WireImage(row),
            isPinned: row.isPinned, storedAt: Timestamp(seconds: row.storedAt),
            lastUsedAt: Timestamp(seconds: row.lastUse), expiresAt: row.wireExpiry,
            freshness: row.wireFreshness(at: now))
    }
}

extension ImagePeek.Result {
    /// What the cache says of a request.
    init(_ explanation: ImageExplanation, _ cache: ImageCache, explains: Bool, now: Int) {
        let held = explanation.row.map { row in
            ImagePeek.Held(
                path: cache.path(of: row.digest), image: WireImage(row), freshness: row.wireFreshness(at: now),
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
            case .notHeld: (.notHeld, false)
            }
        let rules = explanation.rules.rules.map { ImagePeek.Rule(name: $0.name, text: $0.text) }
        self.init(
            held: held, decision: decision, revalidates: revalidates,
            rules: explains ? rules + Self.flight(explanation) : nil)
    }

    /// What else matters: a fetch that is under way.
    private static func flight(_ explanation: ImageExplanation) -> [ImagePeek.Rule] {
        guard let flight = explanation.flight else { return [] }
        let state = flight.isQueued ? "waits for its turn" : "is under way with \(flight.receivedBytes) bytes so far"
        return [ImagePeek.Rule(name: "flight", text: "a fetch \(state), for \(flight.waiters) requests")]
    }
}

extension AgentStats.Images {
    /// The cache in figures.
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
        flights = statistics.flights
        queued = statistics.queued
        maximumBytes = statistics.limits.bytes
        maximumImages = statistics.limits.count
    }
}
