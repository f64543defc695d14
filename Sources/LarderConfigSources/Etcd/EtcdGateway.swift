import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization

/// Sends requests to the JSON gateway of an etcd endpoint, authenticated as the user in the settings, and interprets
/// error responses.
final class EtcdGateway: Sendable {
    private let configuration: EtcdSourceSettings
    private let fetcher: HTTPFetcher
    private let blocking: BlockingThreadPool
    private let clock: any Clock<Duration>
    private let tokens = EtcdTokens()

    init(
        _ configuration: EtcdSourceSettings, fetcher: HTTPFetcher, blocking: BlockingThreadPool,
        clock: any Clock<Duration>
    ) {
        self.configuration = configuration
        self.fetcher = fetcher
        self.blocking = blocking
        self.clock = clock
    }

    /// Posts a request with the user's token, if the settings have a user, and returns the whole response.
    func post(_ path: String, _ body: [UInt8], to endpoint: String) async throws(EtcdError) -> JSONValue {
        let token = try await authorization(at: endpoint)
        do throws(EtcdError) {
            return try await post(path, body, to: endpoint, token: token)
        } catch {
            // A token expires after some minutes without use, after each change of users or roles, and when the member
            // that issued it restarts.
            guard error.kind == .unauthenticated, configuration.user != nil else { throw error }
            forget(token)
            return try await post(path, body, to: endpoint, token: try await authorization(at: endpoint))
        }
    }

    private func post(
        _ path: String, _ body: [UInt8], to endpoint: String, token: String?
    ) async throws(EtcdError) -> JSONValue {
        let request = try await request(path, body, to: endpoint, token: token)
        let answer: Result<JSONValue, EtcdError>
        do {
            answer = try await fetcher.stream(request, clock: clock) { head, body throws(UpstreamError) in
                guard head.status == 200 else { return .failure(try await self.error(head, &body, from: endpoint)) }
                guard let bytes = try await body.collect(atMost: self.configuration.maximumAnswerBytes) else {
                    return .failure(self.tooLarge)
                }
                do {
                    return .success(try JSONValue(parsing: bytes) { Task.isCancelled })
                } catch {
                    return .failure(error is CancellationError ? .parseCancelled : self.notEtcd(endpoint))
                }
            }
        } catch {
            throw EtcdError(error)
        }
        return try answer.get()
    }

    /// Returns a request with the TLS options, proxies and timeouts that all requests share.
    func request(
        _ path: String, _ body: [UInt8], to endpoint: String, token: String?
    ) async throws(EtcdError) -> FetchRequest {
        let (files, proxy) = (configuration.tls, configuration.proxy.settings)
        var request = FetchRequest(
            url: endpoint + path, headers: token.map { [(name: "Authorization", value: $0)] } ?? [], body: body,
            timeouts: FetchTimeouts(idle: configuration.timeout, whole: configuration.timeout))
        (request.tls, request.proxy) = try await fromDisk { () throws(UpstreamError) in
            (try files.read(), try proxy?.read())
        }
        return request
    }

    /// Converts a response with an error status to an error.
    func error(
        _ head: StreamHead, _ body: inout StreamBody, from endpoint: String
    ) async throws(UpstreamError) -> EtcdError {
        let text = try await body.collect(atMost: 1 << 16) ?? []
        if let value = try? JSONValue(parsing: text), let response = EtcdErrorResponse(value) {
            return response.error(from: endpoint, status: head.status)
        }
        if head.status == 404 {
            return EtcdError(
                .unavailable,
                "\(endpoint) has no etcd gateway at /v3; use the client port, which is 2379 unless configured (2380 is for "
                    + "members), and etcd 3.4 or newer")
        }
        return EtcdError(.unavailable, head.problem?.message ?? "\(endpoint) returned status \(head.status)")
    }

    // MARK: Tokens

    /// Returns the token to send; nil if the settings have no user or the cluster runs without authentication. Requests
    /// a token from the endpoint if necessary.
    func authorization(at endpoint: String) async throws(EtcdError) -> String? {
        guard let user = configuration.user else { return nil }
        let token = try await tokens.token(at: endpoint) { () throws(EtcdError) in
            try await self.requestToken(for: user, at: endpoint)
        }
        if case .text(let text) = token { return text }
        return nil
    }

