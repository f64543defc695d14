package import LarderHTTPSemantics

/// A request for an image.
package struct ImageRequest: Sendable, Hashable {
    /// An absolute `http` or `https` URL.
    package var url: String
    /// The key of the image within the URL's origin, instead of the URL: for signed URLs, which differ each time. An image
    /// cannot be stored under a key of another origin.
    package var cacheKey: String?
    /// The cache policy and the maximum age.
    package var cache: CacheRequest
    /// The SHA-256 that the bytes must have. A cached image with another one does not answer the request.
    package var expectedDigest: BlobDigest?
    /// The order of requests that wait for the network.
    package var priority: ImagePriority
    /// The user whose share of the downloads a download counts towards; nil for the agent itself, which has no limit.
    package var user: UInt32?
    /// Whether the answer has a reference. A prefetch needs none.
    var takesReference = true

    /// Makes a request.
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

/// A request with its key, for requests that are repeated. It is valid until the settings change.
package struct PreparedImageRequest: Sendable {
    /// The request.
    package let request: ImageRequest
    let key: ImageKey
}

/// The order of requests that wait for the network.
package enum ImagePriority: UInt8, Sendable, Hashable, Comparable, CaseIterable {
    /// No client waits for it. It never takes the last places from requests that clients wait for.
    case prefetch
    /// After normal ones.
    case low
    /// The default.
    case normal
    /// Before all others: a user sees an empty frame.
    case high

    package static func < (left: ImagePriority, right: ImagePriority) -> Bool { left.rawValue < right.rawValue }
}
