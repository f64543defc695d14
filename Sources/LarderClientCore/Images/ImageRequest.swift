public import LarderProtocol

/// A request for an image: the URL of the image, and how the agent may obtain it.
///
/// A request can be written as a string, which is the URL:
///
/// ```swift
/// let logo = try await client.images.get("https://img.example.org/logo.png")
/// let photo = ImageRequest("https://img.example.org/photo.jpg", policy: .cacheFirst, deadline: .seconds(2))
/// ```
public struct ImageRequest: Sendable, Hashable {
    /// An absolute `http` or `https` URL.
    public var url: String
    /// Identifies the image in place of the query of the URL. URLs that differ only in a signature in their query can
    /// thus share one cached image. Nil to use the whole URL.
    public var cacheKey: String?
    /// Whether a cached image or the network is preferred.
    public var policy: ImagePolicy
    /// The maximum acceptable age of the image, in whole seconds, rounded down; nil to apply only the policy.
    public var maximumAge: Duration?
    /// The SHA-256 that the image must have; an image with another digest is refused. Nil to accept any image.
    public var expectedDigest: WireDigest?
    /// The priority of the download among the queued downloads of the same user.
    public var priority: ImageGet.Priority
    /// How long the agent may take, in whole milliseconds, rounded up; nil for ``LarderClient/Configuration/timeout``.
    public var deadline: Duration?

    /// Creates a request from its properties.
    public init(
        _ url: String, cacheKey: String? = nil, policy: ImagePolicy = .default, maximumAge: Duration? = nil,
        expectedDigest: WireDigest? = nil, priority: ImageGet.Priority = .normal, deadline: Duration? = nil
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
            reference, policy: policy, maximumAgeSeconds: maximumAge?.wholeSeconds, expectedDigest: expectedDigest,
            leaseSeconds: 0, priority: priority, deadlineMilliseconds: deadline?.milliseconds)
    }
}

extension ImageRequest: ExpressibleByStringLiteral {
    /// Creates a request with the default policy from the URL of the image.
    public init(stringLiteral url: String) { self.init(url) }
}
