import Synchronization

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
