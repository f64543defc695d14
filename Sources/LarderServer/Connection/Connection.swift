import LarderEventLoop
import CLinuxShims
import LarderJSON
import LarderConfig
import LarderPlatform
import LarderProtocol
import Logging
import NIOCore
import Glibc

/// One connection: lines in, replies and events out, all on the connection's event loop.
///
/// This file holds the connection's life; its input is in `Connection+Input.swift`. Requests are dispatched in
/// `Connection+Requests.swift`, batches of them in `Connection+Batches.swift`, output is written in `Connection+Output.swift`,
/// subscriptions are in `Connection+Subscriptions.swift`, images and their leases in `Connection+Images.swift`, images that clients
/// bring in `Connection+Puts.swift`.
final class Connection: EpollTarget {
    let id: Int
    let loop: LoopContext
    private(set) var peer: PeerCredentials
    let limits: ConnectionLimits
    let usage: UserUsage
    private var knownRights: PeerRights
    private let connectedAt: Timestamp
    /// Closed when the connection ends.
    let socket: CInt
    private var isWatched = false
    private var waitsUntilWritable = false

    // Input
    var framer: LineFramer
    /// Whether they are received; by the rights that were checked last.
    private(set) var takesDescriptors: Bool
    /// Input that is not looked at yet, because output waits or too many requests are in flight.
    var heldInput: ByteBuffer?
    /// Whether the socket may have more than was read: the kernel tells it once.
    var hasInput = true
    /// Whether the peer has shut down its writing side: what is left is read to its end.
    var willEnd = false
    /// Whether the rest of what came was left for later.
    var willGoOn = false
    /// Whether the peer is gone altogether: the connection ends with what it sent.
    var isGone = false
    /// Whether all was read that the peer sent before it shut down its writing side.
    var inputEnded = false
    /// Whether the last line was taken too.
    var inputFinished = false
    /// The batch whose next requests wait for their turn. Nothing behind it is looked at.
    var unstartedBatch: BatchReply?
    /// Whether the agent is stopping: nothing is read any more.
    private(set) var isFinishing = false
    /// Whether the connection is over.
    private(set) var isClosed = false

    // Requests
    var inFlight: [Int: PendingRequest] = [:]
    var nextTicket = 0
    /// Those that are carried out although the connection is gone.
    var owed: Set<Int> = []
    /// The length of the line that is being looked at, until a request keeps it.
    var lineBytes = 0
    /// Bytes of the unfinished line as they were counted last. A line counts until it was served.
    var unfinishedBytes = 0
    /// Bytes of the replies to batches that are not complete.
    var batchBytes = 0
    /// What is counted as held for the client.
    var heldBytes = 0

    // Output
    var output: OutboundQueue
    /// Whether nobody takes what is written any more.
    var isBroken = false
    /// How long the next wait for descriptors is, while the kernel allows no more.
    var retryPause: TimeAmount?
    /// Whether the loop looks after it because output waits, or waited a moment ago.
    var isWatchedForStalls = false

    // Subscriptions
    var subscriptions: [Int: Subscription] = [:]
    var nextSubscription = 0
    /// Subscriptions that were not offered the newest snapshot because output waited.
    var behind: [Subscription] = []

    // Images
    var leases = ImageLeases()
    /// Descriptors that came with input; nil as long as none came.
    var passedFiles: PassedFiles?

    /// Whether the client ever said something of a snapshot.
    var hasAcknowledged = false

    var requests = 0
    var bytesReceived = 0

    /// Takes a connected socket over.
    /// - Parameter usage: what its user has in use, this connection included; it is counted out when it ends.
    init(
        id: Int, loop: LoopContext, socket: CInt, peer: PeerCredentials, limits: ConnectionLimits, usage: UserUsage
    ) {
        self.id = id
        self.usage = usage
        self.loop = loop
        self.socket = socket
        self.peer = peer
        self.limits = limits
        knownRights = loop.rights(of: peer)
        takesDescriptors = Self.takesDescriptors(knownRights, loop.server)
        framer = LineFramer(maximumLineBytes: limits.lineBytes)
        connectedAt = Timestamp(milliseconds: WallClock.system.now)
        output = OutboundQueue(socket: socket)
    }

