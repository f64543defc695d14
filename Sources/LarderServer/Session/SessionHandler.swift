import JSON
import LarderConfig
import LarderWire
import Logging
import NIOCore

/// One connection: lines in, replies and events out, all on the connection's event loop.
///
/// This file holds the connection's life and its input. Requests are dispatched in `SessionHandler+Requests.swift`,
/// batches of them in `SessionHandler+Batches.swift`, output is written in `SessionHandler+Output.swift`, subscriptions
/// are in `SessionHandler+Subscriptions.swift`, images and their leases in `SessionHandler+Images.swift`.
final class SessionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    let id: Int
    let loop: LoopContext
    let peer: PeerCredentials
    let limits: LimitSettings
    let usage: UserUsage
    private var knownRights: PeerRights
    private let connectedAt: Timestamp
    private(set) var channelContext: ChannelHandlerContext?

    // Input
    var framer: LineFramer
    /// Input that is not looked at yet, because output waits or too many requests are in flight.
    private var heldInput: ByteBuffer?
    /// Whether the channel reads on by itself. While output waits for the client, its requests are not read.
    private var isReading = true
    /// Whether the peer shut down its writing side.
    private var inputEnded = false
    /// Whether the last line was taken too.
    private var inputFinished = false
    /// The batch whose next requests wait for their turn. Nothing behind it is looked at.
    var unstartedBatch: BatchReply?
    /// Whether the agent is stopping: nothing is read any more.
    private(set) var isFinishing = false
    /// Whether the connection is over. It may end while its input is being looked at: at a write that fails.
    private(set) var isClosed = false

    // Requests
    var inFlight: [Int: RequestInFlight] = [:]
    var nextTicket = 0
    /// Those that are carried out although the connection is gone.
    var owed: Set<Int> = []
    /// The length of the line that is being looked at, until a request keeps it.
    var lineBytes = 0
    /// Bytes of the replies to batches that are not complete.
    var batchBytes = 0
    /// What is counted as held for the client.
    var heldBytes = 0

    // Output
    let output: SessionOutput

    // Subscriptions
    var subscriptions: [Int: Subscription] = [:]
    var nextSubscription = 0
    /// Subscriptions that were not offered the newest snapshot because output waited.
    var behind: [Subscription] = []

    // Images
    var leases = ImageLeases()

    /// Whether the client ever said something of a snapshot.
    var hasAcknowledged = false

    private var requests = 0
    private var bytesReceived = 0

    init(id: Int, loop: LoopContext, peer: PeerCredentials, limits: LimitSettings, usage: UserUsage) {
        self.id = id
        self.usage = usage
        self.loop = loop
        self.peer = peer
        self.limits = limits
        knownRights = loop.rights(of: peer)
        framer = LineFramer(maximumLineBytes: limits.lineBytes)
        connectedAt = Timestamp(milliseconds: WallClock.system.now)
        output = SessionOutput()
    }

    // MARK: Life

    func handlerAdded(context: ChannelHandlerContext) {
        channelContext = context
        output.attach(context)
        output.onDrained = { self.outputDrained() }
        loop.add(self)
    }

    func channelInactive(context: ChannelHandlerContext) {
        connectionEnded()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        // A connection that is closed before it became active, because the agent stops, never becomes inactive.
        connectionEnded()
        channelContext = nil
    }

    private func connectionEnded() {
        if isClosed { return }
        isClosed = true
        output.detach()
        heldInput = nil
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

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A peer that went away without reading: nothing that an administrator could act on.
        loop.server.logger.debug("a connection failed", metadata: logMetadata(["error": "\(error)"]))
        context.close(promise: nil)
    }

    /// Takes no more requests; closes once all replies are written and every subscription has had its `end`.
    func finish() {
        if isFinishing { return }
        isFinishing = true
        heldInput = nil
        startRestOfBatch()
        cancelWaiting()
        endSubscriptions(reason: .shutdown)
        flush()
        closeIfDone()
    }

    func close() { channelContext?.close(promise: nil) }

    /// Closes when nothing is left to say.
    func closeIfDone() {
        guard inputFinished || isFinishing, unstartedBatch == nil, inFlight.isEmpty, subscriptions.isEmpty,
            !isOutputPending
        else { return }
        close()
    }

    /// What the peer may do by the rules in force. It was worked out before; to ask for it costs one look at a number.
    var rights: PeerRights {
        if knownRights.version != loop.server.rulesVersion { knownRights = loop.rights(of: peer) }
        return knownRights
    }

    /// The connection as `agent.clients` shows it.
    var description: AgentClients.Client {
        AgentClients.Client(
            id: id, peer: peer.wire, command: peer.command, connectedAt: connectedAt, requests: requests,
            subscriptions: subscriptions.count, bytesReceived: bytesReceived, bytesSent: output.acceptedBytes,
            pendingBytes: output.pendingBytes, acknowledged: acknowledged)
    }

    func logMetadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        var metadata = more
        metadata["peer_pid"] = "\(peer.pid)"
        metadata["peer_uid"] = "\(peer.uid)"
        metadata["peer_command"] = "\(peer.command)"
        return metadata
    }

    // MARK: Input

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var buffer = unwrapInboundIn(data)
        bytesReceived += buffer.readableBytes
        loop.traffic.bytesReceived += buffer.readableBytes
        if isFinishing { return }
        if heldInput != nil {
            heldInput?.writeBuffer(&buffer)
            return
        }
        // An event that waits for the client may have come in between.
        if isReady { take(&buffer) }
        if buffer.readableBytes > 0, !isClosed { heldInput = buffer }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // The last handler of its pipeline: nobody waits for the event behind it.
        flush()
        if !isReady { setReading(false) }
        closeIfDone()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent {
            inputEnded = true
            finishInput()
            flush()
            closeIfDone()
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Goes on with input that had to wait.
    func resumeInput() {
        guard !isFinishing else { return }
        if unstartedBatch != nil {
            startBatch()
            flush()
        }
        guard isReady else { return }
        if var held = heldInput {
            heldInput = nil
            take(&held)
            if held.readableBytes > 0, !isClosed { heldInput = held }
            flush()
        }
        finishInput()
        flush()
        setReading(isReady && heldInput == nil)
    }

    private func setReading(_ isWanted: Bool) {
        guard isWanted != isReading, let options = channelContext?.channel.syncOptions else { return }
        isReading = isWanted
        // It fails only for a channel that is closed.
        try? options.setOption(.autoRead, value: isWanted)
    }

    /// Whether another line may be taken now.
    private var isReady: Bool { unstartedBatch == nil && isRoomForRequest }

    /// Whether another request may be started now.
    var isRoomForRequest: Bool {
        !isClosed && !isOutputPending && inFlight.count < limits.requestsInFlightPerConnection
    }

    private func take(_ buffer: inout ByteBuffer) {
        let taken = buffer.withUnsafeReadableBytes { bytes in
            framer.receive(bytes) { output in
                handle(output)
                return isReady && !isFinishing
            }
        }
        buffer.moveReaderIndex(forwardBy: taken)
        refuseLineIfTooMuch()
        countHeldBytes()
    }

    private func finishInput() {
        guard inputEnded, !inputFinished, isReady, heldInput == nil else { return }
        inputFinished = true
        framer.finish { output in
            handle(output)
            return true
        }
    }

    private func handle(_ output: LineFramer.Output) {
        switch output {
        case .line(let bytes):
            requests += 1
            handleLine(bytes)
        case .tooLong:
            loop.traffic.refused.lines += 1
            let limit = limits.lineBytes
            refuse(
                WireError(
                    .lineTooLong, "a line may have \(limit) bytes; this one was dropped up to its line end"))
        }
        flushIfLarge()
    }
}
