import LarderEventLoop
import LarderJSON
import LarderProtocol
import NIOCore

/// The state that the connections of one event loop share. Used on that loop only.
final class LoopContext {
    /// Results that are cached for repeated requests, and rights that are cached for further connections of the same
    /// user.
    struct Caches {
        var replies = ReplyCache()
        /// A cache with more slots than ``replies``, and separate from it, because a client with thousands of URLs
        /// would otherwise evict other clients' replies.
        var imageQueries = RequestCache<ImageQuery>(slots: 1024)
        var rights = RightsCache()
    }

    let eventLoop: any ServerEventLoop
    /// Runs short tasks on the loop; nil if the loop is not an ``EpollLoop``.
    let taskExecutor: LoopTaskExecutor?
    /// The epoll instance of the loop, with which connections register their sockets.
    let epoll: Epoll
    let server: ServerContext
    let registry: ConnectionRegistry
    let leaseTimer: LeaseTimer
    /// The buffer that input is read into.
    let input = UnsafeMutableRawBufferPointer.allocate(byteCount: RequestReader.bufferBytes, alignment: 64)
    // A release build does not check for overlapping accesses to the following five properties: every request uses
    // them, and each check takes 63 to 91 instructions. The checks are not needed: only the event loop uses the
    // properties, and code that changes one of them does not call code that could access it. Debug builds, which the
    // tests use, do check.
    /// The parser for all requests of the loop. They share one, so that its memory is reused.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var parser = JSONParser()
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

    init(on eventLoop: any ServerEventLoop, _ epoll: Epoll, server: ServerContext, registry: ConnectionRegistry) {
        self.eventLoop = eventLoop
        self.epoll = epoll
        taskExecutor = (eventLoop as? EpollLoop).map { LoopTaskExecutor($0) }
        self.server = server
        self.registry = registry
        leaseTimer = LeaseTimer(eventLoop: eventLoop)
    }

    deinit { input.deallocate() }

    // MARK: Peers

    /// The rights of a peer under the current rules.
    func rights(of peer: PeerCredentials) -> PeerRights { caches.rights.rights(of: peer, by: server) }

    /// Counts a request that was refused because of a limit. Logs it, unless the request is a subscription.
    /// - Returns: the error for the client
    @discardableResult
    func count(_ refusal: UsageRefusal, of peer: PeerCredentials) -> WireError {
        switch refusal.limit {
        case .queuedBytes:
            traffic.refused.queuedBytes += 1
            server.refusals.addUsage(refusal.error, "queuedBytesPerUser", of: peer)
        case .requests:
            traffic.refused.requests += 1
            server.refusals.addUsage(refusal.error, "requestsInFlightPerUser", of: peer)
        case .leases:
            traffic.refused.requests += 1
            server.refusals.addUsage(refusal.error, "leasesPerUser", of: peer)
        case .subscriptions: traffic.refused.subscriptions += 1
        }
        return refusal.error
    }

    // MARK: Time slices

    /// Begins to serve a connection that has an event.
    func beginSlice() { slice.begin(in: eventLoop.iteration) }

    /// Begins to serve a connection with deferred work.
    func beginDeferredSlice() { slice.beginDeferred() }

    /// Begins a time slice for requests that had to wait. They usually use up a whole slice.
    func beginLongSlice() { slice.beginNow() }

    /// Whether the time slice of the connection being served is used up.
    var isSliceOver: Bool { slice.isOver() }

    /// Runs `work` after all connections with input have been served.
    func deferWork(_ work: @escaping () -> Void) { eventLoop.deferWork(work) }
}

/// The output of the connection that is being served. All connections of an event loop share this buffer, which is
/// empty whenever the loop switches to another connection.
struct OutputBuffer {
    private static let capacity = 64 * 1024
    /// A buffer whose capacity has grown beyond this number of bytes is freed after its content was sent.
    private static let maxKeptCapacity = 512 * 1024

    var writer = JSONWriter(reservingCapacity: Self.capacity)
    /// The file whose descriptor is sent with the first byte of the output; nil for none.
    var file: PassedFile?

    mutating func clear() {
        file = nil
        if writer.bytes.capacity > Self.maxKeptCapacity {
            writer = JSONWriter(reservingCapacity: Self.capacity)
        } else {
            writer.removeAll()
        }
    }
}

/// The rights of peers that are or were recently connected to one event loop. Peers with the same user and groups share
/// one entry.
struct RightsCache {
    /// The accounts of a peer, which determine its rights.
    private struct Accounts: Hashable {
        let (user, group): (Int, Int)
        let groups: [UInt32]
    }

    private static let maxEntries = 256

    private var rights: [Accounts: PeerRights] = [:]

    /// The rights of a peer under the current rules.
    mutating func rights(of peer: PeerCredentials, by server: ServerContext) -> PeerRights {
        let accounts = Accounts(user: peer.uid, group: peer.gid, groups: peer.groups)
        if let known = rights[accounts], known.version == server.rulesVersion { return known }
        if rights.count >= Self.maxEntries { rights.removeAll() }
        let new = server.rights(of: peer)
        rights[accounts] = new
        return new
    }
}
