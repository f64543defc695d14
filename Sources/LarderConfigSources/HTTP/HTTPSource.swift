package import LarderConfigModel
import LarderHTTPSemantics
package import LarderJSON
import LarderPlatform
package import LarderUpstream

/// A source that is polled over HTTP, with conditional requests, long polls, or a POST whose response contains the
/// document.
struct HTTPSource: ConfigSource {
    let fetcher: HTTPFetcher
    let configuration: HTTPSourceSettings
    let blocking: BlockingThreadPool
    /// Returns what each poll reports.
    private let report: @Sendable () -> PollReport?
    let location: String
    let identity: String

    init(
        fetcher: HTTPFetcher, configuration: HTTPSourceSettings, blocking: BlockingThreadPool,
        report: @escaping @Sendable () -> PollReport? = { nil }
    ) {
        self.fetcher = fetcher
        self.configuration = configuration
        self.blocking = blocking
        self.report = report
        location = SourceURL.display(configuration.url)
        identity = configuration.identity
    }

    var longPollWait: Duration? { configuration.longPoll.map { .seconds($0.waitSeconds) } }

    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse {
        var request = FetchRequest(
            url: configuration.url, validator: validator, body: configuration.body,
            timeouts: FetchTimeouts(idle: configuration.timeout, whole: configuration.timeout),
            maximumBytes: configuration.maximumBytes)
        if configuration.reportsToSource { request.ownHeaders = report()?.fields ?? [] }
        if reason == .longPoll, let longPoll = configuration.longPoll { longPoll.apply(to: &request) }
        try await request.add(configuration.access, blocking)
        let isGraphQL = GraphQL.isRequest(url: configuration.url, body: configuration.body)
        let reader = DocumentReader(
            location: location, responsePath: configuration.responsePath, versionPath: configuration.versionPath,
            hasErrorsMember: configuration.responsePath != nil || isGraphQL, partialData: configuration.partialData,
            versionRequirement: configuration.versionRequirement, secrets: request.headers.map(\.value))
        if isGraphQL {
            request.readsProblems = true
            if !request.headers.contains(where: { $0.name.lowercased() == "accept" }) {
                request.headers.append(("Accept", GraphQL.accept))
            }
        }
        switch try await fetcher.answer(to: request) {
        case .waitEnded: return .waitEnded
        case .unchanged, .response(.notModified): return .notModified
        case .response(.document(let answer)):
            return .document(try await reader.document(in: answer.body, validator: answer.validator))
        case .response(.problem(let error, let answer)):
            // A body with another media type may come from a proxy, so it is not evaluated.
            guard answer.metadata.mediaType == GraphQL.mediaType else { throw ConfigError(error) }
            if 200..<300 ~= answer.metadata.status {
                return .document(try await reader.document(in: answer.body, validator: answer.validator))
            }
            guard let errors = (try? JSONValue(parsing: answer.body)).flatMap(GraphQLErrors.init) else {
                throw ConfigError(error)
            }
            throw ConfigError(
                .upstreamFailed, "\(error.message): \(errors.text(without: reader.secrets))",
                retryAfter: error.retryAfter)
        }
    }

    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments? { nil }
}

extension HTTPSourceSettings.LongPoll {
    /// Adds the parameter or header that asks the origin to wait for a change, and extends the timeouts of the request
    /// by the duration of that wait.
    fileprivate func apply(to request: inout FetchRequest) {
        if let queryMember {
            request.addedQuery = "\(queryMember)=\(waitSeconds)"
        } else {
            request.headers.append(("Prefer", "wait=\(waitSeconds)"))
        }
        request.awaitsChange = true
        request.timeouts.idle += .seconds(waitSeconds)
        request.timeouts.whole += .seconds(waitSeconds)
    }
}

/// The result of a source's request.
enum HTTPAnswer: Sendable {
    case response(FetchResponse)
    /// A long poll ended with an empty response, which means that nothing has changed.
    case unchanged
    /// A long poll was ended by a proxy or load balancer; see ``SourceResponse/waitEnded``.
    case waitEnded
}

