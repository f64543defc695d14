import Glibc
import LarderConfig
import LarderConfigModel
import LarderEventLoop
import LarderImages
import LarderPlatform
import LarderProtocol
import Logging
import NIOCore

/// A client connection. Used on its event loop only.
///
/// ``SocketReader``, which owns the input, and ``RequestDispatcher`` start the requests. They use the connection, and the
/// connection reaches them only as its ``ConnectionDriver``. ``RequestRunner`` and ``ReplyWriter`` complete the requests.
/// Each of the two is the only one to use its part of the state: ``PendingRequests`` and an ``OutboundQueue``, which are
/// values that perform no I/O. So are the other parts: ``ConnectionSubscriptions``, ``ImageLeases``, ``ConnectionUsage``
/// (limits) and ``Principal`` (the peer and its rights).
final class Connection {
    enum Phase {
        case serving
        /// No further requests are accepted. The connection closes after the last reply.
        case draining
        case closed
    }

    private struct State {
        var phase = Phase.serving
        var registration = SocketRegistration()
        var usage: ConnectionUsage
        var principal: Principal
        var hasAcknowledged = false
        /// The number of lines that were only a request of `agent.ping` or `agent.metrics`.
        var monitoringLines = 0
    }

    let id: Int
    let loop: LoopContext
    /// The connected socket. It is closed when the connection closes.
    let socket: CInt
    let connectedAt = Timestamp(milliseconds: WallClock.system.now)
    // A release build does not check for overlapping accesses to the following four properties. A request makes about 25
    // accesses, and each check takes 63 instructions. The checks are not needed: only the event loop uses the properties,
    // and code that changes one of them does not call code that could access it. Debug builds, which the tests use, do
    // check.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var state: State
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var requestState = RequestRunner.State()
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var outputState = ReplyWriter.State()
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var leases = ImageLeases()
    var subscriptions = ConnectionSubscriptions()
    /// Nil after the connection was closed, which ends the reference cycle.
    private var driver: (any ConnectionDriver)?

    var phase: Phase { state.phase }

    var requests: RequestRunner { RequestRunner(connection: self) }
    var output: ReplyWriter { ReplyWriter(connection: self) }
    var writer: SocketWriter { SocketWriter(socket: socket) }

    /// Takes ownership of a connected socket.
    /// - Parameter user: the resource usage of the connection's user, which already includes this connection
    init(id: Int, loop: LoopContext, socket: CInt, peer: PeerCredentials, limits: ConnectionLimits, user: UserUsage) {
        self.id = id
        self.loop = loop
        self.socket = socket
        state = State(
            usage: ConnectionUsage(limits: limits, user: user),
            principal: Principal(peer, rights: loop.rights(of: peer)))
    }

    // MARK: Life

    /// Sets the driver of the connection. Called once, before the connection is served.
    func attach(_ driver: any ConnectionDriver) { self.driver = driver }

    /// Reports the events of the socket to a target from now on. Closes the connection if that is not possible.
    func report(to target: EpollTarget) {
        do {
            try state.registration.add(socket, of: target, to: loop.epoll)
        } catch {
            loop.server.logger.warning(
                "cannot watch the socket of a new connection; the connection was closed",
                metadata: logMetadata(["error": "\(error)"]))
            close()
        }
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
        driver?.stop()
        requests.cancelAll()
        for subscription in subscriptions.sorted { subscription.end(.shutdown) }
        output.flush()
        closeIfDone()
    }

    /// Closes the connection if no request, subscription or output is outstanding, and either the connection is
    /// draining or all its input has been served.
    func closeIfDone() {
        guard requests.count == 0, subscriptions.isEmpty, !output.isPending, let driver, !driver.isStarting,
            state.phase == .draining || driver.isInputFinished
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
        output.close()
        driver?.stop()
        requests.cancelAll()
        requests.close()
        for subscription in subscriptions.sorted { subscription.remove() }
        if state.hasAcknowledged { loop.registry.acknowledgements.forget(id) }
        leasesEnded(leases.endAll())
        chargeBufferedBytes()
        loop.registry.users.leave(state.usage.user)
        driver.take()?.connectionClosed()
    }

