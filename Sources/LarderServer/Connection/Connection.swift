import Glibc
import LarderConfig
import LarderEventLoop
import LarderImages
import LarderPlatform
import LarderProtocol
import Logging
import NIOCore

/// A client connection. Used on its event loop only.
///
/// Each part of the state is a value that performs no I/O: ``RequestReader`` (input), ``BatchQueue`` and
/// ``PendingRequests`` (requests), ``OutboundQueue`` (output), ``ConnectionSubscriptions``, ``ImageLeases``,
/// ``ConnectionUsage`` (limits) and ``Principal`` (the peer and its rights). ``SocketReader``, ``RequestDispatcher``
/// and ``ReplyWriter`` carry a request from the socket to its reply.
final class Connection: EpollTarget {
    enum Phase {
        case serving
        /// No further requests are accepted. The connection closes after the last reply.
        case draining
        case closed
    }

    /// The state of a connection.
    struct State {
        fileprivate(set) var phase = Phase.serving
        fileprivate var registration = SocketRegistration()
        var reader: RequestReader
        var batches = BatchQueue()
        var pending = PendingRequests()
        var outbound = OutboundQueue()
        var subscriptions = ConnectionSubscriptions()
        var leases = ImageLeases()
        var usage: ConnectionUsage
        var metrics = ConnectionMetrics()
        var principal: Principal
    }

    let id: Int
    let loop: LoopContext
    /// The connected socket. It is closed when the connection closes.
    let socket: CInt
    // A release build does not check for overlapping accesses to the state. A request makes about 25 accesses, and each
    // check takes 63 instructions. The checks are not needed: only the event loop uses the state, and code that changes
    // a part does not call code that could access that part. Debug builds, which the tests use, do check.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var state: State

    var input: SocketReader { SocketReader(connection: self) }
    var dispatcher: RequestDispatcher { RequestDispatcher(connection: self) }
    var output: ReplyWriter { ReplyWriter(connection: self) }
    var writer: SocketWriter { SocketWriter(socket: socket) }

    /// Takes ownership of a connected socket.
    /// - Parameter user: the resource usage of the connection's user, which already includes this connection
    init(id: Int, loop: LoopContext, socket: CInt, peer: PeerCredentials, limits: ConnectionLimits, user: UserUsage) {
        self.id = id
        self.loop = loop
        self.socket = socket
        state = State(
            reader: RequestReader(maximumLineBytes: limits.lineBytes),
            usage: ConnectionUsage(limits: limits, user: user),
            principal: Principal(peer, rights: loop.rights(of: peer)))
    }

    // MARK: Life

    /// Starts to serve the connection. Reads the socket before registering it with epoll, because the client has often
    /// sent its first request by then.
    func start() {
        loop.add(self)
        input.serve()
        guard state.phase != .closed else { return }
        do {
            try state.registration.add(socket, of: self, to: loop.epoll)
        } catch {
            loop.server.logger.warning(
                "cannot watch the socket of a new connection; the connection was closed",
                metadata: logMetadata(["error": "\(error)"]))
            close()
        }
    }

    override func ready(_ events: EpollEvents) {
        state.reader.socketBecameReady()
        // Pending output is written first, so that requests that waited for the output to drain share a time slice with
        // requests that have just arrived.
        if events.contains(.writable) { output.resume() }
        if state.phase == .closed { return }
        if !events.isDisjoint(with: .hungUp) { return input.hangUp() }
        if events.contains(.inputEnded) { state.reader.peerHalfClosed() }
        state.reader.deferLongLine()
        input.serve()
    }

    /// Sets whether the loop reports when the socket has room for output.
    func waitUntilWritable(_ isWanted: Bool) {
        state.registration.waitUntilWritable(isWanted, socket, in: loop.epoll)
    }

    /// Stops accepting requests. Closes the connection after all replies and the `end` event of each subscription were
    /// written.
    func drain() {
        guard state.phase == .serving else { return }
        state.phase = .draining
        state.reader.stop()
        dispatcher.startRestOfBatch()
        cancelUncommitted()
        for subscription in state.subscriptions.sorted { subscription.end(.shutdown) }
        output.flush()
        closeIfDone()
    }

    /// Closes the connection if no request, subscription or output is outstanding, and either the connection is
    /// draining or all its input has been served.
    func closeIfDone() {
        guard state.reader.isFinished || state.phase == .draining, !state.reader.isServing,
            state.batches.waiting == nil, state.pending.isEmpty,
            state.subscriptions.isEmpty, !state.outbound.isPending
        else { return }
        close()
    }

    /// Closes the connection immediately. Then starts the remaining requests of a waiting batch that have the lifetime
    /// `committed`, because the batch was received as a whole, and cancels all pending requests with another lifetime.
    func close() {
        if state.phase == .closed { return }
        state.phase = .closed
        state.registration.remove(socket, from: loop.epoll)
        Glibc.close(socket)
        state.outbound.removeAll()
        state.reader.stop()
        dispatcher.startRestOfBatch()
        cancelUncommitted()
        let ended = state.pending.connectionClosed()
        loop.traffic.requestsInFlight -= ended.requests
        state.usage.removeRequests(ended.places, chargedBytes: ended.bytes)
        for subscription in state.subscriptions.sorted { subscription.remove() }
        if state.metrics.hasAcknowledged { loop.registry.acknowledgements.forget(id) }
        leasesEnded(state.leases.endAll())
        chargeBufferedBytes()
        loop.registry.users.leave(state.usage.user)
        loop.remove(self)
    }

    // MARK: Requests

    /// Whether another request may be started now.
    var hasRoomForRequest: Bool {
        state.phase != .closed && !state.outbound.isPending
            && state.pending.count < state.usage.limits.requestsInFlightPerConnection
    }