    // MARK: Life

    /// Begins to serve. The client has often sent its first request by now.
    func start() {
        loop.add(self)
        read()
        guard !isClosed else { return }
        do {
            try loop.epoll.add(socket, interest, self)
            isWatched = true
        } catch {
            loop.server.logger.warning("a connection was refused", metadata: logMetadata(["error": "\(error)"]))
            close()
        }
    }

    override func ready(_ events: EpollEvents) {
        // Before output goes on, so that requests that waited for it and what has come since are one turn, not two.
        hasInput = true
        if events.contains(.writable) { continueOutput() }
        if isClosed { return }
        if !events.isDisjoint(with: .hungUp) { return hangUp() }
        if events.contains(.inputEnded) { willEnd = true }
        readInTurn()
    }

    private var interest: EpollEvents {
        waitsUntilWritable ? [.readable, .inputEnded, .onEdges, .writable] : [.readable, .inputEnded, .onEdges]
    }

    /// Has the loop tell when the socket takes bytes. Nobody asks as long as the client keeps up: it would be told after
    /// each reply that is read.
    func waitUntilWritable(_ isWanted: Bool) {
        guard isWanted != waitsUntilWritable else { return }
        waitsUntilWritable = isWanted
        if isWatched { loop.epoll.change(socket, to: interest) }
    }

    /// Ends the connection at once.
    func close() {
        if isClosed { return }
        isClosed = true
        if isWatched { loop.epoll.forget(socket) }
        Glibc.close(socket)
        output.removeAll()
        heldInput = nil
        passedFiles?.received.removeAll()
        // A batch was received completely, as a single request is.
        startRestOfBatch()
        // What a client handed over is done even if it did not wait for the reply; what only it waited for is not.
        cancelWaiting()
        loop.traffic.requestsInFlight -= inFlight.count
        for request in inFlight.values { request.deadline?.cancel() }
        endFlights()
        inFlight.removeAll()
        endSubscriptions(reason: nil)
        forgetAcknowledgements()
        endLeases()
        countHeldBytes()
        loop.registry.users.leave(usage)
        loop.remove(self)
    }

    /// Takes no more requests; closes once all replies are written and every subscription has had its `end`.
    func finish() {
        if isFinishing { return }
        isFinishing = true
        heldInput = nil
        passedFiles?.received.removeAll()
        startRestOfBatch()
        cancelWaiting()
        endSubscriptions(reason: .shutdown)
        flush()
        closeIfDone()
    }

    /// Closes when nothing is left to say.
    func closeIfDone() {
        guard inputFinished || isFinishing, unstartedBatch == nil, inFlight.isEmpty, subscriptions.isEmpty,
            !isOutputPending
        else { return }
        close()
    }

    /// What the peer may do by the rules in force. It was worked out before; to ask for it costs one look at a number.
    var rights: PeerRights {
        if knownRights.version != loop.server.rulesVersion {
            knownRights = loop.rights(of: peer)
            takesDescriptors = Self.takesDescriptors(knownRights, loop.server)
        }
        return knownRights
    }

    /// The connection as `agent.clients` shows it.
    var description: AgentClients.Client {
        identifyPeer()
        return AgentClients.Client(
            id: id, peer: peer.wire, command: peer.command, connectedAt: connectedAt, requests: requests,
            subscriptions: subscriptions.count, bytesReceived: bytesReceived, bytesSent: output.acceptedBytes,
            pendingBytes: output.pendingBytes, acknowledged: acknowledged)
    }

    func logMetadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        identifyPeer()
        var metadata = more
        metadata["peer_pid"] = "\(peer.pid)"
        metadata["peer_uid"] = "\(peer.uid)"
        metadata["peer_command"] = "\(peer.command)"
        return metadata
    }

    /// Learns the name of the peer's process, which takes three system calls: for the usual request nobody asks.
    func identifyPeer() {
        if peer.knownCommand == nil { peer.knownCommand = PeerCredentials.command(of: peer.pid) }
    }
}
