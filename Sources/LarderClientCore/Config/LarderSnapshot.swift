public import LarderJSON
package import LarderProtocol

/// An immutable snapshot of the configuration at one path.
///
/// ```swift
/// let snapshot = try await client.config.snapshot(at: "search")
/// if snapshot.state != .fresh { print("revision \(snapshot.revision) is \(snapshot.state)") }
/// let limit = snapshot.value?["limit"]?.int ?? 10
/// ```
public struct LarderSnapshot: Sendable, Equatable {
    /// How up to date the configuration of a namespace is. Values that this version does not know are kept as received.
    public struct State: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the state.
        public let rawValue: String
        /// Creates a state from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        package init(_ wire: ConfigState) { rawValue = wire.rawValue }

        /// The remote source has not responded yet, and no document from it is on disk.
        public static let initializing = Self(.initializing)
        /// The last refresh succeeded, or there is no remote source.
        public static let fresh = Self(.fresh)
        /// A refresh is in progress.
        public static let refreshing = Self(.refreshing)
        /// The last refresh failed, none has succeeded since the agent started, or files of a layer cannot be read. The
        /// agent serves the last good snapshot.
        public static let stale = Self(.stale)
        /// The last refresh failed, and either there is no remote document, or it is older than the setting
        /// `staleIfErrorSeconds` allows. The agent still serves the last good snapshot.
        public static let failed = Self(.failed)

        /// The same as ``rawValue``.
        public var description: String { rawValue }
    }

    /// The value at the path; nil if it does not exist, or for a stream of the mode `revision`. A snapshot that
    /// ``ConfigClient/snapshot(at:maximumAge:staleIfError:)`` returns has a value, because that method throws `notFound`
    /// for a missing one.
    public let value: JSONValue?
    /// The revision. Within an epoch, revisions only increase.
    public let revision: Int
    /// The ID of the epoch. An epoch begins when the agent's state directory is created, restored from a backup,
    /// copied or moved to another machine. Revisions are comparable only within one epoch.
    public let epoch: String
    /// How up to date the configuration was when the agent sent the snapshot, for example `fresh` or `stale`. A stream
    /// delivers no snapshot if only the state changes. ``ConfigClient/status()`` and
    /// ``ConfigClient/snapshot(at:maximumAge:staleIfError:)`` return the current state.
    public let state: State
    /// The number of snapshots that were published after the previously delivered one, but were not delivered because
    /// newer ones replaced them.
    public let skipped: Int
    /// The name of the namespace.
    public let namespace: String
    /// The path as the program wrote it, for messages. Nil for a snapshot that the program has created.
    package var path: String?

    /// Whether two snapshots have the same value, revision, epoch, state, namespace and number of skipped snapshots.
    public static func == (left: Self, right: Self) -> Bool {
        left.revision == right.revision && left.epoch == right.epoch && left.state == right.state
            && left.skipped == right.skipped && left.namespace == right.namespace && left.value == right.value
    }

    /// Creates a snapshot from its properties, for example for tests.
    public init(
        value: JSONValue?, revision: Int, epoch: String, state: State, skipped: Int = 0,
        namespace: String = "default"
    ) {
        self.value = value
        self.revision = revision
        self.epoch = epoch
        self.state = state
        self.skipped = skipped
        self.namespace = namespace
    }

    /// Returns the snapshot with the path for messages.
    func named(_ path: String) -> Self {
        var snapshot = self
        snapshot.path = path
        return snapshot
    }
}

/// Turns the events of consecutive subscriptions to the same path into snapshots. It performs no I/O.
///
/// It implements the guarantees of ``LarderSnapshots``: revisions only increase within an epoch, no snapshot is
/// delivered twice, and a slow consumer gets only the newest one.
package struct SnapshotReceiver {
    /// A revision and its epoch.
    package struct Position: Sendable, Equatable {
        package var revision: Int
        package var epoch: String

        package init(revision: Int, epoch: String) {
            self.revision = revision
            self.epoch = epoch
        }

        func isNewer(than other: Position?) -> Bool {
            guard let other, other.epoch == epoch else { return true }
            return revision > other.revision
        }
    }

    /// The value that this client last received. The agent's next patch applies to it.
    private struct Base {
        var position: Position
        var value: JSONValue?
    }

    private let mode: ConfigSubscribe.Mode
    private var base: Base?
    /// The position of the newest snapshot that was delivered or is pending; nil before the first one.
    private var newest: Position?
    private var undelivered: LarderSnapshot?
    private var nextSequence = 1

    init(mode: ConfigSubscribe.Mode) {
        self.mode = mode
    }

    /// The `since` and `epoch` of the next `config.subscribe`; nil to request a full snapshot.
    var resumption: Position? {
        mode == .patch ? base?.position : newest
    }

    /// Starts a new subscription, whose events are numbered from 1.
    mutating func begin() {
        nextSequence = 1
    }

    /// Returns the pending snapshot and removes it.
    mutating func take() -> LarderSnapshot? {
        defer { undelivered = nil }
        return undelivered
    }

    /// Receives an event.
    /// - Throws: `protocolViolation` if an event is missing before this one or a patch does not apply. The receiver
    ///   then forgets the value that patches apply to, so in the mode `patch` the next subscription requests a full
    ///   snapshot.
    mutating func receive(_ event: ConfigEvent) throws(LarderClientError) {
        guard event.sequence == nextSequence else {
            base = nil
            throw LarderClientError(
                .protocolViolation,
                "expected event \(nextSequence) of the subscription, but received event \(event.sequence)")
        }
        nextSequence += 1
        let position = Position(revision: event.revision, epoch: event.epoch)
        switch event.content {
        case .flags, .end, .unknown: break
        case .snapshot(let value, _): offer(value, position, event)
        case .revision: offer(nil, position, event)
        case .patch(let patch, let from):
            guard let current = base, current.position == Position(revision: from, epoch: event.epoch) else {
                let current = base.map { "revision \($0.position.revision)" } ?? "no revision"
                base = nil
                throw LarderClientError(
                    .protocolViolation, "received a patch for revision \(from), but the client has \(current)")
            }
            offer(MergePatch.apply(patch, to: current.value), position, event)
        }
    }

    /// Makes a value the pending snapshot if its position is newer than ``newest``. A snapshot that was already pending
    /// is replaced and counts as skipped.
    private mutating func offer(_ value: JSONValue?, _ position: Position, _ event: ConfigEvent) {
        if mode == .patch { base = Base(position: position, value: value) }
        guard position.isNewer(than: newest) else { return }
        newest = position
        undelivered = LarderSnapshot(
            value: value, revision: event.revision, epoch: event.epoch,
            state: LarderSnapshot.State(event.state),
            skipped: event.skipped + (undelivered.map { $0.skipped + 1 } ?? 0), namespace: event.namespace)
    }
}
