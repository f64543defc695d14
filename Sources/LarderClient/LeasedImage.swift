public import LarderWire

/// An image as a file that stays while the lease on it lasts.
public struct LeasedImage: Sendable {
    /// The absolute path of the file. It is read, never written.
    public let path: String
    /// What it is, as its bytes say.
    public let image: WireImage
    /// How good it is.
    public let freshness: ImageFreshness
    /// Where it came from.
    public let source: ImageGet.Source
    /// How long ago the origin made or validated it (RFC 9111, section 4.2.3).
    public let age: Duration

    let lease: Int
    let connection: Connection

    init(_ result: ImageGet.Result, connection: Connection) {
        path = result.path
        image = result.image
        freshness = result.freshness
        source = result.source
        age = .seconds(result.ageSeconds)
        lease = result.lease
        self.connection = connection
    }
}
