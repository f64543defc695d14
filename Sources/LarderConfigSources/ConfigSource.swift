package import LarderConfigModel
package import LarderHTTPSemantics

/// A source of a namespace's remote layer.
package protocol ConfigSource: Sendable {
    /// The URL without user information, or the path, for status and logs.
    var location: String { get }
    /// Identifies the source in all that is remembered of its documents; see ``SourceIdentity``.
    var identity: String { get }

    /// Whether the source keeps a connection, restores it after a failure, and then delivers a document. Such a source is
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

    /// Returns the documents that the source delivers on its own, and the failures that keep it from doing so; nil for a
    /// source that can only be polled.
    ///
    /// Each element is the newest document when the consumer asks for it. A source that sends faster than its consumer
    /// takes applies all patches in their order, and the consumer skips to the newest document. A failure follows the
    /// document that preceded it.
    ///
    /// A source with a connection keeps it while the sequence has a consumer. Call this method again only after the
    /// previous sequence has ended.
    /// - Parameters:
    ///   - delay: how long a source with a connection waits before it connects; a fetch ends the wait
    ///   - validator: returns the validator of the current document; nil to get the whole document
    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments?

    /// The position of the last fetch, which may have failed; see ``SourceDelivery/order``. Nil if the source does not
    /// know it.
    var fetchOrder: Int? { get }

    /// Whether the source keeps a connection over which it delivers later documents. A fetch may succeed without one.
    /// The value is up to date whenever the source delivers, and the source also delivers when the value becomes
    /// `working`.
    var following: SourceFollowing { get }

    /// The key of the value at a path, for a key-value store; nil if it is unknown.
    func key(of path: [String]) -> String?
}

extension ConfigSource {
    package var reconnects: Bool { false }
    package var longPollWait: Duration? { nil }
    package var fetchOrder: Int? { nil }
    package var following: SourceFollowing { .working }
    package func key(of path: [String]) -> String? { nil }
}

/// Whether a source delivers later documents over its connection.
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
    /// A long poll. The source sends a request, and the origin may wait for a change before it responds. Any other
    /// refresh, a delivery or a push cancels the long poll.
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

/// A document, its confirmation or a failure that a source sends without a request.
package struct SourceDelivery: Sendable {
    /// A document or its confirmation (`notModified`), or the error of the connection or file: `upstreamFailed`,
    /// `rejected`.
    package var result: Result<SourceResponse, ConfigError>
    /// The position among the deliveries and fetches of the source object: a larger number is newer. Nil if the source
    /// does not know their order.
    package var order: Int?
    /// The validator of the document that `notModified` confirms. If another document has replaced it before the delivery
    /// is applied, a fetch follows instead. Nil if it is unknown.
    package var validator: Validator?
    /// Why later changes may not be noticed although the source delivers; nil if they are noticed, or if ``result`` has
    /// the reason.
    package var watchProblem: String?

    package init(_ result: Result<SourceResponse, ConfigError>, order: Int? = nil, validator: Validator? = nil) {
        self.result = result
        self.order = order
        self.validator = validator
    }
}

/// The deliveries of a source; see ``ConfigSource/documents(after:ifChangedFrom:)``.
package typealias SourceDocuments = AsyncStream<SourceDelivery>

extension SourceDocuments {
    /// - Parameters:
    ///   - signals: yields an element when the source may have something to deliver
    ///   - newest: returns what the source delivers; nil for nothing
    init(after signals: AsyncStream<Void>, _ newest: @escaping @Sendable () async -> SourceDelivery?) {
        self.init(unfolding: {
            for await _ in signals {
                if let delivery = await newest() { return delivery }
            }
            return nil
        })
    }
}

/// The defaults of remote sources.
package enum SourceDefaults {
    /// The time over which hosts without a document spread their first requests.
    package static let firstFetchWindow = Duration.seconds(2)
}
