import LarderEncoding
package import LarderProtocol

/// The properties of an image, determined from its bytes, and what its origin reported about it.
public struct LarderImage: Sendable, Hashable {
    /// The SHA-256 of the bytes of an image.
    public struct Digest: Sendable, Hashable, CustomStringConvertible {
        package let wire: WireDigest

        package init(_ wire: WireDigest) { self.wire = wire }

        /// Reads 64 hexadecimal digits in upper or lower case, with or without the prefix `sha256:`. Returns nil for
        /// any other text.
        public init?(_ text: String) {
            guard let wire = WireDigest(text) else { return nil }
            self.wire = wire
        }

        /// 64 lowercase hexadecimal digits.
        public var hex: String { wire.hex }

        /// `sha256:` followed by the digits.
        public var description: String { wire.description }
    }

    /// How fresh an image is. Values that this version does not know are kept as received.
    public struct Freshness: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the freshness.
        public let rawValue: String
        /// Creates a freshness from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        init(_ wire: ImageFreshness) { rawValue = wire.rawValue }

        /// The image is within its lifetime.
        public static let fresh = Self(.fresh)
        /// The image is past its lifetime, but may still be used.
        public static let stale = Self(.stale)
        /// The origin confirmed for this request that the image is current.
        public static let revalidated = Self(.revalidated)

        /// The same as ``rawValue``.
        public var description: String { rawValue }
    }

    /// Where an image comes from. Values that this version does not know are kept as received.
    public struct Source: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the source.
        public let rawValue: String
        /// Creates a source from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The image was cached.
        public static let cache = Self(rawValue: ImageGet.Source.hit.rawValue)
        /// The image was downloaded for this request.
        public static let download = Self(rawValue: ImageGet.Source.miss.rawValue)
        /// The image was already being downloaded for another request.
        public static let sharedDownload = Self(rawValue: ImageGet.Source.joined.rawValue)

        /// The name of the constant, such as `download`; the same as ``rawValue`` for a source without a constant.
        public var description: String {
            switch self {
            case .cache: "cache"
            case .download: "download"
            case .sharedDownload: "sharedDownload"
            default: rawValue
            }
        }
    }

    /// The SHA-256 of the bytes of the image.
    public var digest: Digest
    /// The media type of the image format, such as `image/png`. It is determined from the bytes, not from the origin's
    /// response.
    public var mediaType: String
    /// The width in pixels, after the orientation is applied.
    public var width: Int
    /// The height in pixels, after the orientation is applied.
    public var height: Int
    /// The size of the file in bytes.
    public var byteCount: Int
    /// The number of frames; nil if it is unknown.
    public var frameCount: Int?
    /// Whether the image is an animation. Nil if the agent would have to read the whole file to determine it.
    public var isAnimation: Bool?
    /// Whether pixels may be transparent. Nil if the header does not show it.
    public var hasAlpha: Bool?
    /// The orientation in the Exif data, from 1 to 8; nil without one.
    public var orientation: Int?
    /// When the image was last modified, according to its origin. Nil if the origin does not report it.
    public var lastModified: LarderTime?
    /// The entity tag from the origin, with its quotes. Nil if the origin sent none.
    public var etag: String?

    /// Creates the properties of an image, for example for tests.
    public init(digest: Digest, mediaType: String, width: Int, height: Int, byteCount: Int) {
        self.digest = digest
        self.mediaType = mediaType
        self.width = width
        self.height = height
        self.byteCount = byteCount
    }

    package init(_ wire: WireImage) {
        self.init(
            digest: Digest(wire.digest), mediaType: wire.mediaType, width: wire.width, height: wire.height,
            byteCount: wire.bytes)
        frameCount = wire.details.frames
        isAnimation = wire.details.isAnimation
        hasAlpha = wire.details.hasAlpha
        orientation = wire.details.orientation
        lastModified = wire.details.lastModified.map(LarderTime.init)
        etag = wire.details.etag
    }
}

/// A request for an image: the URL of the image, and how the agent may obtain it.
///
/// A request can be written as a string, which is the URL. For a URL in a variable, use
/// ``ImageClient/get(at:onProgress:)``:
///
/// ```swift
/// let name = "logo"
/// let logo = try await client.images.get("https://img.example.org/\(name).png")
/// let photo = LarderImageRequest("https://img.example.org/photo.jpg", policy: .cacheFirst, deadline: .seconds(2))
/// ```
public struct LarderImageRequest: Sendable, Hashable {
    /// Whether a request prefers the cache or the network.
    public enum Policy: Sendable, Hashable, CaseIterable {
        /// The HTTP rules for a private cache (RFC 9111, RFC 5861).
        case `default`
        /// A cached image, however old; the network only if none is cached.
        case cacheFirst
        /// The network; a cached image if the network fails.
        case networkFirst
        /// A cached image, or the error `notFound`.
        case cacheOnly
        /// The network, even if a fresh image is cached.
        case networkOnly
        /// A cached image at once. The agent validates a stale one in the background.
        case staleWhileRevalidate

