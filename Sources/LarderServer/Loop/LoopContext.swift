import LarderEventLoop
import LarderConfig
import LarderImages
import LarderJSON
import LarderProtocol
import NIOCore

/// The state that the connections of one event loop share. Used on that loop only.
final class LoopContext {
    /// Results that are used again for a repeated request, or for a further connection of a peer.
    struct Caches {
        var replies = ReplyCache()
        /// Larger than that of the replies, and apart from it: a client with thousands of URLs would evict the replies of others.
        var imageQueries = RequestCache<ImageQuery>(slots: 1024)
        var rights = RightsCache()
    }

    let eventLoop: any ServerEventLoop
    /// Runs short tasks on the loop; nil if the loop is not an ``EpollLoop``.
    let taskExecutor: LoopTaskExecutor?
    /// The descriptors that the loop waits for.
    let epoll: Epoll
    let server: ServerContext
    let methods: MethodRegistry
    let registry: ConnectionRegistry
    let hub: SubscriptionHub
    let table: ConnectionTable
    let leaseTimer: LeaseTimer
    /// The buffer to read into.
    let input = UnsafeMutableRawBufferPointer.allocate(byteCount: RequestReader.bufferBytes, alignment: 64)
    /// Keeps its memory from request to request.
    var parser = JSONParser()
    // A release build does not check accesses to the following four at run time: every request uses them, and each check takes 63
    // instructions. Only the event loop uses them, and the code that changes one of them does not call out. Tests check them.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var output = OutputBuffer()
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var caches = Caches()
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var traffic = AgentStats.Traffic()
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var slice = ServingSlice()

    init(
        _ load: LoopLoad, _ epoll: Epoll, server: ServerContext, methods: MethodRegistry, registry: ConnectionRegistry
    ) {
        self.epoll = epoll
        eventLoop = load.eventLoop
        taskExecutor = (load.eventLoop as? EpollLoop).map { LoopTaskExecutor($0) }
        self.server = server
        self.methods = methods
        self.registry = registry
        hub = SubscriptionHub(eventLoop: load.eventLoop)
        let table = ConnectionTable(load)
        self.table = table
        leaseTimer = LeaseTimer(eventLoop: load.eventLoop)
        // Not a weak reference: counting references to an object that has one takes twice the time.
        leaseTimer.sweep = { now in
            for connection in table.connections.values {
                for digest in connection.state.leases.expire(at: now) { server.images?.cache.release(digest) }
            }
            return table.connections.values.lazy.compactMap(\.state.leases.nextEnd).min()
        }
    }

    deinit { input.deallocate() }

    // MARK: Connections

    /// The connections by their ids.
    var connections: [Int: Connection] { table.connections }

    func add(_ connection: Connection) {
        table.add(connection)
        traffic.connectionsOpen += 1
        traffic.connectionsAccepted += 1
    }

    func remove(_ connection: Connection) {
        guard table.remove(connection) else { return }
        traffic.connectionsOpen -= 1
        registry.connectionEnded()
    }

    /// The rights of a peer by the rules in force.
    func rights(of peer: PeerCredentials) -> PeerRights { caches.rights.rights(of: peer, by: server) }

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

    // MARK: Time slices

    /// Begins to serve a connection that has an event.
    func beginSlice() { slice.begin(in: eventLoop.iteration) }

    /// Begins to serve a connection with deferred work.
    func beginDeferredSlice() { slice.beginDeferred() }

    /// Begins to serve requests that waited, which take long.
    func beginLongSlice() { slice.beginNow() }

    /// Whether the connection that is being served has used up its time slice.
    var isSliceOver: Bool { slice.isOver() }

    /// Runs `work` after all connections with input were served.
    func deferWork(_ work: @escaping () -> Void) { eventLoop.deferWork(work) }

    /// Runs `body` for each item, and then `end`. The rest is deferred at the end of each time slice.
    func forEachInSlices<Item>(
        _ items: [Item], from start: Int = 0, _ body: @escaping (Item) -> Void,
        andThen end: @escaping () -> Void
    ) {
        let slice = TimeSlice()
        for index in start..<items.count {
            body(items[index])
            guard index + 1 < items.count, slice.isOver else { continue }
            return deferWork { self.forEachInSlices(items, from: index + 1, body, andThen: end) }
        }
        end()
    }
}
