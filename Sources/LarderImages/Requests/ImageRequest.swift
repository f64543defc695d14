package import LarderHTTPSemantics

/// A client's request for an image.
package struct ImageRequest: Sendable, Hashable {
    /// An absolute `http` or `https` URL.
    package var url: String
    /// Identifies the image together with the origin and the path of the URL, instead of the query. Used for signed
    /// URLs, which differ in each request. A client cannot store an image under a key of another origin or path. Nil to
    /// identify the image by its URL.
    package var cacheKey: String?
    /// The cache policy and the maximum age.
    package var cache: CacheRequest
    /// The required SHA-256 of the bytes; nil for any. A cached image with a different SHA-256 does not answer the
    /// request.
    package var expectedDigest: BlobDigest?
    package var priority: ImagePriority
    /// The user whose download quota the download counts towards. Nil for the agent itself, which has no quota.
    package var user: UInt32?
    /// Whether the result includes a reference to the blob. A prefetch needs none.
    var takesReference = true

    package init(
        url: String, cacheKey: String? = nil, cache: CacheRequest = CacheRequest(), expectedDigest: BlobDigest? = nil,
        priority: ImagePriority = .normal, user: UInt32? = nil
    ) {
        self.url = url
        self.cacheKey = cacheKey
        self.cache = cache
        self.expectedDigest = expectedDigest
        self.priority = priority
        self.user = user
    }
}

/// The progress of a request that waits for a download.
package struct RequestProgress: Sendable, Hashable {
    /// The number of bytes of the image received so far. Decreases if the download starts again.
    package let receivedBytes: Int
    /// The size of the image in bytes; nil until a response declares it.
    package let totalBytes: Int?
    /// Whether the download was already in progress.
    package let isShared: Bool
}

/// Receives the progress of a request, on any thread. It must not block.
package typealias ProgressReport = @Sendable (RequestProgress) -> Void

/// The order in which requests wait for the network.
package enum ImagePriority: UInt8, Sendable, Hashable, Comparable, CaseIterable {
    /// No client waits for the image. Prefetches never occupy the last download slots.
    case prefetch
    /// After normal requests.
    case low
    case normal
    /// Before all other requests: a user is waiting for the image.
    case high

    package static func < (left: ImagePriority, right: ImagePriority) -> Bool { left.rawValue < right.rawValue }
}
