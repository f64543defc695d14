import CLinuxShims
import LarderEncoding
import LarderJSON
import LarderProtocol
import NIOCore
import Synchronization
import Glibc

/// The connections of one event loop, as the registry uses them. Used on that loop only.
protocol RegisteredLoop: AnyObject {
    var traffic: AgentStats.Traffic { get }
    /// The number of subscriptions that have missed the newest snapshot because output is pending.
    var laggingSubscriptions: Int { get }

    /// The number of connections that only monitor the agent.
    var monitoringConnections: Int { get }

    /// The connections as `agent.clients` reports them.
    func clients() -> [AgentClients.Client]
    /// Reads no new requests, writes the replies, and sends `end` to each subscription.
    func drainAll()
    /// Ends subscriptions and requests that the current access rules do not permit.
    func reviewAll()
    func closeAll()
}

/// All connections of the server, over all event loops: counts, traffic and shutdown.
final class ConnectionRegistry: Sendable {
    private struct State {
        var loops: [NIOLoopBound<any RegisteredLoop>] = []
        /// The tasks that wait until no connection is open.
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let nextID = Atomic<Int>(0)
    private let open = Atomic<Int>(0)
    private let refused = Atomic<Int>(0)
    private let refusedPerUser = Atomic<Int>(0)
    /// The resources used by each user.
    let users = UserUsageTable()
    private let startedAt = ContinuousClock.now
    /// When the last connection ended that did not only monitor the agent, in nanoseconds after ``startedAt``.
    private let emptySince = Atomic<Int>(0)
    /// The snapshots that clients have acknowledged as applied or rejected.
    let acknowledgements = AcknowledgementRegistry()
    /// Tasks use the list of loops and wait, and the event loop of the last connection resumes them.
    private let state = Mutex(State())

    /// Adds an event loop. All loops must be added before the first connection.
    func add(_ loop: NIOLoopBound<any RegisteredLoop>) {
        state.withLock { $0.loops.append(loop) }
    }

    /// Forgets the event loops. Without this call, the registry and the loops would retain each other.
    func removeLoops() { state.withLock { $0.loops = [] } }

    /// Reserves an id for a new connection of a user who has a place; nil if the maximum number of connections is open.
    func admit(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> Int? {
        guard peer.isTrusted || users.descriptors <= limits.connectionsOfOthers else {
            countRefusal()
            return nil
        }
        return admit(limit: limits.connections)
    }

    /// Reserves an id for a new connection; nil if `limit` connections are open. A refused connection is never counted
    /// as open. Otherwise the refusal would have to correct the count and, if no connection is left, resume the tasks
    /// that wait for an empty registry.
    func admit(limit: Int) -> Int? {
        var count = open.load(ordering: .relaxed)
        while count < limit {
            let attempt = open.weakCompareExchange(expected: count, desired: count + 1, ordering: .relaxed)
            if attempt.exchanged { return nextID.add(1, ordering: .relaxed).newValue }
            count = attempt.original
        }
        countRefusal()
        return nil
    }

    /// Reserves a place for a new connection of a user; nil if the user has reached the limit.
    func join(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> UserUsage? {
        let usage = users.join(peer, limits)
        if usage == nil { refusedPerUser.add(1, ordering: .relaxed) }
        return usage
    }

    /// Refuses a connection of a user who has reached the limit.
    func refuse(_ socket: CInt, of peer: PeerCredentials, _ limits: ConnectionLimits, _ log: RefusalLogs) {
        let error = UserUsageTable.refusal(of: peer, limits)
        log.addUsage(error, "connectionsPerUser", of: peer)
        Self.refuse(socket, error)
    }

    func countRefusal() { refused.add(1, ordering: .relaxed) }

    /// Refuses a connection because of the number of connections or of open files. The caller has counted the refusal.
    func refuse(_ socket: CInt, _ limits: ConnectionLimits, _ log: RefusalLogs) {
        log.addConnection(limits)
        Self.refuse(
            socket,
            WireError(
                .limitExceeded,
                "the agent has \(limits.connections) connections and files in transit, the maximum; close some, or raise "
                    + (limits.isBoundByDescriptors
                        ? "its limit of open files (LimitNOFILE= of its service, ulimit -n)"
                        : "limits.connections")))
    }

    private static func refuse(_ socket: CInt, _ error: WireError) {
        var writer = JSONWriter()
        Envelope.writeError(id: .null, error, to: &writer)
        writer.endLine()
        // A new socket has room for a line. The write fails only if the client has disconnected.
        _ = writer.bytes.withUnsafeBytes { larder_send_nosignal(socket, $0.baseAddress, $0.count) }
        close(socket)
    }

    var connections: Int { open.load(ordering: .relaxed) }

    /// How long no connection has been in use; nil while one is. Connections that only monitor the agent do not count.
    func idleTime() async -> Duration? {
        let connections = open.load(ordering: .acquiring)
        if connections > 0, await onEachLoop({ $0.monitoringConnections }).reduce(0, +) < connections { return nil }
        return ContinuousClock.now - startedAt - .nanoseconds(emptySince.load(ordering: .relaxed))
    }

    /// - Parameter isMonitoring: whether the connection has only monitored the agent
    func connectionEnded(isMonitoring: Bool = false) {
        // The time is set before the count changes, so that a reader that finds no open connection also finds the time
        // at which the last one ended. It is set for each connection, because several may end at once.
        if !isMonitoring {
            emptySince.store(Int((ContinuousClock.now - startedAt).wholeNanoseconds), ordering: .relaxed)
        }
        guard open.subtract(1, ordering: .releasing).newValue == 0 else { return }
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns once no connection is open.
    func waitUntilEmpty() async {
        await withCheckedContinuation { continuation in
            let isEmpty = state.withLock { state in
                if open.load(ordering: .relaxed) == 0 { return true }
                state.waiters.append(continuation)
                return false
            }
            if isEmpty { continuation.resume() }
        }
    }

    /// The total traffic of all event loops.
    func traffic() async -> AgentStats.Traffic {
        var total = AgentStats.Traffic()
        for traffic in await onEachLoop({ $0.traffic }) {
            total += traffic
        }
        total.refused.connections = refused.load(ordering: .relaxed)
        total.refused.connectionsPerUser = refusedPerUser.load(ordering: .relaxed)
        total.connectionsRefused = total.refused.connections + total.refused.connectionsPerUser
        return total
    }

    /// The number of subscriptions that have missed the newest snapshot because output is pending.
    func laggingSubscriptions() async -> Int { await onEachLoop { $0.laggingSubscriptions }.reduce(0, +) }

    /// All connections, ordered by id.
    func clients() async -> [AgentClients.Client] {
        await onEachLoop { $0.clients() }.flatMap { $0 }.sorted { $0.id < $1.id }
    }

    /// Drains all connections: reads no new requests, writes the replies, and sends `end` to each subscription.
    func finishAll() async {
        _ = await onEachLoop { $0.drainAll() }
    }

    /// Ends subscriptions and requests that the current access rules do not permit.
    func reviewAll() async {
        _ = await onEachLoop { $0.reviewAll() }
    }

    func closeAll() async {
        _ = await onEachLoop { $0.closeAll() }
    }

    private func onEachLoop<Value: Sendable>(_ body: @escaping @Sendable (any RegisteredLoop) -> Value) async -> [Value]
    {
        var values: [Value] = []
        for loop in state.withLock({ $0.loops }) {
            // The future cannot fail, because `body` throws no errors.
            if let value = try? await loop.eventLoop.submit({ body(loop.value) }).get() { values.append(value) }
        }
        return values
    }
}
