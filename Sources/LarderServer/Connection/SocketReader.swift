import Logging
import CLinuxShims
import Glibc
import LarderImages
import LarderPlatform
import LarderProtocol
import NIOCore

/// Reads the socket of a connection as its ``RequestReader`` decides, and dispatches the lines.
///
/// A connection reads once, serves as much as its time slice permits, and defers the rest. So a client that sends much
/// or often does not delay the other connections of its loop.
///
/// A descriptor that arrives with input is received if the client may store images. Otherwise the kernel closes it
/// (``ReceivedDescriptors``). In both cases recvmsg(2) returns only the bytes up to the end of those sent with the
/// descriptor.
struct SocketReader {
    /// The input of a connection. Only ``SocketReader`` changes it.
    struct State {
        fileprivate var reader: RequestReader
        /// The number of lines served.
        fileprivate(set) var lines = 0
        fileprivate(set) var bytesReceived = 0

        init(maximumLineBytes: Int) { reader = RequestReader(maximumLineBytes: maximumLineBytes) }
    }

    let connection: Connection

    private var loop: LoopContext { connection.loop }

    /// Whether lines are being served. A request that completes during that time does not resume reading.
    var isServing: Bool { connection.inputState.reader.isServing }
    /// Whether all input has been served.
    var isFinished: Bool { connection.inputState.reader.isFinished }
    /// Whether the rest of the input is deferred until other connections have been served.
    var isResumeScheduled: Bool { connection.inputState.reader.isResumeScheduled }
    /// The number of buffered bytes of a line that arrived in pieces and is incomplete or being served.
    var pendingBytes: Int { connection.inputState.reader.pendingBytes }

    /// Drops input that was not served, and received descriptors, because the connection ends.
    func stop() { connection.inputState.reader.stop() }

    /// Removes and returns the descriptor of the line that is being served; nil if none arrived with it.
    func takeDescriptor() -> ReceivedDescriptors.Passed? { connection.inputState.reader.descriptors?.take() }

    // MARK: Events

    /// Records that the socket has input, or that its input has ended.
    func socketBecameReady() { connection.inputState.reader.socketBecameReady() }

    /// Serves the input that has arrived.
    /// - Parameter hasEnded: whether the peer has shut down its sending side
    func serveArrived(hasEnded: Bool) {
        if hasEnded { connection.inputState.reader.peerHalfClosed() }
        connection.inputState.reader.deferLongLine()
        serve()
    }

    /// Reads and serves until the reader has to wait, then writes the replies.
    func serve() {
        steps: while connection.phase != .closed {
            switch connection.inputState.reader.nextAction(isGateOpen: connection.isGateOpen) {
            case .wait: break steps
            case .read(let maxBytes): read(maxBytes)
            case .serveBacklog: serveBacklog()
            case .serveLastLine:
                serving { if let line = connection.inputState.reader.takeLastLine() { serve(line) } }
                connection.inputState.reader.descriptors?.removeAll()
            case .deferRest:
                deferRest()
                break steps
            case .close:
                connection.output.flush()
                return connection.close()
            }
        }
        connection.output.flush()
        connection.closeIfDone()
    }

    /// Schedules the connection to continue after the other connections of the loop have been served.
    func deferRest() {
        if connection.inputState.reader.isResumeScheduled { return }
        connection.inputState.reader.resumeScheduled()
        loop.deferWork { [connection] in
            connection.inputState.reader.resumed()
            connection.loop.beginDeferredSlice()
            if connection.phase == .closed { return }
            let hasRequests = connection.inputState.reader.backlog != nil || connection.dispatcher.isBatchWaiting
            if hasRequests { connection.input.resumeRequests() } else { connection.input.serve() }
        }
    }

    /// Continues with requests that waited because too many others were pending, because output was pending, or because
    /// the time slice ended.
    func resumeRequests() {
        guard connection.phase == .serving, !connection.inputState.reader.isResumeScheduled,
            !connection.inputState.reader.isServing
        else { return }
        loop.beginLongSlice()
        connection.inputState.reader.gateOpened()
        if connection.dispatcher.isBatchWaiting {
            serving { connection.dispatcher.startBatch() }
            connection.output.flush()
        }
        serve()
    }

