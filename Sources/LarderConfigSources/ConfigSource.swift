package import LarderConfigModel
package import LarderHTTPSemantics

/// Where a namespace's remote layer comes from.
package protocol ConfigSource: Sendable {
    /// The kind's name in settings and status, such as `http` or `file`.
    var kind: String { get }
    /// The URL (without user information) or path, for status and logs.
    var location: String { get }

    /// Whether the source goes on by itself after a failure, and signals when it is back: one that keeps a connection.
    /// The others are asked again with growing distance, these by their schedule alone.
    var reconnects: Bool { get }

    /// How long the source may wait for something new when it is asked on the occasion `awaiting`; nil for one that answers
    /// at once, and is never asked so.
    var longPollWait: Duration? { get }

    /// Asks once.
    /// - Parameters:
    ///   - validator: what is held; nil asks for the whole document whatever is held.
    ///   - occasion: why the source is asked.
    /// - Throws: `upstreamFailed` or `rejected`; `cancelled` when the task was cancelled.
    func fetch(
        ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer

    /// Signals that the source may have changed, for sources that can tell; nil for those that can only be polled.
    ///
    /// A source that keeps a connection does so for as long as the stream has a consumer. The stream may be asked for
    /// again when the one before has ended.
    func changes() -> AsyncStream<Void>?

    /// Why changes are not signalled although ``changes()`` has a consumer; nil if they are, or for a source whose failures say
    /// so. It is up to date when a change is signalled.
    var watchProblem: String? { get }

    /// The key that what is at a path comes from, for sources that are stores of keys; nil where that is not known.
    func key(of path: [String]) -> String?
}

extension ConfigSource {
    /// A source that only speaks when it is asked.
    package var reconnects: Bool { false }
    /// A source that answers at once.
    package var longPollWait: Duration? { nil }
    /// A source whose failures say what is wrong.
    package var watchProblem: String? { nil }
    /// A source that is no store of keys.
    package func key(of path: [String]) -> String? { nil }
}

/// Why a source is asked.
package enum FetchOccasion: Sendable, Hashable {
    /// A start, a turn of the schedule, or somebody's refresh: the source is to be asked itself, over the network if it is
    /// there.
    case asked
    /// A forced refresh: as `asked`, and the answer is taken even where it is older than what is held.
    case forced
    /// The source signalled a change: a source that keeps a connection answers with what it has been told, or fails with
    /// what is wrong with its connection, without asking anybody.
    case signalled
    /// A long poll: the source is asked as by `asked`, and may take its time until it has something new. Any other command
    /// of the flow interrupts it by cancelling the task.
    case awaiting
}

/// A source's usable answer.
package enum SourceAnswer: Sendable {
    /// What is held is still current.
    case notModified
    /// A document that passed every check which needs no knowledge of what is held.
    case document(SourceDocument)
}
