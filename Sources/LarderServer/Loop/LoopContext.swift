import LarderImages
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore

/// What the connections of one event loop share. Everything in it is touched on that loop only.
final class LoopContext {
    let eventLoop: any EventLoop
    let server: ServerContext
    let methods: MethodTable
    let registry: ConnectionRegistry
    let hub: SubscriptionHub
    let load: LoopLoad
    /// Runs short tasks on the loop; nil on a loop that is none of the agent's own.
    let taskExecutor: LoopTaskExecutor?
    /// The descriptors that the loop waits for.
    let epoll: Epoll
    /// Room for what one read(2) brings.
    let input = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 64)
    /// How long the requests of one connection may keep the others waiting.
    static let turnTime = TimeAmount.microseconds(50)
    /// When the connection that is being served has to leave the rest for later; nil as long as it asked for little.
    private var turnEnd: NIODeadline?
    /// The loop's round that ``turnEnd`` is of.
    private var turnRound = 0
    /// Keeps its memory from request to request.
    var parser = JSONParser()
    /// The output of the connection that is being served now; empty between two of them.
    var output = JSONWriter(reservingCapacity: 64 * 1024)
    /// What is passed with the first byte of ``output``.
    var passed: PassedFile?
    var replies = ReplyCache()
    var imageQueries = ImageQueries()
    /// The rights of the peers that are, or were a while ago, connected here: as many connections of one peer share them.
    private var rights: [Accounts: PeerRights] = [:]
    let leaseTimer: LeaseTimer
    var traffic = AgentStats.Traffic()
    private let table = ConnectionTable()
    /// Watches over clients whose output waits.
    let stalls = StallMonitor()

    init(
        _ load: LoopLoad, _ epoll: Epoll, server: ServerContext, methods: MethodTable, registry: ConnectionRegistry
    ) {
        self.load = load
        self.epoll = epoll
        eventLoop = load.eventLoop
        taskExecutor = (load.eventLoop as? EpollLoop).map(LoopTaskExecutor.init)
        self.server = server
        self.methods = methods
        self.registry = registry
        hub = SubscriptionHub(eventLoop: eventLoop)
        leaseTimer = LeaseTimer(eventLoop: eventLoop)
        // Not a weak reference: counting references to what has one takes twice the time, and each request counts some.
        leaseTimer.sweep = { [table, server] now in
            for connection in table.connections.values {
                for digest in connection.leases.expire(at: now) { server.images?.cache.release(digest) }
            }
            return table.connections.values.lazy.compactMap(\.leases.nextEnd).min()
        }
    }

    /// The connections by their numbers.
    private final class ConnectionTable {
        var connections: [Int: Connection] = [:]
    }

    /// The connections by their numbers.
    var connections: [Int: Connection] { table.connections }

    deinit { input.deallocate() }

    func add(_ connection: Connection) {
        table.connections[connection.id] = connection
        load.added()
        traffic.connectionsOpen += 1
        traffic.connectionsAccepted += 1
    }

    func remove(_ connection: Connection) {
        guard table.connections.removeValue(forKey: connection.id) != nil else { return }
        load.removed()
        traffic.connectionsOpen -= 1
        registry.connectionEnded()
    }

    // MARK: Turns

    /// Another connection is served, or the same one again. Those of which the loop was told together share the time: each
    /// has its first line looked at, and the rest as long as there is time.
    func beginTurn() {
        let round = (eventLoop as? EpollLoop)?.round ?? turnRound + 1
        if round == turnRound { return }
        turnRound = round
        turnEnd = nil
    }

    /// Begins a new time slice for a connection that continues with deferred work.
    func beginDeferred() { turnEnd = nil }

    /// Begins a turn that is going to be long.
    func beginLongTurn() { turnEnd = .now() + Self.turnTime }

    /// Whether the connection that is being served has had its time. The first time that this is asked, its time begins.
    var isTurnOver: Bool {
        let now = NIODeadline.now()
        guard let turnEnd else {
            turnEnd = now + Self.turnTime
            return false
        }
        return now >= turnEnd
    }

    /// Runs `piece` once every connection with input was served.
    func deferWork(_ piece: @escaping () -> Void) {
        if let loop = eventLoop as? EpollLoop { return loop.deferWork(piece) }
        eventLoop.assumeIsolated().execute(piece)
    }

    /// Runs `body` for each item, and then `end`. When the time slice is over, the rest is deferred.
    func forEachInSlices<Item>(
        _ items: [Item], from start: Int = 0, _ body: @escaping (Item) -> Void, andThen end: @escaping () -> Void
    ) {
        let sliceEnd = NIODeadline.now() + Self.turnTime
        for index in start..<items.count {
            body(items[index])
            guard index + 1 < items.count, NIODeadline.now() >= sliceEnd else { continue }
            return deferWork { self.forEachInSlices(items, from: index + 1, body, andThen: end) }
        }
        end()
    }

    // MARK: Limits

    /// Counts a refusal because of a limit. It is logged, unless it is about a subscription.
    /// - Returns: the error that the client gets.
    @discardableResult
    func count(_ refusal: UsageRefusal, of peer: PeerCredentials) -> WireError {
        switch refusal.limit {
        case .queuedBytes:
            traffic.refused.queuedBytes += 1
            server.refusals.addUsage(refusal.error, "queuedBytesPerUser", of: peer)
        case .requests:
            traffic.refused.requests += 1
            server.refusals.addUsage(refusal.error, "requestsInFlightPerUser", of: peer)
        case .subscriptions: traffic.refused.subscriptions += 1
        }
        return refusal.error
    }

    // MARK: Rights

    /// What tells the rights of one peer from those of another.
    private struct Accounts: Hashable {
        let (user, group): (Int, Int)
        let groups: [UInt32]
    }

    /// More are kept for nobody.
    private static let mostRights = 256

    /// The rights of a peer by the rules in force.
    func rights(of peer: PeerCredentials) -> PeerRights {
        let accounts = Accounts(user: peer.uid, group: peer.gid, groups: peer.groups)
        if let known = rights[accounts], known.version == server.rulesVersion { return known }
        if rights.count >= Self.mostRights { rights.removeAll() }
        let new = server.rights(of: peer)
        rights[accounts] = new
        return new
    }

    // MARK: Memory

    /// Empties the output buffer. Memory for an unusually large reply is freed.
    func clearOutput() {
        passed = nil
        if output.bytes.capacity > 512 * 1024 {
            output = JSONWriter(reservingCapacity: 64 * 1024)
        } else {
            output.removeAll()
        }
    }
}
