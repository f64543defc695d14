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
    private let blocking: BlockingWork
    private let clock: any Clock<Duration>
    /// Nil before the first request for a token, and after a token was rejected.
    private let known = Mutex<Token?>(nil)

    /// The token of a user of a cluster.
    private enum Token: Sendable, Equatable {
        /// The cluster runs without authentication.
        case none
        case text(String)
    }

    init(
        _ configuration: EtcdSourceSettings, fetcher: HTTPFetcher, blocking: BlockingWork, clock: any Clock<Duration>
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
                guard head.status == 200 else { return .failure(try await self.complaint(head, &body, from: endpoint)) }
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

    /// Returns a request with the TLS options and timeouts that all requests share.
    func request(
        _ path: String, _ body: [UInt8], to endpoint: String, token: String?
    ) async throws(EtcdError) -> FetchRequest {
        let files = configuration.tls
        return FetchRequest(
            url: endpoint + path, headers: token.map { [(name: "Authorization", value: $0)] } ?? [], body: body,
            tls: try await fromDisk { () throws(ConfigError) in try files.read() },
            timeouts: FetchTimeouts(idle: configuration.timeout, whole: configuration.timeout))
    }

    /// Converts a response with an error status to an error.
    func complaint(
        _ head: StreamHead, _ body: inout StreamBody, from endpoint: String
    ) async throws(UpstreamError) -> EtcdError {
        let text = try await body.collect(atMost: 1 << 16) ?? []
        if let value = try? JSONValue(parsing: text), let complaint = EtcdComplaint(value) {
            return complaint.error(from: endpoint, status: head.status)
        }
        if head.status == 404 {
            return EtcdError(
                .unavailable, "\(endpoint) has no etcd gateway at /v3; use etcd 3.4 or newer")
        }
        return EtcdError(.unavailable, head.problem?.message ?? "\(endpoint) returned status \(head.status)")
    }

    // MARK: Tokens

    /// Returns the token to send; nil if the settings have no user or the cluster runs without authentication. Requests
    /// a token from the endpoint if necessary.
    func authorization(at endpoint: String) async throws(EtcdError) -> String? {
        guard let user = configuration.user else { return nil }
        var token = known.withLock { $0 }
        if token == nil {
            token = try await requestToken(for: user, at: endpoint)
            known.withLock { $0 = token }
        }
        if case .text(let text)? = token { return text }
        return nil
    }

    private func requestToken(
        for user: EtcdSourceSettings.User, at endpoint: String
    ) async throws(EtcdError) -> Token {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("name", user.name)
        writer.member("password", try await fromDisk { () throws(ConfigError) in try user.password.read() })
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

    /// Discards a token that an endpoint has rejected, so that the next request obtains a new one. A newer token stays.
    /// - Parameter rejected: the token that was sent; nil for none
    func forget(_ rejected: String?) {
        known.withLock { known in
            if known == rejected.map(Token.text) ?? Token.none { known = nil }
        }
    }

    /// Reads a file with a secret or a certificate.
    private func fromDisk<Value: Sendable>(
        _ read: @escaping @Sendable () throws(ConfigError) -> Value
    ) async throws(EtcdError) -> Value {
        do throws(ConfigError) {
            return try await blocking.run(read)
        } catch {
            throw EtcdError(.refused, error.message)
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