        var wire: ImagePolicy {
            switch self {
            case .default: .default
            case .cacheFirst: .cacheFirst
            case .networkFirst: .networkFirst
            case .cacheOnly: .cacheOnly
            case .networkOnly: .networkOnly
            case .staleWhileRevalidate: .staleWhileRevalidate
            }
        }
    }

    /// The order of requests that wait for the network.
    public enum Priority: Sendable, Hashable, CaseIterable {
        /// After other requests.
        case low
        /// The default.
        case normal
        /// Before other requests, for an image that a user is waiting to see.
        case high

        var wire: ImageGet.Priority {
            switch self {
            case .low: .low
            case .normal: .normal
            case .high: .high
            }
        }
    }

    /// An absolute `http` or `https` URL.
    public var url: String
    /// Identifies the image in place of the query of the URL. URLs that differ only in a signature in their query can
    /// thus share one cached image. Nil to use the whole URL.
    public var cacheKey: String?
    /// Whether a cached image or the network is preferred.
    public var policy: Policy
    /// The maximum acceptable age of the image, in whole seconds, rounded down, at most 3660 days; nil to apply only the
    /// policy.
    public var maximumAge: Duration?
    /// The SHA-256 that the image must have; an image with another digest is rejected. Nil to accept any image.
    public var expectedDigest: LarderImage.Digest?
    /// The priority of the download among the queued downloads of the same user.
    public var priority: Priority
    /// How long the agent may take, in whole milliseconds, rounded up, at most a day; nil for
    /// ``LarderClient/Configuration/timeout``.
    public var deadline: Duration?

    /// Creates a request from its properties.
    public init(
        _ url: String, cacheKey: String? = nil, policy: Policy = .default, maximumAge: Duration? = nil,
        expectedDigest: LarderImage.Digest? = nil, priority: Priority = .normal, deadline: Duration? = nil
    ) {
        self.url = url
        self.cacheKey = cacheKey
        self.policy = policy
        self.maximumAge = maximumAge
        self.expectedDigest = expectedDigest
        self.priority = priority
        self.deadline = deadline
    }

    var reference: ImageReference { ImageReference(url: url, cacheKey: cacheKey) }

    var parameters: ImageGet.Parameters {
        ImageGet.Parameters(
            reference, policy: policy.wire, maximumAgeSeconds: maximumAge?.wholeSeconds,
            expectedDigest: expectedDigest?.wire, leaseSeconds: 0, priority: priority.wire,
            deadlineMilliseconds: deadline?.milliseconds)
    }
}

extension LarderImageRequest: ExpressibleByStringInterpolation {
    /// Creates a request with the default policy from the URL of the image.
    public init(stringLiteral url: String) { self.init(url) }
}

/// The progress of a download that a request waits for.
public struct DownloadProgress: Sendable, Hashable {
    /// The number of bytes of the image received so far. Decreases if the download starts again.
    public var receivedBytes: Int
    /// The size of the image in bytes; nil until the origin declares it.
    public var totalBytes: Int?
    /// Whether the request waits for a download that was already in progress.
    public var isShared: Bool

    /// Creates a progress from its properties, for example for tests.
    public init(receivedBytes: Int, totalBytes: Int? = nil, isShared: Bool = false) {
        self.receivedBytes = receivedBytes
        self.totalBytes = totalBytes
        self.isShared = isShared
    }

    init(_ wire: ImageGet.Progress) {
        (receivedBytes, totalBytes, isShared) = (wire.receivedBytes, wire.totalBytes, wire.isShared)
    }
}

/// The progress of a prefetch.
public struct PrefetchProgress: Sendable, Hashable {
    /// The number of images that are cached now, whether downloaded or already present.
    public let done: Int
    /// The number of images that could not be cached.
    public let failed: Int
    /// The number of bytes downloaded so far.
    public let byteCount: Int
    /// The number of images requested.
    public let total: Int

