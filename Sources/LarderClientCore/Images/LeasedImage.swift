public import LarderProtocol
import Synchronization

/// An image with a lease: its file is kept while the lease lasts.
///
/// ```swift
/// let image = try await client.images.get("https://img.example.org/logo.png")
/// let bytes = try Data(contentsOf: URL(filePath: image.path))
/// image.release()
/// ```
///
/// The lease ends with ``release()``, when the last copy of the image is released, or with the connection to the agent.
/// Keep the image while you use its file: in `get(url).path`, the lease ends before the path is used.
public struct LeasedImage: Sendable {
    /// The URL that was requested.
    public let url: String
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

    private let lease: ImageLease

    /// Creates an image without a lease from its properties, for example for tests and previews of views.
    public init(
        path: String, image: WireImage, freshness: ImageFreshness = .fresh, source: ImageGet.Source = .hit,
        age: Duration = .zero, url: String = ""
    ) {
        self.url = url
        self.path = path
        self.image = image
        self.freshness = freshness
        self.source = source
        self.age = age
        lease = ImageLease(0, of: nil)
    }

    init(_ result: ImageGet.Result, url: String, connection: Connection) {
        self.url = url
        path = result.path
        image = result.image
        freshness = result.freshness
        source = result.source
        age = .seconds(result.ageSeconds)
        lease = ImageLease(result.lease, of: connection)
    }

    /// Releases the lease before the last copy of the image is released, so that the file can be removed. Returns at
    /// once and reports no errors.
    ///
    /// Has no effect the second time, and after the connection to the agent has ended, because all leases end with it.
    /// An image that was obtained twice has two leases.
    public func release() { lease.release() }

    /// Whether the image has its lease: it was not released, and the connection that holds the lease is open. After the
    /// end of the lease, the file may have been removed.
    public var isValid: Bool { lease.isValid }

    /// Whether the lease has not ended with its connection. A program may have released it.
    var isConnected: Bool { lease.connection?.isOpen ?? true }

    /// The connection that holds the lease; nil for an image without a lease.
    var connection: Connection? { lease.connection }

    /// A stream without elements that ends with the connection that holds the lease. It does not retain the lease. Nil
    /// for an image without a lease.
    package var connectionEnd: AsyncStream<Never>? { lease.connection?.end }
}

/// The lease of one image at the agent. It ends when the last reference to this object is released.
private final class ImageLease: Sendable {
    /// The connection that holds the lease; nil if there is none.
    let connection: Connection?
    private let number: Int
    private let isReleased = Atomic(false)

    init(_ number: Int, of connection: Connection?) { (self.number, self.connection) = (number, connection) }

    deinit { release() }

    func release() {
        guard !isReleased.exchange(true, ordering: .relaxed) else { return }
        connection?.release(number)
    }

    var isValid: Bool { !isReleased.load(ordering: .relaxed) && connection?.isOpen ?? true }
}