    /// Whether another line may be served now.
    var isGateOpen: Bool { state.phase == .serving && state.batches.waiting == nil && hasRoomForRequest }

    /// Completes a pending request and writes its reply.
    /// - Parameter reservation: the memory that the task of the request has reserved for the reply
    func complete(
        _ ticket: PendingRequests.Ticket, _ result: Result<any WireResult, WireError>,
        reservation: ReplyReservation? = nil
    ) {
        switch state.pending.complete(ticket) {
        case .unknown: break
        case .orphaned(let bytes):
            loop.registry.users.removeOrphanedRequest(state.usage.user, chargedBytes: bytes)
        case .answer(let request):
            loop.traffic.requestsInFlight -= 1
            state.usage.removeRequests(1, chargedBytes: request.chargedBytes)
            let reservation = reservation ?? request.reservation
            state.usage.replacedBytes = reservation?.bytes ?? 0
            output.complete(request, result)
            output.flush()
            state.usage.replacedBytes = 0
            // The reply is written or queued, and its queued bytes are charged.
            withExtendedLifetime(reservation) {}
            input.resumeRequests()
            closeIfDone()
        }
    }

    /// Cancels the pending requests that are not committed, because the agent stops or the client has disconnected.
    private func cancelUncommitted() {
        if state.pending.isEmpty { return }
        let reason = WireError(.shuttingDown, "the agent is stopping; retry after it has restarted")
        for ticket in state.pending.tickets(.connection) { state.pending[ticket]?.cancel(reason) }
    }

    /// Called when all queued output was written. Subscriptions that missed a snapshot get the newest one, and reading
    /// resumes.
    func outputDrained() {
        chargeBufferedBytes()
        for subscription in state.subscriptions.takeLagging() { subscription.catchUp() }
        input.resumeRequests()
        closeIfDone()
    }

    // MARK: Limits

    /// Charges the user for the bytes that are buffered for this connection.
    func chargeBufferedBytes() {
        let bytes =
            state.phase == .closed
            ? 0 : state.outbound.pendingBytes + state.reader.pendingBytes + state.batches.chargedBytes
        state.usage.update(chargedBytes: bytes)
    }

    /// Returns the error for work that needs a buffer of more than ``UserUsage/largeBytes``, if the user's buffered
    /// bytes exceed the limit; otherwise nil. Counts and logs the refusal.
    func refusalOfLargeWork() -> WireError? {
        state.usage.refusalOfLargeWork().map { loop.count($0, of: state.principal.credentials) }
    }

    /// Reserves places or memory of the user. Counts and logs a refusal.
    func counted<Value>(_ reserve: (ConnectionUsage) throws(UsageRefusal) -> Value) throws(WireError) -> Value {
        do throws(UsageRefusal) {
            return try reserve(state.usage)
        } catch {
            throw loop.count(error, of: state.principal.credentials)
        }
    }

    /// Releases the references and the places of image leases that have ended.
    func leasesEnded(_ blobs: [BlobDigest]) {
        if blobs.isEmpty { return }
        state.usage.user.removeLeases(blobs.count)
        for blob in blobs { loop.server.images?.cache.release(blob) }
    }

    // MARK: The peer

    /// The rights of the peer under the current rules. They are computed again only if the rules have changed.
    var rights: PeerRights {
        if state.principal.rights.version != loop.server.rulesVersion {
            state.principal.rights = loop.rights(of: state.principal.credentials)
        }
        return state.principal.rights
    }

    /// Returns the reason to deny a request of the peer; nil if the request is permitted. Logs a denial.
    @inline(__always)
    func denial(of requirement: Requirement, by method: @autoclosure () -> String) -> Denial? {
        // Inlined, because a denial is large, and reading configuration is usually permitted.
        if rights.permitsEveryRead(requirement) { return nil }
        return loggedDenial(of: requirement, by: method())
    }

    private func loggedDenial(of requirement: Requirement, by method: String) -> Denial? {
        let server = loop.server
        guard let denial = server.authorizer.decide(requirement, rights) else { return nil }
        server.refusals.addRequest(denial.error, to: method, of: state.principal.credentials)
        return denial
    }

    /// Metadata for a log line about the connection.
    func logMetadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        state.principal.identify()
        return state.principal.credentials.logMetadata(more)
    }
}

/// Counters of one connection, as `agent.clients` reports them.
struct ConnectionMetrics {
    let connectedAt = Timestamp(milliseconds: WallClock.system.now)
    /// The number of lines served.
    var requests = 0
    var bytesReceived = 0
    /// Whether the client has acknowledged a snapshot.
    var hasAcknowledged = false
}

/// The registration of a connection's socket with the epoll instance of its loop.
struct SocketRegistration {
    private var isRegistered = false
    /// The events that are watched for.
    private var interest: EpollEvents = [.readable, .inputEnded, .onEdges]

    mutating func add(_ socket: CInt, of connection: Connection, to epoll: Epoll) throws(EpollError) {
        try epoll.add(socket, interest, connection)
        isRegistered = true
    }

    /// Sets whether the loop reports that the socket has room. This is needed only while output is pending. Otherwise
    /// the kernel would report an event for each reply that the client reads.
    mutating func waitUntilWritable(_ isWanted: Bool, _ socket: CInt, in epoll: Epoll) {
        guard isWanted != interest.contains(.writable) else { return }
        if isWanted { interest.insert(.writable) } else { interest.remove(.writable) }
        if isRegistered { epoll.change(socket, to: interest) }
    }

    /// Removes a socket that the caller is about to close.
    mutating func remove(_ socket: CInt, from epoll: Epoll) {
        if isRegistered { epoll.forget(socket) }
        isRegistered = false
    }
}
