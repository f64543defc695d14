public import LarderHTTPSemantics

/// What somebody asks the cache for.
public struct ImageRequest: Sendable, Hashable {
    /// An absolute `http` or `https` URL.
    public var url: String
    /// What the image is looked up by instead of the URL, together with the URL's origin: for signed URLs, which are
    /// never the same twice. Nobody can put an image under a name of another origin.
    public var cacheKey: String?
    /// Cache or network, and how old is too old.
    public var cache: CacheRequest
    /// What the bytes must be. An image that is held and is another one counts as not held.
    public var expectedDigest: BlobDigest?
    /// Who comes first where requests wait for the network.
    public var priority: ImagePriority
    /// The user whose share of the downloads a download counts towards; nil for the agent itself, which has no limit.
    public var user: UInt32?
    /// Whether the answer carries a reference. Only a prefetch wants none: nobody looks at what it fetched.
    var takesReference = true

    /// Makes a request.
    public init(
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

/// A request whose key was worked out, for those that come again and again. It is right as long as the settings are the
/// same.
public struct PreparedImageRequest: Sendable {
    /// The request.
    public let request: ImageRequest
    let key: ImageKey
}

/// Who comes first where requests wait for the network.
public enum ImagePriority: UInt8, Sendable, Hashable, Comparable, CaseIterable {
    /// Nobody waits for it; it never takes the last places from those that somebody waits for.
    case prefetch
    /// After the others.
    case low
    /// Unless something else is said.
    case normal
    /// Before the others: somebody looks at an empty frame.
    case high

    /// The lower one comes later.
    public static func < (left: ImagePriority, right: ImagePriority) -> Bool { left.rawValue < right.rawValue }
}
