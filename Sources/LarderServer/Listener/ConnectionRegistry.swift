import LarderJSON
import LarderProtocol
import NIOCore
import Synchronization
import Glibc

/// All connections of the server, over all event loops: their number, their counters, their end.
final class ConnectionRegistry: Sendable {
    private let nextID = Atomic<Int>(0)
    private let open = Atomic<Int>(0)
    private let refused = Atomic<Int>(0)
    private let refusedPerUser = Atomic<Int>(0)
    /// The resources in use by each user.
    let users = UserUsageTable()
    /// When the last connection ended; at first, when the agent started.
    private let emptySince = Mutex(ContinuousClock.now)
    /// The snapshots that clients have applied or rejected.
    let acknowledgements = AcknowledgementBook()
    private let loops = Mutex<[NIOLoopBound<LoopContext>]>([])
    private let emptied = Mutex<[CheckedContinuation<Void, Never>]>([])

    /// Adds an event loop. All are added before the first connection.
    func add(_ loop: NIOLoopBound<LoopContext>) {
        loops.withLock { $0.append(loop) }
    }

    /// An id for a new connection, or nil if `limit` are open. A refused connection is never counted among the open ones:
    /// it would have to be removed again, and the waiters for an empty registry resumed.
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

    /// A place for a new connection of a user, or nil if the user may have no more.
    func join(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> UserUsage? {
        let usage = users.join(peer, limits)
        if usage == nil { refusedPerUser.add(1, ordering: .relaxed) }
        return usage
    }

    /// Refuses a connection whose user may have no more.
    func refuse(_ socket: CInt, of peer: PeerCredentials, _ limits: ConnectionLimits, _ log: RefusalLogs) {
        let error = UserUsageTable.refusal(of: peer, limits)
        log.addUsage(error, "connectionsPerUser", of: peer)
        ConnectionRefusal.send(socket, error)
    }

    /// Counts a refused connection.
    func countRefusal() { refused.add(1, ordering: .relaxed) }

    /// Refuses a connection that was counted.
    func refuse(_ socket: CInt, _ limits: ConnectionLimits, _ log: RefusalLogs) {
        log.addConnection(limits)
        ConnectionRefusal.send(socket, of: limits)
    }

    var connections: Int { open.load(ordering: .relaxed) }

    /// How long no connection has been open; nil while one is open.
    var idleTime: Duration? {
        let since = emptySince.withLock { $0 }
        return connections == 0 ? ContinuousClock.now - since : nil
    }

    func connectionEnded() {
        // Before the count changes, and for each connection, because several may end at once: a reader that finds none
        // open reads the time of the last end.
        emptySince.withLock { $0 = .now }
        guard open.subtract(1, ordering: .relaxed).newValue == 0 else { return }
        let waiters = emptied.withLock { waiters in
            defer { waiters = [] }
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns once no connection is open.
    func waitUntilEmpty() async {
        await withCheckedContinuation { continuation in
            let isEmpty = emptied.withLock { waiters in
                if open.load(ordering: .relaxed) == 0 { return true }
                waiters.append(continuation)
                return false
            }
            if isEmpty { continuation.resume() }
        }
    }

    /// The counters of all event loops together.
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

    /// Every connection in the order of their numbers.
    func clients() async -> [AgentClients.Client] {
        await onEachLoop { loop in loop.connections.values.map { AgentClients.Client($0) } }.flatMap { $0 }.sorted {
            $0.id < $1.id
        }
    }

    /// Drains every connection: no new requests, replies written, `end` to every subscription.
    func finishAll() async {
        _ = await onEachLoop { loop in for connection in loop.connections.values { connection.drain() } }
    }

    /// Ends what connections may no longer have by the rules in force.
    func reviewAll() async {
        _ = await onEachLoop { loop in
            for connection in loop.connections.values { AccessReview(connection: connection).run() }
        }
    }

    /// Closes every open connection.
    func closeAll() async {
        _ = await onEachLoop { loop in for connection in loop.connections.values { connection.close() } }
    }

    private func onEachLoop<Value: Sendable>(_ body: @escaping @Sendable (LoopContext) -> Value) async -> [Value] {
        var values: [Value] = []
        for loop in loops.withLock({ $0 }) {
            // It fails only after the event loops were shut down, when there is no connection.
            if let value = try? await loop.eventLoop.submit({ body(loop.value) }).get() { values.append(value) }
        }
        return values
    }
}
