import Logging
import CLinuxShims
import Glibc
import LarderEventLoop
import LarderImages
import LarderPlatform
import LarderProtocol
import NIOCore

/// Reads the socket of a connection as its ``RequestReader`` decides, and dispatches the lines. Receives the events of the
/// socket.
///
/// A connection reads once, serves as much as its time slice permits, and defers the rest. So a client that sends much
/// or often does not delay the other connections of its loop.
///
/// A descriptor that arrives with input is received if the client may store images. Otherwise the kernel closes it
/// (``ReceivedDescriptors``). In both cases recvmsg(2) returns only the bytes up to the end of those sent with the
/// descriptor.
final class SocketReader: EpollTarget, ConnectionDriver {
    let connection: Connection
    let loop: LoopContext
    /// The server of the event loop.
    let server: LoopServer
    // A release build does not check for overlapping accesses to the following three properties, as in ``Connection``.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var reader: RequestReader
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    var dispatcherState = RequestDispatcher.State()
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private(set) var received = (lines: 0, bytes: 0)

    private var dispatcher: RequestDispatcher { RequestDispatcher(reader: self) }

    /// Whether the rest of the input is deferred until other connections have been served.
    var isResumeScheduled: Bool { reader.isResumeScheduled }
    /// The descriptors that arrived with input; nil if none has arrived.
    var descriptors: ReceivedDescriptors? { reader.descriptors }
    /// Whether another line may be served now.
    private var isGateOpen: Bool {
        connection.phase == .serving && !dispatcher.isBatchWaiting && connection.hasRoomForRequest
    }

    /// Takes ownership of a connected socket.
    /// - Parameter user: the resource usage of the connection's user, which already includes this connection
    init(
        id: Int, server: LoopServer, socket: CInt, peer: PeerCredentials, limits: ConnectionLimits, user: UserUsage
    ) {
        self.server = server
        loop = server.loop
        connection = Connection(id: id, loop: loop, socket: socket, peer: peer, limits: limits, user: user)
        reader = RequestReader(maximumLineBytes: limits.lineBytes)
        super.init()
        connection.attach(self)
    }

    /// Starts to serve the connection. Reads the socket before registering it with epoll, because the client has often
    /// sent its first request by then.
    func start() {
        server.add(connection)
        serve()
        if connection.phase != .closed { connection.report(to: self) }
    }

    // MARK: The driver of the connection

    var isInputFinished: Bool { reader.isFinished }
    var isStarting: Bool { reader.isServing || dispatcher.isBatchWaiting }
    var bufferedBytes: Int { reader.pendingBytes + dispatcher.bufferedBytes }

    func stop() {
        reader.stop()
        dispatcher.stop()
    }

    func outputWaits() { server.stalls.watch(connection) }

    func connectionClosed() { server.remove(connection, lines: received.lines) }

    // MARK: Events

    override func ready(_ events: EpollEvents) {
        reader.socketBecameReady()
        // Pending output is written first, so that requests that waited for the output to drain share a time slice with
        // requests that have just arrived.
        if events.contains(.writable) { connection.output.resume() }
        if connection.phase == .closed { return }
        if !events.isDisjoint(with: .hungUp) { return hangUp() }
        serveArrived(hasEnded: events.contains(.inputEnded))
    }

    /// Serves the input that has arrived.
    /// - Parameter hasEnded: whether the peer has shut down its sending side
    private func serveArrived(hasEnded: Bool) {
        if hasEnded { reader.peerHalfClosed() }
        reader.deferLongLine()
        serve()
    }

    /// Reads and serves until the reader has to wait, then writes the replies.
    private func serve() {
        steps: while connection.phase != .closed {
            switch reader.nextAction(isGateOpen: isGateOpen) {
            case .wait: break steps
            case .read(let maxBytes): read(maxBytes)
            case .serveBacklog: serveBacklog()
            case .serveLastLine:
                serving { if let line = reader.takeLastLine() { serve(line) } }
                reader.descriptors?.removeAll()
            case .deferRest:
                deferRest()
                break steps
            case .close:
                connection.output.flush()
                return connection.close()
            }
        }
        connection.output.flush()
        if reader.isFinished || connection.phase == .draining { connection.closeIfDone() }
    }

    /// Schedules the connection to continue after the other connections of the loop have been served.
    func deferRest() {
        if reader.isResumeScheduled { return }
        reader.resumeScheduled()
        loop.deferWork { [self] in
            reader.resumed()
            loop.beginDeferredSlice()
            if connection.phase == .closed { return }
            let hasRequests = reader.backlog != nil || dispatcher.isBatchWaiting
            if hasRequests { resumeRequests() } else { serve() }
        }
    }

    /// Continues with requests that waited because too many others were pending, because output was pending, or because
    /// the time slice ended.
    func resumeRequests() {
        guard connection.phase == .serving, !reader.isResumeScheduled, !reader.isServing else { return }
        loop.beginLongSlice()
        reader.gateOpened()
        if dispatcher.isBatchWaiting {
            serving { dispatcher.startBatch() }
            connection.output.flush()
        }
        serve()
    }

    /// Executes the requests that a disconnected peer has sent, as far as that is possible without waiting, then closes
    /// the connection. If many peers disconnect at once, connections that are still open are served first.
    func hangUp() {
        if connection.phase == .closed { return }
        if reader.isResumeScheduled { return reader.peerHungUp(isSliceOver: false) }
        loop.beginSlice()
        reader.peerHungUp(isSliceOver: loop.isSliceOver)
        serve()
    }