    private func requestToken(
        for user: EtcdSourceSettings.User, at endpoint: String
    ) async throws(EtcdError) -> EtcdTokens.Token {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("name", user.name)
        writer.member("password", try await fromDisk { () throws(UpstreamError) in try user.password.read() })
        writer.endObject()
        let answer: JSONValue
        do throws(EtcdError) {
            answer = try await post("/v3/auth/authenticate", writer.bytes, to: endpoint, token: nil)
        } catch {
            // A cluster without authentication serves every client, so no token is needed.
            if error.message.contains("authentication is not enabled") { return .none }
            guard error.kind == .refused else { throw error }
            throw EtcdError(
                .refused, "\(error.message); check the user \"\(user.name)\" and its password in the settings")
        }
        guard let text = answer["token"]?.string else { throw notEtcd(endpoint) }
        return .text(text)
    }

    /// Discards a token that an endpoint has rejected, so that the next request obtains a new one.
    /// - Parameter token: the token that was sent; nil for none
    func forget(_ token: String?) { tokens.forget(token) }

    /// Reads a file with a secret or a certificate.
    private func fromDisk<Value: Sendable>(
        _ read: @escaping @Sendable () throws(UpstreamError) -> Value
    ) async throws(EtcdError) -> Value {
        do throws(UpstreamError) {
            return try await blocking.run(read)
        } catch {
            throw EtcdError(error)
        }
    }

    // MARK: Errors

    /// The error for a response that is not in the format of etcd.
    func notEtcd(_ endpoint: String) -> EtcdError {
        EtcdError(
            .unavailable, "the response of \(endpoint) is not an etcd response; check the endpoint and any proxies")
    }

    /// The error for keys and values that are too large for a document of the maximum size.
    var tooLarge: EtcdError { EtcdError(.rejected, EtcdDocument.tooLarge(configuration.maximumBytes).message) }
}

/// The token of a user of an etcd cluster. Callers that need a token at the same time share one request for it.
final class EtcdTokens: Sendable {
    enum Token: Sendable, Equatable {
        /// The cluster runs without authentication.
        case none
        case text(String)
    }

    private typealias Request = Task<Result<Token, EtcdError>, Never>

    private struct State {
        /// Nil before the first request for a token, and after a token was rejected.
        var token: Token?
        /// The running requests by their endpoint. A failure of one endpoint says nothing about the others.
        var requests: [String: (id: Int, task: Request, callers: Int)] = [:]
        var lastID = 0
    }

    private enum Step {
        case known(Token)
        case request(id: Int, Request)
    }

    /// Tasks that need a token share a request, and cancellation handlers, which cannot wait, remove callers from it.
    private let state = Mutex(State())

    /// Returns the token, or requests one from the endpoint. If the calling task is cancelled, a request that other
    /// callers share continues.
    /// - Parameter request: sends the request
    func token(
        at endpoint: String, _ request: @escaping @Sendable () async throws(EtcdError) -> Token
    ) async throws(EtcdError) -> Token {
        let step = state.withLock { state -> Step in
            if let token = state.token { return .known(token) }
            if let running = state.requests[endpoint] {
                state.requests[endpoint]?.callers += 1
                return .request(id: running.id, running.task)
            }
            state.lastID += 1
            let id = state.lastID
            let task = Request { await self.run(id, at: endpoint, request) }
            state.requests[endpoint] = (id, task, 1)
            return .request(id: id, task)
        }
        switch step {
        case .known(let token): return token
        case .request(let id, let task):
            let result = await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                leave(id, at: endpoint)
            }
            return try result.get()
        }
    }

    /// Discards a token that the cluster has rejected, so that the next caller requests a new one. A newer token stays.
    /// - Parameter rejected: the token that was sent; nil for none
    func forget(_ rejected: String?) {
        state.withLock { state in
            if state.token == rejected.map(Token.text) ?? Token.none { state.token = nil }
        }
    }

    private func run(
        _ id: Int, at endpoint: String, _ request: @Sendable () async throws(EtcdError) -> Token
    ) async -> Result<Token, EtcdError> {
        let result: Result<Token, EtcdError>
        do throws(EtcdError) {
            result = .success(try await request())
        } catch {
            result = .failure(error)
        }
        state.withLock { state in
            if case .success(let token) = result { state.token = token }
            if state.requests[endpoint]?.id == id { state.requests[endpoint] = nil }
        }
        return result
    }

    /// Removes a caller from a request. A request without callers is cancelled.
    private func leave(_ id: Int, at endpoint: String) {
        let abandoned = state.withLock { state -> Request? in
            guard let running = state.requests[endpoint], running.id == id else { return nil }
            state.requests[endpoint]?.callers -= 1
            if running.callers > 1 { return nil }
            state.requests[endpoint] = nil
            return running.task
        }
        abandoned?.cancel()
    }
}
