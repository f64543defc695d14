public import LarderJSON
public import LarderProtocol

/// An immutable snapshot of the configuration at one path.
///
/// ```swift
/// let snapshot = try await client.config.snapshot(at: "search")
/// if snapshot.state != .fresh { print("revision \(snapshot.revision) is \(snapshot.state)") }
/// let limit = snapshot.value?["limit"]?.int ?? 10
/// ```
public struct LarderSnapshot: Sendable, Equatable {
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
}