    // MARK: Requests

    /// Whether another request may be started now.
    var hasRoomForRequest: Bool {
        state.phase != .closed && !output.isPending
            && requests.count < state.usage.limits.requestsInFlightPerConnection
    }

    /// The numbers of lines served and of bytes received; zeros for a closed connection.
    var received: (lines: Int, bytes: Int) { driver?.received ?? (0, 0) }

    /// Records a line that is only a request of `agent.ping` or `agent.metrics`.
    func servedMonitoring() { state.monitoringLines += 1 }

    /// Whether the client has only monitored the agent, so that its connection does not keep an idle agent running.
    /// - Parameter lines: the number of lines that were served
    func isMonitoring(lines: Int) -> Bool { lines > 0 && lines == state.monitoringLines }

    /// Continues with requests that waited because too many others were pending, or because output was pending.
    func resumeRequests() { driver?.resumeRequests() }

    /// Executes the requests that the peer has sent before it disconnected, then closes the connection.
    func hangUp() { driver?.hangUp() }

    /// Called when output begins to wait until the socket has room.
    func outputWaits() { driver?.outputWaits() }

    /// Called when all queued output was written. Subscriptions that missed a snapshot get the newest one, and reading
    /// resumes.
    func outputDrained() {
        chargeBufferedBytes()
        for subscription in subscriptions.takeLagging() { subscription.catchUp() }
        resumeRequests()
        closeIfDone()
    }

    // MARK: Limits

    /// The resources that the connection uses.
    var usage: ConnectionUsage { state.usage }

    /// Charges the user for the bytes that are buffered for this connection.
    func chargeBufferedBytes() {
        let bytes =
            state.phase == .closed
            ? 0 : output.pendingBytes + output.batchBytes + (driver?.bufferedBytes ?? 0)
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

    /// Runs `body`, which writes a reply for which memory is reserved. The reply takes the place of the reservation.
    func replacing(_ reservation: ReplyReservation?, _ body: () -> Void) {
        state.usage.replacedBytes = reservation?.bytes ?? 0
        body()
        state.usage.replacedBytes = 0
        // The reply is written or queued, and its queued bytes are charged.
        withExtendedLifetime(reservation) {}
    }

    // MARK: Acknowledgements and leases

    /// Whether the client has acknowledged a snapshot.
    var hasAcknowledged: Bool { state.hasAcknowledged }

    /// Records that the client has acknowledged a snapshot.
    func acknowledged() { state.hasAcknowledged = true }

    /// Ends a lease on an image, if the connection has it.
    func endLease(_ number: Int) {
        if let digest = leases.release(number).released { leasesEnded([digest]) }
    }

    /// Releases the references and the places of image leases that have ended.
    func leasesEnded(_ blobs: [BlobDigest]) {
        if blobs.isEmpty { return }
        state.usage.user.removeLeases(blobs.count)
        for blob in blobs { loop.server.images?.view.release(blob) }
    }

    // MARK: The peer

    /// The peer.
    var credentials: PeerCredentials { state.principal.credentials }

    /// Whether the peer has all rights.
    var isPeerTrusted: Bool { state.principal.credentials.isTrusted }

    /// Whether the peer may store images and therefore pass descriptors.
    var mayPassDescriptors: Bool { state.principal.mayPassDescriptors }

    /// Reads the name of the peer's process unless the name is known.
    func identifyPeer() { state.principal.identify() }

    /// The peer, for the provenance of a change.
    var author: Peer {
        state.principal.identifyLogin()
        return state.principal.credentials.provenance
    }

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

    /// Reviews the connection after a change of the access rules: ends the subscriptions and cancels the requests for
    /// which its peer has lost the rights. Requests with the lifetime ``PendingRequests/Lifetime/committed`` continue.
    func reviewAccess() {
        for subscription in subscriptions.sorted {
            let denial = denial(of: .inNamespace(.read, subscription.namespace), by: subscription.method)
            // The denial `unknownNamespace` means that the namespace was removed. The removal itself ends the
            // subscription.
            if let denial, denial.isDenied { subscription.end(.denied) }
        }
        requests.reviewAccess()
        output.flush()
    }

    /// Metadata for a log line about the connection.
    func logMetadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        state.principal.identify()
        return state.principal.credentials.logMetadata(more)
    }
}

