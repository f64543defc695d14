import LarderEventLoop
import CLinuxShims
import LarderProtocol
import Logging
import NIOCore
import Glibc

/// What comes in. While output waits for the client, or too many of its requests are in flight, its requests are not read.
///
/// A descriptor that comes with input is received if the client may store images, and otherwise closed by the kernel
/// (``ReceivedDescriptors``). In both cases recvmsg(2) returns the bytes up to the end of what the descriptor came with.
extension Connection {
    /// What is read at once of short lines: so many of them are served in a turn at most, however quick each is.
    private static let slice = 8 * 1024

    /// Reads, unless a long line is incomplete: clients that send such lines leave time for those that ask for little.
    func readInTurn() {
        if willGoOn { return }
        if isLineLong { goOnLater() } else { read() }
    }

    /// Whether a line is under way that is longer than what is read at once of others.
    private var isLineLong: Bool { framer.pendingBytes >= Self.slice }

    /// Reads once, and serves what came; what takes longer than a turn is left for later. Neither a busy client nor one
    /// that sends much at once starves the others of its loop.
    func read() {
        guard mayRead else { return }
        // Of a peer that says no more only so much is left as the socket holds.
        repeat { readOnce() } while willEnd && mayRead && !willGoOn
        flush()
        closeIfDone()
    }

    private var mayRead: Bool {
        !isClosed && !isFinishing && !inputEnded && hasInput && isReady && heldInput == nil
    }

    private func readOnce() {
        loop.beginTurn()
        // Nothing of a long line is served before its end comes.
        let size = isLineLong ? loop.input.count : Self.slice
        let buffer = UnsafeMutableRawBufferPointer(rebasing: loop.input[..<size])
        var passed = larder_passed()
        let count = larder_receive(socket, buffer.baseAddress, buffer.count, mayTakeDescriptor, &passed)
        let hasPassed = passed.is_cut || passed.descriptor >= 0
        if hasPassed { receive(passed) }
        switch count {
        case 1...:
            receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            // The kernel tells of what comes from now on; of what is there already it has told.
            if count < buffer.count && !hasPassed { hasInput = willEnd } else { goOnLater() }
        case 0:
            inputEnded = true
            finishInput()
        default:
            switch errno {
            // The client left something unread. That is told once, before the end of what it said (unix(7)).
            case EINTR, ECONNRESET: goOnLater()
            case EAGAIN: hasInput = false
            default:
                // The peer went away without reading: nothing that an administrator could act on.
                loop.server.logger.debug(
                    "a connection failed", metadata: logMetadata(["error": "\(String(cString: strerror(errno)))"]))
                close()
            }
        }
    }

    /// Goes on with what came once the others of the loop were served.
    func goOnLater() {
        if willGoOn { return }
        willGoOn = true
        loop.deferWork {
            self.willGoOn = false
            self.loop.beginDeferred()
            self.goOn()
        }
    }

    /// Whether something was read that is to be served as soon as that is possible.
    private var holdsRequests: Bool { heldInput != nil || unstartedBatch != nil }

    private func goOn() {
        if isClosed { return }
        if holdsRequests {
            resumeInput()
            closeIfDone()
        } else {
            read()
        }
        endIfGone()
    }

    /// The peer is gone: what it sent before is carried out as far as it can be without waiting, and the connection ends.
    /// Where many are gone at once, those are served first who are there.
    func hangUp() {
        hasInput = true
        // Up to the end, which makes a line of what has no line end.
        willEnd = true
        isGone = true
        if willGoOn { return }
        loop.beginTurn()
        if loop.isTurnOver { goOnLater() } else { goOn() }
    }

    private func endIfGone() {
        guard isGone, !willGoOn, !isClosed else { return }
        flush()
        close()
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        bytesReceived += bytes.count
        loop.traffic.bytesReceived += bytes.count
        let taken = take(bytes)
        if taken < bytes.count, !isClosed, !isFinishing {
            heldInput = ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: bytes[taken...]))
            if isReady { goOnLater() }
        }
        if framer.pendingBytes != unfinishedBytes { countUnfinishedLine() }
        endInputOfDescriptors()
    }

    /// Closes descriptors that came with input if no line is left to which they may belong.
    private func endInputOfDescriptors() {
        guard let passedFiles, !passedFiles.received.isEmpty, heldInput == nil else { return }
        passedFiles.received.endInput(hasUnfinishedLine: framer.pendingBytes > 0)
    }

    /// Goes on with input that had to wait.
    func resumeInput() {
        guard !isFinishing, !willGoOn else { return }
        loop.beginLongTurn()
        if unstartedBatch != nil {
            startBatch()
            flush()
        }
        guard isReady else { return }
        if var held = heldInput {
            heldInput = nil
            held.moveReaderIndex(forwardBy: held.withUnsafeReadableBytes { take($0) })
            if framer.pendingBytes != unfinishedBytes { countUnfinishedLine() }
            if held.readableBytes > 0, !isClosed {
                heldInput = held
                if isReady { goOnLater() }
            }
            endInputOfDescriptors()
            flush()
        }
        finishInput()
        flush()
        if hasInput { goOnLater() }
    }

    /// Whether another line may be taken now.
    private var isReady: Bool { unstartedBatch == nil && isRoomForRequest }

    /// Whether another request may be started now.
    var isRoomForRequest: Bool {
        !isClosed && !isOutputPending && inFlight.count < limits.requestsInFlightPerConnection
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        var offset = 0
        while let line = framer.next(in: bytes, at: &offset) {
            let isCostly = handle(line)
            passedFiles?.endLine()
            if !isReady || isFinishing || (isCostly && loop.isTurnOver) { break }
        }
        return offset
    }

    /// Takes the last line, which need not have a line end.
    private func finishInput() {
        guard inputEnded, !inputFinished, isReady, heldInput == nil else { return }
        inputFinished = true
        if let line = framer.finish() { _ = handle(line) }
        passedFiles?.received.removeAll()
    }

    /// - Returns: whether it took longer than an answer that is there already.
    private func handle(_ line: consuming LineFramer.Line) -> Bool {
        defer { flushIfLarge() }
        switch consume line {
        case .whole(let bytes):
            requests += 1
            return handleLine(bytes)
        case .assembled(let bytes):
            requests += 1
            defer { framer.reuse(bytes) }
            return bytes.withUnsafeBytes { handleLine($0) }
        case .tooLong:
            loop.traffic.refused.lines += 1
            let limit = limits.lineBytes
            refuse(
                WireError(
                    .lineTooLong, "a line may have \(limit) bytes; this one was dropped up to its line end"))
            return true
        }
    }
}