    private func read(_ maxBytes: Int) {
        loop.beginSlice()
        let buffer = UnsafeMutableRawBufferPointer(rebasing: loop.input[..<maxBytes])
        var passed = larder_passed()
        let count = larder_receive(
            connection.socket, buffer.baseAddress, buffer.count, mayTakeDescriptor, &passed)
        let hasPassed = passed.is_cut || passed.descriptor >= 0
        if hasPassed { receive(passed) }
        switch count {
        case 1...:
            received.bytes += count
            loop.traffic.bytesReceived += count
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            let served = serveLines(bytes)
            if served < count, connection.phase == .serving {
                keep(ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: bytes[served...])))
            }
            reader.endInputOfDescriptors()
            // The kernel reports only input that arrives after this read, not input that is already in the socket. The
            // reader therefore records whether the socket may have more now.
            reader.didRead(mayHaveMore: count == buffer.count || hasPassed)
        case 0: reader.inputEnded()
        default: readFailed(errno)
        }
    }

    /// Whether to receive a descriptor that arrives with the next input.
    private var mayTakeDescriptor: Bool {
        loop.server.images != nil && connection.mayPassDescriptors
            && reader.descriptors?.hasRoom ?? true
            && (connection.isPeerTrusted
                || connection.usage.user.hasRoomForFile(connection.usage.limits))
    }

    /// Keeps a descriptor until the lines that it may belong to have been served.
    private func receive(_ passed: larder_passed) {
        guard let images = loop.server.images, connection.mayPassDescriptors else { return }
        let descriptors = reader.descriptors(of: connection.usage.user)
        guard passed.descriptor >= 0 else { return descriptors.add(.lost) }
        let files = descriptors.openFiles
        files.add()
        let (blocking, closer) = (images.blocking, images.closer)
        let file = PassedInFile(passed.descriptor) { descriptor in
            guard PassedInFile.isInMemory(descriptor) else { return closer.close(descriptor) { files.remove() } }
            // Closing a file in memory may free much memory. That takes time, so it is not done on the event loop.
            blocking.submit {
                Glibc.close(descriptor)
                files.remove()
            }
        }
        descriptors.add(passed.is_cut ? .several : .file(file))
    }

    private func readFailed(_ error: CInt) {
        switch error {
        case EINTR, ECONNRESET: reader.readWasInterrupted()
        case EAGAIN: reader.socketIsEmpty()
        default:
            // The peer disconnected without reading. Administrators cannot act on this, so it is logged at debug level.
            loop.server.logger.debug(
                "a connection failed",
                metadata: connection.logMetadata(["error": "\(String(cString: strerror(error)))"]))
            connection.close()
        }
    }

    private func serveBacklog() {
        guard var bytes = reader.takeBacklog() else { return }
        bytes.moveReaderIndex(forwardBy: bytes.withUnsafeReadableBytes { serveLines($0) })
        if bytes.readableBytes > 0, connection.phase == .serving { keep(bytes) }
        reader.endInputOfDescriptors()
        connection.output.flush()
    }

    private func keep(_ rest: ByteBuffer) {
        reader.keep(rest, isGateOpen: isGateOpen)
    }

    /// Serves the complete lines of the input until the gate closes or the time slice ends.
    /// - Returns: the number of bytes served
    private func serveLines(_ bytes: UnsafeRawBufferPointer) -> Int {
        let pendingBytes = reader.pendingBytes
        var offset = 0
        serving {
            while let line = reader.nextLine(in: bytes, at: &offset) {
                let isCostly = serve(line)
                reader.descriptors?.endLine()
                if !isGateOpen || (isCostly && loop.isSliceOver) { break }
            }
        }
        if reader.pendingBytes != pendingBytes { countUnfinishedLine() }
        return offset
    }

    /// Runs `body`, which serves lines. A request that completes while `body` runs neither resumes reading nor closes
    /// the connection.
    private func serving(_ body: () -> Void) {
        reader.isServing = true
        body()
        reader.isServing = false
    }

    /// Charges the user for the bytes of an incomplete line. Drops the line if it is large and too much is buffered for
    /// the user.
    private func countUnfinishedLine() {
        if reader.pendingBytes > UserUsage.largeBytes, let error = connection.refusalOfLargeWork() {
            reader.dropUnfinishedLine()
            connection.output.refuse(error)
        }
        connection.chargeBufferedBytes()
    }

    /// Serves a line.
    /// - Returns: whether serving the line took longer than sending a cached reply
    @discardableResult
    private func serve(_ line: consuming LineFramer.Line) -> Bool {
        defer { connection.output.flushIfLarge() }
        switch consume line {
        case .whole(let bytes):
            received.lines += 1
            return dispatcher.dispatch(bytes)
        case .assembled(let bytes):
            received.lines += 1
            let isCostly = bytes.withUnsafeBytes { dispatcher.dispatch($0) }
            reader.didServe(bytes)
            return isCostly
        case .tooLong:
            loop.traffic.refused.lines += 1
            let limit = connection.usage.limits.lineBytes
            connection.output.refuse(
                WireError(
                    .lineTooLong,
                    "the line has more than \(limit) bytes (limits.lineBytes); it was discarded up to its line end"))
            return true
        }
    }
}