/// The part of a connection that reads its requests and starts them, as the connection sees it. No call is made for a
/// cached reply or an event.
protocol ConnectionDriver: AnyObject {
    /// Whether all input has been served.
    var isInputFinished: Bool { get }
    /// Whether requests are being started, or requests of a batch wait to be started.
    var isStarting: Bool { get }
    /// The number of buffered bytes of lines and batches that are incomplete or wait.
    var bufferedBytes: Int { get }
    /// The numbers of lines served and of bytes received.
    var received: (lines: Int, bytes: Int) { get }

    /// Drops input that was not served, and takes the remaining requests from a waiting batch, because the agent stops
    /// or the connection is closed.
    func stop()
    /// Continues with requests that waited because too many others were pending, or because output was pending.
    func resumeRequests()
    /// Executes the requests that the peer has sent before it disconnected, then closes the connection.
    func hangUp()
    /// Called when output begins to wait until the socket has room.
    func outputWaits()
    /// Called once, when the connection was closed.
    func connectionClosed()
}

/// A subscription, as its connection sees it.
protocol ConnectionSubscription: AnyObject {
    var id: Int { get }
    var namespace: String { get }
    /// The method that started the subscription.
    var method: String { get }
    /// Sends the newest snapshot if the subscription missed it while output was pending.
    func catchUp()
    /// Removes the subscription and sends an `end` event to the client.
    func end(_ reason: ConfigEvent.Reason)
    /// Removes the subscription without an event.
    func remove()
}

/// The open subscriptions of one connection.
struct ConnectionSubscriptions {
    private var subscriptions: [Int: any ConnectionSubscription] = [:]
    private var lastID = 0
    /// Subscriptions that missed the newest snapshot because output was pending.
    private var lagging: [any ConnectionSubscription] = []

    var count: Int { subscriptions.count }
    var isEmpty: Bool { subscriptions.isEmpty }
    /// The number of subscriptions that missed the newest snapshot.
    var laggingCount: Int { lagging.count }

    /// The subscriptions in the order in which they were opened.
    var sorted: [any ConnectionSubscription] { isEmpty ? [] : subscriptions.values.sorted { $0.id < $1.id } }

    subscript(id: Int) -> (any ConnectionSubscription)? { subscriptions[id] }

    /// Returns an id that the connection has not used before.
    mutating func nextID() -> Int {
        lastID += 1
        return lastID
    }

    mutating func add(_ subscription: any ConnectionSubscription) { subscriptions[subscription.id] = subscription }

    /// - Returns: false if the subscription was removed earlier
    mutating func remove(_ subscription: any ConnectionSubscription) -> Bool {
        guard subscriptions.removeValue(forKey: subscription.id) != nil else { return false }
        lagging.removeAll { $0 === subscription }
        return true
    }

    mutating func addLagging(_ subscription: any ConnectionSubscription) { lagging.append(subscription) }

    /// Removes and returns the lagging subscriptions.
    mutating func takeLagging() -> [any ConnectionSubscription] {
        defer { lagging = [] }
        return lagging
    }
}

/// The registration of a connection's socket with the epoll instance of its loop.
struct SocketRegistration {
    private var isRegistered = false
    /// The events that are watched for.
    private var interest: EpollEvents = [.readable, .inputEnded, .onEdges]

    mutating func add(_ socket: CInt, of target: EpollTarget, to epoll: Epoll) throws(EpollError) {
        try epoll.add(socket, interest, target)
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
