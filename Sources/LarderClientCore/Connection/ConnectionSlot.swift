import Glibc
import NIOCore
import Synchronization

/// Holds the one connection of a client. The slot connects when a connection is requested, also after a disconnect.
final class ConnectionSlot: Sendable {
    private enum State {
        case empty
        case connecting(EventLoopFuture<Connection>)
        case connected(Connection)
        case closed
    }

    private let transport: Transport
    private let configuration: LarderClient.Configuration
    private let state = Mutex(State.empty)

    init(transport: Transport, configuration: LarderClient.Configuration) {
        self.transport = transport
        self.configuration = configuration
    }

    /// Returns the current connection, or a new one.
    func connection() async throws(LarderClientError) -> Connection {
        try await configuration.retryingWhileBusy { () async throws(LarderClientError) in try await connectOnce() }
    }

    /// Closes the connection permanently. Calls in flight and later calls fail with `closed`.
    func close() {
        let before = state.withLock { state in
            defer { state = .closed }
            return state
        }
        if case .connected(let connection) = before { connection.close(.closed) }
    }

    /// Makes one attempt to connect. Concurrent callers share the attempt.
    private func connectOnce() async throws(LarderClientError) -> Connection {
        let promise: EventLoopPromise<Connection>
        switch state.withLock({ Self.find(&$0) }) {
        case .connection(let connection): return connection
        case .attempt(let future): return try await future.outcome()
        case .closed: throw .closed
        case .newAttempt(let newAttempt): promise = newAttempt
        }
        Connection.open(transport, configuration).whenComplete { result in
            // The state changes first, so that a caller that retries at once does not get this outcome again.
            if case .failure = result { self.uninstall() }
            promise.completeWith(result.flatMap { self.install($0) })
        }
        return try await promise.futureResult.outcome()
    }

    private enum Found {
        case connection(Connection)
        case attempt(EventLoopFuture<Connection>)
        case newAttempt(EventLoopPromise<Connection>)
        case closed
    }

    private static func find(_ state: inout State) -> Found {
        switch state {
        case .closed: return .closed
        case .connecting(let future): return .attempt(future)
        case .connected(let connection) where connection.isUsable: return .connection(connection)
        case .connected, .empty:
            let promise = Connection.eventLoop.makePromise(of: Connection.self)
            state = .connecting(promise.futureResult)
            return .newAttempt(promise)
        }
    }

    private func install(_ connection: Connection) -> Result<Connection, any Error> {
        let isClosed = state.withLock { state in
            if case .closed = state { return true }
            state = .connected(connection)
            return false
        }
        guard isClosed else { return .success(connection) }
        connection.close(.closed)
        return .failure(LarderClientError.closed)
    }

    private func uninstall() {
        state.withLock { state in
            if case .connecting = state { state = .empty }
        }
    }
}

extension LarderClient.Configuration {
    private static let maxBusyRetries = 6

    /// Connects, and retries while the accept queue of the socket is full.
    func retryingWhileBusy<Value>(
        _ connect: () async throws(LarderClientError) -> Value
    ) async throws(LarderClientError) -> Value {
        var attempt = 0
        while true {
            do throws(LarderClientError) {
                return try await connect()
            } catch {
                // EAGAIN means that the accept queue of the socket is full. Unlike a missing socket, this is usually
                // temporary, so connecting is retried.
                guard error.systemError == EAGAIN, attempt < Self.maxBusyRetries else { throw error }
            }
            do {
                try await clock.sleep(for: backoff.delay(beforeAttempt: attempt))
            } catch {
                throw .cancelled
            }
            attempt += 1
        }
    }
}

extension EventLoopFuture<Connection> {
    fileprivate func outcome() async throws(LarderClientError) -> Connection {
        do {
            return try await get()
        } catch let error as LarderClientError {
            throw error
        } catch {
            throw LarderClientError(.unreachable, "cannot connect: \(error)")
        }
    }
}