    /// Creates a progress from its properties, for example for tests.
    public init(done: Int, failed: Int, byteCount: Int, total: Int) {
        self.done = done
        self.failed = failed
        self.byteCount = byteCount
        self.total = total
    }

    init(_ wire: ImageProgress) { (done, failed, byteCount, total) = (wire.done, wire.failed, wire.bytes, wire.total) }
}

/// The result of a prefetch.
public struct PrefetchSummary: Sendable, Hashable {
    /// An image that could not be cached.
    public struct Failure: Sendable, Hashable {
        /// The URL as requested.
        public let url: String
        /// The error that a request for the image would throw.
        public let error: RemoteError

        /// Creates a failure from its properties, for example for tests.
        public init(url: String, error: RemoteError) {
            self.url = url
            self.error = error
        }
    }

    package let wire: ImagePrefetch.Result

    init(_ wire: ImagePrefetch.Result) { self.wire = wire }

    /// Creates a summary from its properties, for example for tests.
    public init(
        total: Int, downloaded: Int, cached: Int, failed: Int, byteCount: Int, failures: [Failure] = []
    ) {
        wire = ImagePrefetch.Result(
            total: total, fetched: downloaded, cached: cached, failed: failed, bytes: byteCount,
            failures: failures.map { ImagePrefetch.Failure(url: $0.url, error: $0.error.wire) })
    }

    /// The number of images requested.
    public var total: Int { wire.total }
    /// The number of images that were downloaded or validated.
    public var downloaded: Int { wire.fetched }
    /// The number of images that were cached and usable.
    public var cached: Int { wire.cached }
    /// The number of images that failed.
    public var failed: Int { wire.failed }
    /// The number of bytes downloaded.
    public var byteCount: Int { wire.bytes }
    /// The first failures, in the order of the request; at most 1,000.
    public var failures: [Failure] { wire.failures.map { Failure(url: $0.url, error: RemoteError($0.error)) } }
}

extension PrefetchSummary: CustomStringConvertible {
    /// The numbers in one line, and the first failure.
    public var description: String {
        let counts =
            "\(total) images: \(downloaded) downloaded (\(byteCount) bytes), \(cached) cached, \(failed) failed"
        return failures.first.map { "\(counts); the first failure is \($0.url): \($0.error)" } ?? counts
    }
}

/// A download of an image in progress.
public struct ImageDownload: Sendable, Hashable {
    /// The ID of the download. It is not reused while the agent runs.
    public let id: Int
    /// The URL that is downloaded; nil if this process may not have images of its origin.
    public let url: String?
    /// Whether the download waits for other downloads to end.
    public let isQueued: Bool
    /// The number of bytes of the image received so far. Decreases if the download starts again.
    public let receivedBytes: Int
    /// The size of the image in bytes; nil until the origin declares it.
    public let totalBytes: Int?
    /// The mean rate since the download last left the queue; 0 while it is queued.
    public let bytesPerSecond: Int
    /// The number of requests that wait for the download; 0 if it runs in the background.
    public let requests: Int

    /// Creates a download from its properties, for example for tests.
    public init(
        id: Int, url: String? = nil, isQueued: Bool = false, receivedBytes: Int = 0, totalBytes: Int? = nil,
        bytesPerSecond: Int = 0, requests: Int = 1
    ) {
        self.id = id
        self.url = url
        self.isQueued = isQueued
        self.receivedBytes = receivedBytes
        self.totalBytes = totalBytes
        self.bytesPerSecond = bytesPerSecond
        self.requests = requests
    }

    init(_ wire: ImageDownloads.Download) {
        (id, url, isQueued) = (wire.id, wire.url, wire.state == .queued)
        (receivedBytes, totalBytes) = (wire.receivedBytes, wire.totalBytes)
        (bytesPerSecond, requests) = (wire.bytesPerSecond, wire.requests)
    }
}

/// An image in the cache, without a lease on it.
public struct CachedImage: Sendable, Hashable {
    /// The URL under which the image is cached. The URL of an image with a cache key has no query.
    public let url: String
    /// The cache key of the image; nil without one.
    public let cacheKey: String?
    /// Properties of the image, as for ``LeasedImage/info``.
    public let info: LarderImage
    /// Whether the image is fresh or stale, whatever the policy of a request.
    public let freshness: LarderImage.Freshness
    /// Whether the image is pinned.
    public let isPinned: Bool
    /// When the origin sent or validated the image.
    public let storedAt: LarderTime
    /// When the image was last requested. May lag by some seconds.
    public let lastUsedAt: LarderTime
    /// When the image becomes stale; nil if each use requires a validation.
    public let expiresAt: LarderTime?