extension HTTPFetcher {
    /// Sends the request of a source, and converts its errors to ``ConfigError``.
    func answer(to request: FetchRequest) async throws(ConfigError) -> HTTPAnswer {
        do {
            let response = try await fetch(request)
            if request.awaitsChange, case .problem(let error, _) = response, error.endsWait { return .waitEnded }
            return .response(response)
        } catch {
            // Some origins send an empty response after a long poll without a change.
            if request.awaitsChange, error.code == .empty { return .unchanged }
            if request.awaitsChange, error.endsWait { return .waitEnded }
            throw ConfigError(error)
        }
    }
}

extension FetchRequest {
    /// Adds the header fields and TLS options of `access`.
    mutating func add(_ access: HTTPAccess, _ blocking: BlockingThreadPool) async throws(ConfigError) {
        do throws(UpstreamError) {
            try await access.open(&self, blocking)
        } catch {
            throw ConfigError(error)
        }
    }
}

extension UpstreamError {
    /// Whether proxies and load balancers end a long poll in this way when they reach a time limit or restart: with the
    /// status 408 or 504, or by closing the connection.
    fileprivate var endsWait: Bool { code == .connectionClosed || status == 408 || status == 504 }
}

extension ConfigError {
    /// Converts the error of a failed request to a source. The code becomes `cancelled` or `upstreamFailed`.
    package init(_ error: UpstreamError) {
        self.init(
            error.code == .cancelled ? .cancelled : .upstreamFailed, error.message, retryAfter: error.retryAfter)
    }
}

/// The settings of a source that is polled over HTTP.
package struct HTTPSourceSettings: Sendable, Equatable {
    /// The settings of long polls: requests that the origin answers when its document changes.
    package struct LongPoll: Sendable, Equatable {
        /// How long the origin may wait, in seconds.
        package var waitSeconds: Int
        /// The name of the query parameter that carries ``waitSeconds``; nil to send the header `Prefer: wait=N` (RFC
        /// 7240) instead.
        package var queryMember: String?

        package init(waitSeconds: Int, queryMember: String? = nil) {
            self.waitSeconds = waitSeconds
            self.queryMember = queryMember
        }
    }

    /// Whether the data of a GraphQL response is used if the response also has errors.
    package enum PartialData: String, Sendable, CaseIterable {
        /// The response counts as a failure.
        case reject
        /// The data is used.
        case accept
    }

    /// The URL of the document, `http` or `https`.
    package var url: String
    /// The body of a POST; nil for a GET.
    package var body: [UInt8]?
    /// The path of the document in the response; nil if the response is the document.
    package var responsePath: JSONPath?
    /// Whether the data of a GraphQL response is used if the response also has errors.
    package var partialData = PartialData.reject
    /// The time between two requests. Each host polls at its own offset within this time.
    package var interval = Duration.seconds(60)
    /// The maximum duration of a request, from connecting to the last byte. For a long poll, ``LongPoll/waitSeconds``
    /// is added.
    package var timeout = Duration.seconds(10)
    /// The time over which hosts without a document spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// The settings of long polls; nil for none.
    package var longPoll: LongPoll?
    /// How long the namespace is `stale` while the origin fails. After that time it is `failed`. Nil for no limit.
    package var staleIfError: Duration?
    /// The path of the version in the document; nil for none.
    package var versionPath: JSONPath?
    /// The condition under which a document without a version is rejected.
    package var versionRequirement = VersionRequirement.onceSeen
    /// Whether each poll reports the state of the host in two header fields.
    package var reportsToSource = false
    /// The credentials and the trusted certificate authorities.
    package var access = HTTPAccess()
    /// The maximum size of a response, in bytes.
    package var maximumBytes = 16 << 20
}

extension HTTPSourceSettings {
    package init(url: String) { self.url = url }
}

extension HTTPSourceSettings: CustomStringConvertible, CustomDebugStringConvertible {
    /// The settings without the body and the header values, which may be secrets.
    package var description: String {
        "HTTP(url: \(url), method: \(body == nil ? "GET" : "POST"), "
            + "responsePath: \(responsePath?.description ?? "none"), "
            + "interval: \(interval), timeout: \(timeout), longPoll: \(longPoll.map { "\($0.waitSeconds) s" } ?? "no"), "
            + "versionPath: \(versionPath?.description ?? "none"), access: \(access))"
    }

    package var debugDescription: String { description }
}
