/// How good an image is that answers a request. A value that this version does not know is kept as it came.
public struct ImageFreshness: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public let rawValue: String
    /// Makes one from its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Within its lifetime.
    public static let fresh = Self(rawValue: "fresh")
    /// Past its lifetime, and allowed all the same.
    public static let stale = Self(rawValue: "stale")
    /// The origin was asked for this request and said that it is current.
    public static let revalidated = Self(rawValue: "revalidated")

    public var description: String { rawValue }
}
