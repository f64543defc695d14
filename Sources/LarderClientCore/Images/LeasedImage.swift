import LarderProtocol
import Synchronization
public import SystemPackage

/// An image with a lease: its file is kept while the lease lasts.
///
/// ```swift
/// import Foundation
///
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
    public let info: LarderImage
    /// Whether the image is fresh, stale, or was revalidated for this request.
    public let freshness: LarderImage.Freshness
    /// Whether the image was cached, was downloaded for this request, or was already being downloaded.
    public let source: LarderImage.Source
    /// The age of the image: the time since the origin sent or validated it, as defined by RFC 9111, section 4.2.3.
    public let age: Duration

    private let lease: ImageLease

    /// Creates an image without a lease from its properties, for example for tests and previews of views.
    public init(
        path: String, info: LarderImage, freshness: LarderImage.Freshness = .fresh, source: LarderImage.Source = .cache,
        age: Duration = .zero, url: String = ""
    ) {
        self.url = url
        self.path = path
        self.info = info
        self.freshness = freshness
        self.source = source
        self.age = age
        lease = ImageLease(0, of: nil)
    }

    init(_ result: ImageGet.Result, url: String, connection: Connection) {
        self.url = url
        path = result.path
        info = LarderImage(result.image)
        freshness = LarderImage.Freshness(result.freshness)
        source = LarderImage.Source(rawValue: result.source.rawValue)
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

    /// Opens the file for reading. The content can be read through the descriptor also after the end of the lease. A
    /// target that imports `SystemPackage` depends on this product of swift-system.
    ///
    /// ```swift
    /// import SystemPackage
    ///
    /// let image = try await client.images.get("https://img.example.org/logo.png")
    /// let file = try image.open()
    /// defer { try? file.close() }
    /// image.release()
    /// ```
    /// - Returns: a descriptor that the caller must close. It is closed on exec.
    /// - Throws: `disconnected` if the file was removed, by the agent after the end of the lease or by another program; `invalidArgument` if the file cannot be
    ///   opened for another reason.
    public func open() throws(LarderClientError) -> FileDescriptor {
        do {
            return try FileDescriptor.open(FilePath(path), .readOnly, options: .closeOnExec)
        } catch let error as Errno where error == .noSuchFileOrDirectory {
            throw LarderClientError(
                .disconnected,
                isValid
                    ? "the file of the image was removed during its lease, but not by the agent"
                    : "the file of the image was removed after the end of its lease",
                advice: "request the image again")
        } catch {
            throw LarderClientError(
                .invalidArgument, "cannot open \(path): \(error)",
                advice: "run as a user who may read the files of the image cache")
        }
    }

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
    /// The connection that holds the lease; nil for an image without a lease.
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
