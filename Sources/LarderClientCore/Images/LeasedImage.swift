public import LarderProtocol

/// An image with a lease: its file is kept while the lease lasts.
///
/// ```swift
/// let image = try await client.images.get("https://img.example.org/logo.png")
/// let bytes = try Data(contentsOf: URL(filePath: image.path))
/// image.release()
/// ```
///
/// The lease ends with ``release()``, or with the connection to the agent.
public struct LeasedImage: Sendable {
    /// The absolute path of the file. Read it; do not write to it. It is valid only while the lease lasts.
    public let path: String
    /// Properties of the image, such as its media type and size in pixels, read from its bytes.
    public let image: WireImage
    /// Whether the image is fresh, stale, or was revalidated for this request.
    public let freshness: ImageFreshness
    /// Whether the image was cached, was downloaded for this request, or was already being downloaded.
    public let source: ImageGet.Source
    /// The age of the image: the time since the origin sent or validated it, as defined by RFC 9111, section 4.2.3.
    public let age: Duration

    private let lease: Int
    /// The connection that holds the lease; nil if there is no lease.
    let connection: Connection?

    /// Creates an image without a lease from its properties, for example for tests and previews of views.
    public init(
        path: String, image: WireImage, freshness: ImageFreshness = .fresh, source: ImageGet.Source = .hit,
        age: Duration = .zero
    ) {
        self.path = path
        self.image = image
        self.freshness = freshness
        self.source = source
        self.age = age
        lease = 0
        connection = nil
    }

    init(_ result: ImageGet.Result, connection: Connection) {
        path = result.path
        image = result.image
        freshness = result.freshness
        source = result.source
        age = .seconds(result.ageSeconds)
        lease = result.lease
        self.connection = connection
    }

    /// Releases the lease, so that the file can be removed. Returns at once and reports no errors.
    ///
    /// Has no effect after the connection to the agent has ended, because all leases end with it. An image that was
    /// obtained twice must be released twice.
    public func release() {
        connection?.release(lease)
    }

    /// Whether the connection that holds the lease is open. After it has ended, the file may have been removed.
    public var isValid: Bool { connection?.isOpen ?? true }
}
