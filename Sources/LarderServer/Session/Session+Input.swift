import CLinuxShims
import LarderWire
import Logging
import NIOCore

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// What comes in. While output waits for the client, or too many of its requests are in flight, its requests are not read.
///
/// Descriptors that a client passes are not taken: there is no room for them, and the kernel closes them (unix(7),
/// SCM_RIGHTS). It gives the bytes up to the end of what they came with, and no more, however much has come.
extension Session {
    /// Reads once, and serves what came. One read each turn keeps a busy client from starving the others of its loop.
    func read() {
        guard mayRead else { return }
        // Of a peer that says no more only so much is left as the socket holds.
        repeat { readOnce() } while willEnd && mayRead
        flush()
        closeIfDone()
    }

    private var mayRead: Bool {
        !isClosed && !isFinishing && !inputEnded && hasInput && isReady && heldInput == nil
    }

    private func readOnce() {
        let buffer = loop.input
        var wasCut: CInt = 0
        let count = larder_receive(socket, buffer.baseAddress, buffer.count, &wasCut)
        switch count {
        case 1...:
            receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            // The kernel tells of what comes from now on; of what is there already it has told.
            if count < buffer.count && wasCut == 0 { hasInput = willEnd } else { readLater() }
        case 0:
            inputEnded = true
            finishInput()
        default:
            switch errno {
            // The client left something unread. That is told once, before the end of what it said (unix(7)).
            case EINTR, ECONNRESET: readLater()
            case EAGAIN: hasInput = false
            default:
                // The peer went away without reading: nothing that an administrator could act on.
                loop.server.logger.debug(
                    "a connection failed", metadata: logMetadata(["error": "\(String(cString: strerror(errno)))"]))
                close()
            }
        }
    }

    private func readLater() {
        if willRead { return }
        willRead = true
        loop.eventLoop.assumeIsolated().execute {
            self.willRead = false
            self.read()
        }
    }

    /// The peer is gone: what it sent before is carried out as far as it can be without waiting, and the connection ends.
    func hangUp() {
        hasInput = true
        // Up to the end, which makes a line of what has no line end.
        willEnd = true
        while mayRead { readOnce() }
        flush()
        close()
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        bytesReceived += bytes.count
        loop.traffic.bytesReceived += bytes.count
        let taken = take(bytes)
        if taken < bytes.count, !isClosed, !isFinishing {
            heldInput = ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: bytes[taken...]))
        }
        if framer.pendingBytes != unfinishedBytes { countUnfinishedLine() }
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
            held.moveReaderIndex(forwardBy: held.withUnsafeReadableBytes { take($0) })
            if framer.pendingBytes != unfinishedBytes { countUnfinishedLine() }
            if held.readableBytes > 0, !isClosed { heldInput = held }
            flush()
        }
        finishInput()
        flush()
        if hasInput { readLater() }
    }

    /// Whether another line may be taken now.
    private var isReady: Bool { unstartedBatch == nil && isRoomForRequest }

    /// Whether another request may be started now.
    var isRoomForRequest: Bool {
        !isClosed && !isOutputPending && inFlight.count < limits.requestsInFlightPerConnection
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        framer.receive(bytes) { output in
            handle(output)
            return isReady && !isFinishing
        }
    }

    /// Takes the last line, which need not have a line end.
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
