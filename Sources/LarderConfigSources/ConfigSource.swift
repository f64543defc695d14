package import LarderConfigModel
package import LarderHTTPSemantics

/// A source of a namespace's remote layer.
package protocol ConfigSource: Sendable {
    /// The URL without user information, or the path, for status and logs.
    var location: String { get }
    /// Identifies the source in all that is remembered of its documents; see ``SourceIdentity``.
    var identity: String { get }

    /// Whether the source keeps a connection, restores it after a failure, and then signals a change. Such a source is
    /// polled only on its schedule. Other sources are also polled again after a failure, with growing delays.
    var reconnects: Bool { get }

    /// The maximum duration of a long poll; nil for a source without long polls.
    var longPollWait: Duration? { get }

    /// Fetches the document.
    /// - Parameters:
    ///   - validator: the validator of the current document; nil to fetch the whole document
    ///   - reason: the reason for the fetch
    /// - Throws: `upstreamFailed`, `rejected`; `cancelled` if the task was cancelled
    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse

    /// Signals possible changes; nil for a source that can only be polled.
    ///
    /// A source with a connection keeps it while the stream has a consumer. Create another stream only after the
    /// previous one has ended.
    /// - Parameter delay: how long a source with a connection waits before it connects. A fetch for a reason other
    ///   than `signaled` ends the wait.
    func changes(after delay: Duration) -> AsyncStream<Void>?

    /// Why changes are not signaled although ``changes(after:)`` has a consumer. Nil if they are signaled, or if the errors
    /// of ``fetch(ifChangedFrom:reason:)`` report the reason. The value is up to date whenever a change is signaled.
    var watchProblem: String? { get }

    /// Whether the source keeps a connection on which it signals later changes. A fetch may succeed without one. The
    /// value is up to date whenever a change is signaled, and the source also signals a change when the value becomes
    /// `working`.
    var following: SourceFollowing { get }

    /// The key of the value at a path, for a key-value store; nil if it is unknown.
    func key(of path: [String]) -> String?
}

extension ConfigSource {
    package var reconnects: Bool { false }
    package var longPollWait: Duration? { nil }
    package var watchProblem: String? { nil }
    package var following: SourceFollowing { .working }
    package func key(of path: [String]) -> String? { nil }
}

/// Whether a source signals later changes over its connection.
package enum SourceFollowing: Sendable {
    /// It does, it needs no connection, or its connection ended without a failure and will be opened again.
    case working
    /// Its first connection is being opened.
    case connecting
    /// Its last connection failed, and no other one has been established since.
    case failing(ConfigError)

    package var isConnecting: Bool {
        if case .connecting = self { true } else { false }
    }

    /// Why the last connection failed; nil if it did not.
    package var failure: ConfigError? {
        if case .failing(let error) = self { error } else { nil }
    }
}

/// The reason for a fetch.
package enum FetchReason: Sendable, Hashable {
    /// A start, a scheduled poll, or a refresh by a client. The source sends a request.
    case requested
    /// A forced refresh. The source sends a request, and the document is applied without the checks of its version and
    /// of the members that it removes.
    case forced
    /// The source has signaled a change. A source with a connection sends no request: it returns the document that it
    /// has received, or throws the error of its connection.
    case signaled
    /// A long poll. The source sends a request, and the origin may wait for a change before it responds. Any other
    /// refresh or push cancels the long poll.
    case longPoll
}

/// The result of a successful fetch.
package enum SourceResponse: Sendable {
    /// The document has not changed.
    case notModified
    /// A long poll ended without a response from the origin, as if at the time limit of a load balancer. Whether the
    /// source works, and whether its document has changed, is unknown. Only for the reason `longPoll`.
    case waitEnded
    /// A document that passed all checks that do not involve the current document.
    case document(SourceDocument)
}

/// The defaults of remote sources.
package enum SourceDefaults {
    /// The time over which hosts without a document spread their first requests.
    package static let firstFetchWindow = Duration.seconds(2)
}
