import LarderEventLoop
import LarderImages
import Glibc
import LarderConfig
import LarderProtocol
import Logging
import NIOCore

/// The life of one client connection on its event loop.
///
/// Each part of its state has an owner that performs no I/O: ``RequestReader`` (input), ``BatchQueue`` and
/// ``PendingRequests`` (requests), ``OutboundQueue`` (output), ``ConnectionSubscriptions``, ``ImageLeases``,
/// ``ConnectionUsage`` (limits) and ``Principal`` (the peer and its rights). ``SocketReader``, ``RequestDispatcher`` and
/// ``ReplyWriter`` carry a request from the socket to its reply.
final class Connection: EpollTarget {
    enum Phase {
        case serving
        /// No further request is taken. The connection closes after its last reply.
        case draining
        case closed
    }

    let id: Int
    let loop: LoopContext
    /// Closed with the connection.
    let socket: CInt
    private(set) var phase = Phase.serving
    private var registration = SocketRegistration()

    var reader: RequestReader
    var batches = BatchQueue()
    var pending = PendingRequests()
    var outbound = OutboundQueue()
    var subscriptions = ConnectionSubscriptions()
    var leases = ImageLeases()
    var usage: ConnectionUsage
    var metrics = ConnectionMetrics()
    private(set) var principal: Principal

    var input: SocketReader { SocketReader(connection: self) }
    var dispatcher: RequestDispatcher { RequestDispatcher(connection: self) }
    var output: ReplyWriter { ReplyWriter(connection: self) }
    var writer: SocketWriter { SocketWriter(socket: socket) }

    /// Adopts a connected socket.
    /// - Parameter user: the resources in use by its user, this connection included.
    init(id: Int, loop: LoopContext, socket: CInt, peer: PeerCredentials, limits: ConnectionLimits, user: UserUsage) {
        self.id = id
        self.loop = loop
        self.socket = socket
        principal = Principal(peer, rights: loop.rights(of: peer))
        usage = ConnectionUsage(limits: limits, user: user)
        reader = RequestReader(maximumLineBytes: limits.lineBytes)
    }

    // MARK: Life

    /// Begins to serve. A client has often sent its first request by now.
    func start() {
        loop.add(self)
        input.serve()
        guard phase != .closed else { return }
        do {
            try registration.add(socket, of: self, to: loop.epoll)
        } catch {
            loop.server.logger.warning("a connection was refused", metadata: logMetadata(["error": "\(error)"]))
            close()
        }
    }

    override func ready(_ events: EpollEvents) {
        reader.socketBecameReady()
        // First, so that requests that waited for the output and those that have arrived since share a time slice.
        if events.contains(.writable) { output.resume() }
        if phase == .closed { return }
        if !events.isDisjoint(with: .hungUp) { return input.hangUp() }
        if events.contains(.inputEnded) { reader.peerHalfClosed() }
        reader.deferLongLine()
        input.serve()
    }

    /// Sets whether output waits for room in the socket.
    func waitUntilWritable(_ isWanted: Bool) {
        registration.waitUntilWritable(isWanted, socket, in: loop.epoll)
    }

    /// Takes no more requests. Closes after all replies and the end event of each subscription are written.
    func drain() {
        guard phase == .serving else { return }
        phase = .draining
        reader.stop()
        dispatcher.startRestOfBatch()
        cancelUncommitted()
        for subscription in subscriptions.sorted { subscription.end(.shutdown) }
        output.flush()
        closeIfDone()
    }

    /// Closes if no reply, event or input is outstanding.
    func closeIfDone() {
        guard reader.isFinished || phase == .draining, !reader.isServing, batches.waiting == nil, pending.isEmpty,
            subscriptions.isEmpty, !outbound.isPending
        else { return }
        close()
    }

    /// Ends the connection at once. The order of the steps is a contract: a batch was received as a whole, so the rest of
    /// it is started before the requests that only this client waits for are cancelled.
    func close() {
        if phase == .closed { return }
        phase = .closed
        registration.remove(socket, from: loop.epoll)
        Glibc.close(socket)
        outbound.removeAll()
        reader.stop()
        dispatcher.startRestOfBatch()
        cancelUncommitted()
        let ended = pending.connectionClosed()
        loop.traffic.requestsInFlight -= ended.requests
        usage.removeRequests(ended.places, heldBytes: ended.bytes)
        for subscription in subscriptions.sorted { subscription.remove() }
        if metrics.hasAcknowledged { loop.registry.acknowledgements.forget(id) }
        for digest in leases.endAll() { loop.server.images?.cache.release(digest) }
        countHeldBytes()
        loop.registry.users.leave(usage.user)
        loop.remove(self)
    }

    // MARK: Requests

    /// Whether another request may be started now.
    var hasRoomForRequest: Bool {
        phase != .closed && !outbound.isPending && pending.count < usage.limits.requestsInFlightPerConnection
    }

    /// Whether another line may be served now.
    var isGateOpen: Bool { phase == .serving && batches.waiting == nil && hasRoomForRequest }

    /// Answers a pending request.
    func complete(_ ticket: PendingRequests.Ticket, _ result: Result<any WireResult, WireError>) {
        switch pending.complete(ticket) {
        case .unknown: break
        case .orphaned: loop.registry.users.removeOrphanedRequest(usage.user)
        case .answer(let request):
            loop.traffic.requestsInFlight -= 1
            usage.removeRequests(1, heldBytes: request.heldBytes)
            output.complete(request, result)
            output.flush()
            input.resumeRequests()
            closeIfDone()
        }
    }

    /// Cancels the requests that only wait for something, because the agent stops or the client is gone. Committed changes
    /// are carried out.
    private func cancelUncommitted() {
        let reason = WireError(.shuttingDown, "the agent is stopping; ask again once it is back")
        for ticket in pending.tickets(.connection) { pending[ticket]?.cancel(reason) }
    }

    /// All queued output is written: lagging subscriptions get the newest snapshot, and requests are read again.
    func outputDrained() {
        countHeldBytes()
        for subscription in subscriptions.takeLagging() { subscription.catchUp() }
        input.resumeRequests()
        closeIfDone()
    }

    // MARK: Limits

    /// Counts the bytes that are buffered for the client.
    func countHeldBytes() {
        let bytes = phase == .closed ? 0 : outbound.pendingBytes + reader.pendingBytes + batches.heldBytes
        usage.update(heldBytes: bytes)
    }

    /// Why nothing more that is large is buffered for the user; nil if it is. A refusal is counted and logged.
    func refusalOfLargeWork() -> WireError? {
        usage.refusalOfLargeWork().map { loop.count($0, of: principal.credentials) }
    }

    // MARK: The peer

    /// The rights of the peer by the rules in force. They are computed again only when the rules have changed.
    var rights: PeerRights {
        if principal.rights.version != loop.server.rulesVersion {
            principal.rights = loop.rights(of: principal.credentials)
        }
        return principal.rights
    }

    /// Why the peer does not have what a request requires; nil if it has. A denial is logged.
    func denial(of admission: Admission) -> Denial? {
        let server = loop.server
        guard let denial = server.authorizer.decide(admission.requirement, rights) else { return nil }
        server.refusals.addRequest(denial.error, to: admission.method, of: principal.credentials)
        return denial
    }

    func identifyPeer() { principal.identify() }

    /// Metadata for a log line about the connection.
    func logMetadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        principal.identify()
        return principal.credentials.logMetadata(more)
    }
}
