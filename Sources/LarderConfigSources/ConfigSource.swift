package import LarderConfigModel
package import LarderHTTPSemantics

/// A source of a namespace's remote layer.
package protocol ConfigSource: Sendable {
    /// The name of the kind in settings and status, such as `http` or `file`.
    var kind: String { get }
    /// The URL (without user information) or path, for status and logs.
    var location: String { get }

    /// Whether the source has a connection that it restores after a failure, with a signal. Such a source is polled on its
    /// schedule only, others again after a failure, with growing delays.
    var reconnects: Bool { get }

    /// The maximum duration of a long poll; nil for a source without long polls.
    var longPollWait: Duration? { get }

    /// Fetches the document.
    /// - Parameters:
    ///   - validator: the validator of the current document; nil to fetch the whole document
    ///   - occasion: the reason of the fetch
    /// - Throws: `upstreamFailed`, `rejected`; `cancelled` if the task was cancelled
    func fetch(
        ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer

    /// Signals possible changes; nil for a source that can only be polled.
    ///
    /// A source with a connection keeps it while the stream has a consumer. Another stream may be made when the previous one has
    /// ended.
    func changes() -> AsyncStream<Void>?

    /// Why changes are not signalled although ``changes()`` has a consumer; nil if they are, or if the errors of
    /// ``fetch(ifChangedFrom:on:)`` report the reason. Current when a change is signalled.
    var watchProblem: String? { get }

    /// The key of the value at a path, in a store of keys; nil if it is unknown.
    func key(of path: [String]) -> String?
}

extension ConfigSource {
    package var reconnects: Bool { false }
    package var longPollWait: Duration? { nil }
    package var watchProblem: String? { nil }
    package func key(of path: [String]) -> String? { nil }
}

/// The reason of a fetch.
package enum FetchOccasion: Sendable, Hashable {
    /// A start, a scheduled poll, or a refresh by a client. The source sends a request.
    case asked
    /// A forced refresh: as `asked`, and the answer is applied even if its version is older.
    case forced
    /// A signal of the source. A source with a connection answers with the document that it has received, or fails with the
    /// error of its connection, without a request.
    case signalled
    /// A long poll: as `asked`, and the source may wait for a change. Any other command of the refresh flow cancels it.
    case awaiting
}

/// A usable answer of a source.
package enum SourceAnswer: Sendable {
    /// The document has not changed.
    case notModified
    /// A document that passed all checks that do not involve the current one.
    case document(SourceDocument)
}
