import LarderHTTPSemantics
import LarderJSON
import Synchronization

@testable import LarderConfigModel
@testable import LarderConfigSources

/// A source whose responses the test sends.
final class ScriptedSource: ConfigSource {
    /// A request that waits for its response.
    struct Request: Sendable {
        let validator: Validator?
        let reason: FetchReason
        private let answer: AsyncStream<Result<SourceResponse, ConfigError>>.Continuation

        fileprivate init(
            validator: Validator?, reason: FetchReason,
            answer: AsyncStream<Result<SourceResponse, ConfigError>>.Continuation
        ) {
            self.validator = validator
            self.reason = reason
            self.answer = answer
        }

        func answer(
            _ value: JSONValue, version: String? = nil, etag: String? = nil,
            requirement: VersionRequirement = .never
        ) {
            var document = SourceDocument(
                value: value, version: version.map(UpstreamVersion.init),
                validator: Validator(etag: etag))
            document.versionRequirement = requirement
            answer.yield(.success(.document(document)))
        }

        /// Ends a long poll without a response.
        func endWait() { answer.yield(.success(.waitEnded)) }

        func answerNotModified() { answer.yield(.success(.notModified)) }

        func fail(_ message: String = "the origin is down", retryAfter: Duration? = nil) {
            answer.yield(.failure(ConfigError(.upstreamFailed, message, retryAfter: retryAfter)))
        }
    }

    let kind = "scripted"
    let location = "scripted:source"
    let identity: String
    let longPollWait: Duration?
    let reconnects: Bool
    /// The value of ``following``.
    let connection = Mutex(SourceFollowing.working)
    private let requests: AsyncStream<Request>
    private let incoming: AsyncStream<Request>.Continuation
    private let counts = Mutex((requests: 0, cancelled: 0))

    init(longPollWait: Duration? = nil, identity: String = "scripted:source", reconnects: Bool = false) {
        self.identity = identity
        self.reconnects = reconnects
        self.longPollWait = longPollWait
        (requests, incoming) = AsyncStream.makeStream(of: Request.self)
    }

    var following: SourceFollowing { connection.withLock { $0 } }

    /// The number of requests so far.
    var requestCount: Int { counts.withLock { $0.requests } }
    /// The number of requests that were cancelled before their response.
    var cancelledCount: Int { counts.withLock { $0.cancelled } }

    /// Waits for the next request.
    func nextRequest() async -> Request {
        for await request in requests { return request }
        preconditionFailure("the stream of requests never ends")
    }

    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse {
        let (answers, answer) = AsyncStream.makeStream(of: Result<SourceResponse, ConfigError>.self)
        counts.withLock { $0.requests += 1 }
        incoming.yield(Request(validator: validator, reason: reason, answer: answer))
        for await answer in answers { return try answer.get() }
        counts.withLock { $0.cancelled += 1 }
        throw ConfigError(.cancelled, "cancelled")
    }

    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments? { nil }
}
