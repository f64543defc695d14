public import FoundationEssentials
public import LarderJSON
public import LarderProtocol

/// An immutable snapshot of the configuration at one path.
public struct ConfigSnapshot: Sendable, Equatable {
    /// The value at the path; nil if it does not exist.
    public let value: JSONValue?
    /// The revision. Within an epoch, revisions only increase.
    public let revision: Int
    /// The ID of the epoch. An epoch begins when the agent's state directory is created, restored from a backup,
    /// copied or moved to another machine. Revisions are comparable only within one epoch.
    public let epoch: String
    /// How up to date the configuration is, for example `fresh` or `stale`.
    public let state: ConfigState
    /// The number of snapshots that were published after the previously delivered one, but were not delivered because
    /// newer ones replaced them.
    public let skipped: Int
    /// The name of the namespace.
    public let namespace: String

    /// Creates a snapshot from its properties, for example for tests.
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
    /// - Parameters:
    ///   - type: the type to decode.
    ///   - decoder: decodes every type but `Int`, `Bool` and `String`, which are read directly.
    /// - Throws: `decodingFailed` if there is no value or it does not match the type.
    public func decode<T: Decodable>(
        _ type: T.Type = T.self, decoder: JSONDecoder = JSONDecoder()
    ) throws(LarderClientError) -> T {
        guard let value else {
            throw LarderClientError(.decodingFailed, "cannot decode \(type): there is no value at the path")
        }
        return try value.decode(type, decoder: decoder)
    }
}