    /// Creates a cached image from its properties, for example for tests.
    public init(
        url: String, cacheKey: String? = nil, info: LarderImage, freshness: LarderImage.Freshness = .fresh,
        isPinned: Bool = false, storedAt: LarderTime, lastUsedAt: LarderTime, expiresAt: LarderTime? = nil
    ) {
        self.url = url
        self.cacheKey = cacheKey
        self.info = info
        self.freshness = freshness
        self.isPinned = isPinned
        self.storedAt = storedAt
        self.lastUsedAt = lastUsedAt
        self.expiresAt = expiresAt
    }

    init(_ wire: ImageList.Entry) {
        (url, cacheKey, info) = (wire.reference.url, wire.reference.cacheKey, LarderImage(wire.image))
        (freshness, isPinned) = (LarderImage.Freshness(wire.freshness), wire.isPinned)
        (storedAt, lastUsedAt) = (LarderTime(wire.storedAt), LarderTime(wire.lastUsedAt))
        expiresAt = wire.expiresAt.map(LarderTime.init)
    }

    init(_ wire: ImagePeek.Cached, _ request: LarderImageRequest) {
        (url, cacheKey, info) = (request.url, request.cacheKey, LarderImage(wire.image))
        (freshness, isPinned) = (LarderImage.Freshness(wire.freshness), wire.isPinned)
        (storedAt, lastUsedAt) = (LarderTime(wire.storedAt), LarderTime(wire.lastUsedAt))
        expiresAt = wire.expiresAt.map(LarderTime.init)
    }
}

/// One page of the list of cached images.
public struct CachedImages: Sendable, Hashable {
    /// The images, in an order that is stable while no image is added or removed.
    public let images: [CachedImage]
    /// The value of `after` for the next page; nil on the last page.
    public let next: String?

    /// Creates a page from its properties, for example for tests.
    public init(images: [CachedImage], next: String? = nil) {
        self.images = images
        self.next = next
    }

    init(_ wire: ImageList.Result) { (images, next) = (wire.images.map(CachedImage.init), wire.next) }
}

/// Images that were removed from the cache.
public struct RemovedImages: Sendable, Hashable {
    /// The number of images that were removed or, in a dry run, would be.
    public let count: Int
    /// The total size in bytes of the files that only these images use.
    public let byteCount: Int

    /// Creates a result from its properties, for example for tests.
    public init(count: Int, byteCount: Int) {
        self.count = count
        self.byteCount = byteCount
    }
}

/// The cached state of an image, and the agent's first step for a request.
public struct ImageDecision: Sendable, Hashable {
    /// The agent's first step for the request. Values that this version does not know are kept as received.
    public struct Action: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the action.
        public let rawValue: String
        /// Creates an action from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        init(_ wire: ImagePeek.Decision) { rawValue = wire.rawValue }

        /// Return the cached image, which is fresh.
        public static let fresh = Self(.fresh)
        /// Return the cached image although it is stale.
        public static let stale = Self(.stale)
        /// Validate the cached image with the origin.
        public static let revalidate = Self(.revalidate)
        /// Download the image.
        public static let fetch = Self(.fetch)
        /// Return the error that the image is not cached.
        public static let notCached = Self(.notCached)

        /// The same as ``rawValue``.
        public var description: String { rawValue }
    }

    /// The agent's first step.
    public let action: Action
    /// The cached image; nil if the image is not cached.
    public let cached: CachedImage?
    /// Whether the agent would validate the image in the background after it has returned it.
    public let validatesLater: Bool
    /// The download in progress that the request would wait for; otherwise nil.
    public let download: ImageDownload?
    /// The rules that led to the decision, in order, for people; empty unless they were requested.
    public let rules: [String]

    /// Creates a decision from its properties, for example for tests.
    public init(
        action: Action, cached: CachedImage? = nil, validatesLater: Bool = false, download: ImageDownload? = nil,
        rules: [String] = []
    ) {
        self.action = action
        self.cached = cached
        self.validatesLater = validatesLater
        self.download = download
        self.rules = rules
    }

    init(_ wire: ImagePeek.Result, _ request: LarderImageRequest) {
        (action, cached) = (Action(wire.decision), wire.cached.map { CachedImage($0, request) })
        (validatesLater, download) = (wire.revalidates, wire.download.map(ImageDownload.init))
        rules = wire.rules?.map(\.text) ?? []
    }
}
