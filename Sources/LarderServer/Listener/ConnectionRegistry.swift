import CLinuxShims
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
    /// What each user has in use.
    let users = UserUsageTable()
    /// When the last connection ended; at first, when the agent started.
    private let emptySince = Mutex(ContinuousClock.now)
    /// What the clients say of snapshots.
    let acknowledgements = AcknowledgementBook()
    private let loops = Mutex<[NIOLoopBound<LoopContext>]>([])
    private let emptied = Mutex<[CheckedContinuation<Void, Never>]>([])

    /// Adds an event loop. All are added before the first connection.
    func add(_ loop: NIOLoopBound<LoopContext>) {
        loops.withLock { $0.append(loop) }
    }

    /// A number for a new connection, or nil where there are `limit` already. One that is refused is never counted among
    /// the open ones: it would have to be taken out again, and who waits for the last to end would have to be told.
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

    /// A place for a new connection of a user, or nil where they have as many as they may have.
    func join(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> UserUsage? {
        let usage = users.join(peer, limits)
        if usage == nil { refusedPerUser.add(1, ordering: .relaxed) }
        return usage
    }

    /// Turns a connection away whose user has as many as they may have.
    func refuse(_ socket: CInt, of peer: PeerCredentials, _ limits: ConnectionLimits, _ log: RefusalLogs) {
        let error = UserUsageTable.refusal(of: peer, limits)
        log.addUsage(error, "connectionsPerUser", of: peer)
        Refusal.tell(socket, error)
    }

    /// Counts a connection that is turned away.
    func countRefusal() { refused.add(1, ordering: .relaxed) }

    /// Turns a connection away that was counted.
    func refuse(_ socket: CInt, _ limits: ConnectionLimits, _ log: RefusalLogs) {
        log.addConnection(limits)
        Refusal.tell(socket, of: limits)
    }

    var connections: Int { open.load(ordering: .relaxed) }

    /// How long there has been none; nil while there is one.
    var idleTime: Duration? {
        let since = emptySince.withLock { $0 }
        return connections == 0 ? ContinuousClock.now - since : nil
    }

    func connectionEnded() {
        // Before it counts as over, and each of them, because several may end at once: whoever finds none open knows since
        // when.
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

    /// Lets every connection finish: no new requests, replies written, `end` to every subscription.
    func finishAll() async {
        _ = await onEachLoop { loop in for connection in loop.connections.values { connection.drain() } }
    }

    /// Lets every connection look at its rights anew: what it may have no more ends.
    func reviewAll() async {
        _ = await onEachLoop { loop in
            for connection in loop.connections.values { AccessReview(connection: connection).run() }
        }
    }

    /// Closes every connection that is left.
    func closeAll() async {
        _ = await onEachLoop { loop in for connection in loop.connections.values { connection.close() } }
    }

    private func onEachLoop<Value: Sendable>(_ body: @escaping @Sendable (LoopContext) -> Value) async -> [Value] {
        var values: [Value] = []
        for loop in loops.withLock({ $0 }) {
            // It fails only once the event loops are shut down; then there is nothing left to tell.
            if let value = try? await loop.eventLoop.submit({ body(loop.value) }).get() { values.append(value) }
        }
        return values
    }
}

/// A connection that is one too many: it is told why, and closed.
enum Refusal {
    /// Refuses a connection because there are as many as there may be.
    static func tell(_ socket: CInt, of limits: ConnectionLimits) {
        tell(
            socket,
            WireError(
                .limitExceeded,
                "the agent has \(limits.connections) connections, its limit; close some, or raise "
                    + (limits.isBoundByDescriptors
                        ? "the limit of open files that it runs with (LimitNOFILE= of its service, ulimit -n)"
                        : "limits.connections")))
    }

    /// Refuses a connection.
    static func tell(_ socket: CInt, _ error: WireError) {
        var writer = JSONWriter()
        Envelope.writeError(id: .null, error, to: &writer)
        writer.endLine()
        // A new socket takes a line. Who is gone already need not be told.
        _ = writer.bytes.withUnsafeBytes { larder_send_nosignal(socket, $0.baseAddress, $0.count) }
        close(socket)
    }
}
