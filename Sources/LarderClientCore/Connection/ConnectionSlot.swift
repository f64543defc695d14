import Glibc
import NIOCore
import Synchronization

/// Holds a connection of a client. The slot connects when a connection is requested, also after a disconnect.
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
    let monitor: ClientMonitor

    init(transport: Transport, configuration: LarderClient.Configuration, monitor: ClientMonitor) {
        self.transport = transport
        self.configuration = configuration
        self.monitor = monitor
    }

    /// Returns the current connection, or a new one.
    func connection() async throws(LarderClientError) -> Connection {
        try await configuration.retryingWhileBusy { () async throws(LarderClientError) in try await connectOnce() }
    }

    /// The connection that was made last; nil without one. It may have ended.
    var last: Connection? {
        state.withLock { if case .connected(let connection) = $0 { connection } else { nil } }
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
        let (current, promise) = state.withLock { state -> (State, EventLoopPromise<Connection>?) in
            switch state {
            case .closed, .connecting: return (state, nil)
            case .connected(let connection) where connection.isUsable: return (state, nil)
            case .connected, .empty:
                let promise = Connection.eventLoop.makePromise(of: Connection.self)
                state = .connecting(promise.futureResult)
                return (state, promise)
            }
        }
        if let promise {
            Connection.open(
                transport, maximumRequestsInFlight: configuration.maximumRequestsInFlight,
                maximumReplyBytes: configuration.maximumReplyBytes, monitor: monitor
            ).whenComplete { result in
                // The state changes first, so that a caller that retries at once does not get this outcome again.
                if case .failure = result { self.uninstall() }
                promise.completeWith(result.flatMap { self.install($0) })
            }
        }
        switch current {
        case .connected(let connection): return connection
        case .connecting(let attempt): return try await attempt.outcome()
        case .closed, .empty: throw .closed
        }
    }

    private func install(_ connection: Connection) -> Result<Connection, any Error> {
        let isClosed = state.withLock { state in
            if case .closed = state { return true }
            state = .connected(connection)
            return false
        }
        guard isClosed else {
            monitor.connected()
            return .success(connection)
        }
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

/// The delays between attempts to connect: exponential with full jitter (each delay is a random part of its upper
/// bound), so that the clients of an agent that has ended do not all reconnect at the same time.
///
/// The delay before retry *n* (0 for the first) is a random fraction of `min(cap, base · 2ⁿ)`.
///
/// ```swift
/// var configuration = LarderClient.Configuration()
/// configuration.backoff = LarderBackoff(base: .milliseconds(100), cap: .seconds(30))
/// let client = LarderClient(configuration: configuration)
/// ```
public struct LarderBackoff: Sendable {
    /// The upper bound of the first delay.
    public var base: Duration
    /// The upper bound of every delay.
    public var cap: Duration
    /// Returns the random fraction, from 0 to 1. Tests can replace it.
    public var fraction: @Sendable () -> Double

    /// Creates a backoff.
    /// - Parameters:
    ///   - base: the upper bound of the first delay.
    ///   - cap: the upper bound of every delay.
    ///   - fraction: returns the random fraction, from 0 to 1. Other values are clamped.
    public init(
        base: Duration = .milliseconds(50), cap: Duration = .seconds(10),
        fraction: @escaping @Sendable () -> Double = { .random(in: 0...1) }
    ) {
        self.base = base
        self.cap = cap
        self.fraction = fraction
    }

    /// Returns the delay before a retry.
    ///
    /// ```swift
    /// for attempt in 0..<5 {
    ///     try await Task.sleep(for: LarderBackoff().delay(beforeAttempt: attempt))
    ///     if (try? await client.agent.ping()) != nil { break }
    /// }
    /// ```
    /// - Parameter attempt: the index of the retry, 0 for the first. It must not be negative.
    public func delay(beforeAttempt attempt: Int) -> Duration {
        // The exponent is limited to 32, because a larger one could overflow. 2³² times any sensible base exceeds any
        // sensible cap.
        min(cap, base * (1 << min(attempt, 32))) * min(max(fraction(), 0), 1)
    }
}

extension Clock where Duration == Swift.Duration {
    /// Starts a measurement. The returned closure returns the time elapsed since this call.
    package func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