    /// Executes the requests that a disconnected peer has sent, as far as that is possible without waiting, then closes
    /// the connection. If many peers disconnect at once, connections that are still open are served first.
    func hangUp() {
        if connection.phase == .closed { return }
        if connection.inputState.reader.isResumeScheduled {
            return connection.inputState.reader.peerHungUp(isSliceOver: false)
        }
        loop.beginSlice()
        connection.inputState.reader.peerHungUp(isSliceOver: loop.isSliceOver)
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
            connection.inputState.bytesReceived += count
            loop.traffic.bytesReceived += count
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            let served = serveLines(bytes)
            if served < count, connection.phase == .serving {
                keep(ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: bytes[served...])))
            }
            connection.inputState.reader.endInputOfDescriptors()
            // The kernel reports only input that arrives after this read, not input that is already in the socket. The
            // reader therefore records whether the socket may have more now.
            connection.inputState.reader.didRead(mayHaveMore: count == buffer.count || hasPassed)
        case 0: connection.inputState.reader.inputEnded()
        default: readFailed(errno)
        }
    }

    /// Whether to receive a descriptor that arrives with the next input.
    private var mayTakeDescriptor: Bool {
        loop.server.images != nil && connection.mayPassDescriptors
            && connection.inputState.reader.descriptors?.hasRoom ?? true
            && (connection.isPeerTrusted
                || connection.usage.user.hasRoomForFile(connection.usage.limits))
    }

    /// Keeps a descriptor until the lines that it may belong to have been served.
    private func receive(_ passed: larder_passed) {
        guard let images = loop.server.images, connection.mayPassDescriptors else { return }
        let descriptors = connection.inputState.reader.descriptors(of: connection.usage.user)
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
        case EINTR, ECONNRESET: connection.inputState.reader.readWasInterrupted()
        case EAGAIN: connection.inputState.reader.socketIsEmpty()
        default:
            // The peer disconnected without reading. Administrators cannot act on this, so it is logged at debug level.
            loop.server.logger.debug(
                "a connection failed",
                metadata: connection.logMetadata(["error": "\(String(cString: strerror(error)))"]))
            connection.close()
        }
    }

    private func serveBacklog() {
        guard var bytes = connection.inputState.reader.takeBacklog() else { return }
        bytes.moveReaderIndex(forwardBy: bytes.withUnsafeReadableBytes { serveLines($0) })
        if bytes.readableBytes > 0, connection.phase == .serving { keep(bytes) }
        connection.inputState.reader.endInputOfDescriptors()
        connection.output.flush()
    }

    private func keep(_ rest: ByteBuffer) {
        connection.inputState.reader.keep(rest, isGateOpen: connection.isGateOpen)
    }

    /// Serves the complete lines of the input until the gate closes or the time slice ends.
    /// - Returns: the number of bytes served
    private func serveLines(_ bytes: UnsafeRawBufferPointer) -> Int {
        let pendingBytes = connection.inputState.reader.pendingBytes
        var offset = 0
        serving {
            while let line = connection.inputState.reader.nextLine(in: bytes, at: &offset) {
                let isCostly = serve(line)
                connection.inputState.reader.descriptors?.endLine()
                if !connection.isGateOpen || (isCostly && loop.isSliceOver) { break }
            }
        }
        if connection.inputState.reader.pendingBytes != pendingBytes { countUnfinishedLine() }
        return offset
    }

    /// Runs `body`, which serves lines. A request that completes while `body` runs neither resumes reading nor closes
    /// the connection.
    private func serving(_ body: () -> Void) {
        connection.inputState.reader.isServing = true
        body()
        connection.inputState.reader.isServing = false
    }

    /// Charges the user for the bytes of an incomplete line. Drops the line if it is large and too much is buffered for
    /// the user.
    private func countUnfinishedLine() {
        if connection.inputState.reader.pendingBytes > UserUsage.largeBytes, let error = connection.refusalOfLargeWork()
        {
            connection.inputState.reader.dropUnfinishedLine()
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
            connection.inputState.lines += 1
            return connection.dispatcher.dispatch(bytes)
        case .assembled(let bytes):
            connection.inputState.lines += 1
            let isCostly = bytes.withUnsafeBytes { connection.dispatcher.dispatch($0) }
            connection.inputState.reader.didServe(bytes)
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
