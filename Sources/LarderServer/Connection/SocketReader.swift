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
    let connection: Connection

    private var loop: LoopContext { connection.loop }

    /// Reads and serves until the reader has to wait, then writes the replies.
    func serve() {
        steps: while connection.state.phase != .closed {
            switch connection.state.reader.nextAction(isGateOpen: connection.isGateOpen) {
            case .wait: break steps
            case .read(let maxBytes): read(maxBytes)
            case .serveBacklog: serveBacklog()
            case .serveLastLine:
                serving { if let line = connection.state.reader.takeLastLine() { serve(line) } }
                connection.state.reader.descriptors?.removeAll()
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
        if connection.state.reader.isResumeScheduled { return }
        connection.state.reader.resumeScheduled()
        loop.deferWork { [connection] in
            connection.state.reader.resumed()
            connection.loop.beginDeferredSlice()
            if connection.state.phase == .closed { return }
            let hasRequests = connection.state.reader.backlog != nil || connection.state.batches.waiting != nil
            if hasRequests { connection.input.resumeRequests() } else { connection.input.serve() }
        }
    }

    /// Continues with requests that waited because too many others were pending, because output was pending, or because
    /// the time slice ended.
    func resumeRequests() {
        guard connection.state.phase == .serving, !connection.state.reader.isResumeScheduled,
            !connection.state.reader.isServing
        else { return }
        loop.beginLongSlice()
        connection.state.reader.gateOpened()
        if connection.state.batches.waiting != nil {
            serving { connection.dispatcher.startBatch() }
            connection.output.flush()
        }
        serve()
    }

    /// Executes the requests that a disconnected peer has sent, as far as that is possible without waiting, then closes
    /// the connection. If many peers disconnect at once, connections that are still open are served first.
    func hangUp() {
        if connection.state.phase == .closed { return }
        if connection.state.reader.isResumeScheduled { return connection.state.reader.peerHungUp(isSliceOver: false) }
        loop.beginSlice()
        connection.state.reader.peerHungUp(isSliceOver: loop.isSliceOver)
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
            connection.state.metrics.bytesReceived += count
            loop.traffic.bytesReceived += count
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            let served = serveLines(bytes)
            if served < count, connection.state.phase == .serving {
                keep(ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: bytes[served...])))
            }
            connection.state.reader.endInputOfDescriptors()
            // The kernel reports only input that arrives after this read, not input that is already in the socket. The
            // reader therefore records whether the socket may have more now.
            connection.state.reader.didRead(mayHaveMore: count == buffer.count || hasPassed)
        case 0: connection.state.reader.inputEnded()
        default: readFailed(errno)
        }
    }

    /// Whether to receive a descriptor that arrives with the next input.
    private var mayTakeDescriptor: Bool {
        loop.server.images != nil && connection.state.principal.mayPassDescriptors
            && connection.state.reader.descriptors?.hasRoom ?? true
            && (connection.state.principal.credentials.isTrusted
                || connection.state.usage.user.hasRoomForFile(connection.state.usage.limits))
    }

    /// Keeps a descriptor until the lines that it may belong to have been served.
    private func receive(_ passed: larder_passed) {
        guard let images = loop.server.images, connection.state.principal.mayPassDescriptors else { return }
        let descriptors = connection.state.reader.descriptors(of: connection.state.usage.user)
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
        case EINTR, ECONNRESET: connection.state.reader.readWasInterrupted()
        case EAGAIN: connection.state.reader.socketIsEmpty()
        default:
            // The peer disconnected without reading. Administrators cannot act on this, so it is logged at debug level.
            loop.server.logger.debug(
                "a connection failed",
                metadata: connection.logMetadata(["error": "\(String(cString: strerror(error)))"]))
            connection.close()
        }
    }

    private func serveBacklog() {
        guard var bytes = connection.state.reader.takeBacklog() else { return }
        bytes.moveReaderIndex(forwardBy: bytes.withUnsafeReadableBytes { serveLines($0) })
        if bytes.readableBytes > 0, connection.state.phase == .serving { keep(bytes) }
        connection.state.reader.endInputOfDescriptors()
        connection.output.flush()
    }

    private func keep(_ rest: ByteBuffer) {
        connection.state.reader.keep(rest, isGateOpen: connection.isGateOpen)
    }

    /// Serves the complete lines of the input until the gate closes or the time slice ends.
    /// - Returns: the number of bytes served
    private func serveLines(_ bytes: UnsafeRawBufferPointer) -> Int {
        let pendingBytes = connection.state.reader.pendingBytes
        var offset = 0
        serving {
            while let line = connection.state.reader.nextLine(in: bytes, at: &offset) {
                let isCostly = serve(line)
                connection.state.reader.descriptors?.endLine()
                if !connection.isGateOpen || (isCostly && loop.isSliceOver) { break }
            }
        }
        if connection.state.reader.pendingBytes != pendingBytes { countUnfinishedLine() }
        return offset
    }

    /// Runs `body`, which serves lines. A request that completes while `body` runs neither resumes reading nor closes
    /// the connection.
    private func serving(_ body: () -> Void) {
        connection.state.reader.isServing = true
        body()
        connection.state.reader.isServing = false
    }

    /// Charges the user for the bytes of an incomplete line. Drops the line if it is large and too much is buffered for
    /// the user.
    private func countUnfinishedLine() {
        if connection.state.reader.pendingBytes > UserUsage.largeBytes, let error = connection.refusalOfLargeWork() {
            connection.state.reader.dropUnfinishedLine()
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
            connection.state.metrics.requests += 1
            return connection.dispatcher.dispatch(bytes)
        case .assembled(let bytes):
            connection.state.metrics.requests += 1
            let isCostly = bytes.withUnsafeBytes { connection.dispatcher.dispatch($0) }
            connection.state.reader.didServe(bytes)
            return isCostly
        case .tooLong:
            loop.traffic.refused.lines += 1
            let limit = connection.state.usage.limits.lineBytes
            connection.output.refuse(
                WireError(
                    .lineTooLong,
                    "the line has more than \(limit) bytes (limits.lineBytes); it was discarded up to its line end"))
            return true
        }
    }
}
