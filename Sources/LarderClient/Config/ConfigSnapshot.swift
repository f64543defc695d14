public import FoundationEssentials
public import LarderJSON
public import LarderProtocol

/// An immutable state of the configuration at one path.
public struct ConfigSnapshot: Sendable, Equatable {
    /// The value; nil where there is nothing at the path.
    public let value: JSONValue?
    /// The local revision, which only grows within an epoch.
    public let revision: Int
    /// The epoch in which the revision counts.
    public let epoch: String
    /// What the configuration is worth: fresh, stale, …
    public let state: ConfigState
    /// How many snapshots were passed over since the one before, because a newer one had come already.
    public let skipped: Int
    /// The namespace.
    public let namespace: String

    /// Makes a snapshot.
    public init(
        value: JSONValue?, revision: Int, epoch: String, state: ConfigState, skipped: Int = 0,
        namespace: String = defaultNamespace
    ) {
        self.value = value
        self.revision = revision
        self.epoch = epoch
        self.state = state
        self.skipped = skipped
        self.namespace = namespace
    }

    /// Decodes the value.
    ///
    /// ```swift
    /// struct Search: Decodable { var limit: Int }
    /// let search = try snapshot.decode(Search.self)
    /// ```
    /// - Throws: `decodingFailed` where the value is of another shape or there is none.
    public func decode<T: Decodable>(
        _ type: T.Type = T.self, decoder: JSONDecoder = JSONDecoder()
    ) throws(LarderClientError) -> T {
        guard let value else {
            throw LarderClientError(.decodingFailed, "there is nothing at the path, so no \(type) can be read from it")
        }
        return try value.decode(type, decoder: decoder)
    }
}
