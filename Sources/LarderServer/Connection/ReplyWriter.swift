import LarderJSON
import LarderProtocol
import Logging
import NIOCore

extension Connection {
    /// More output than this is written before the next request is looked at.
    private static let largeOutput = 64 * 1024
    private static let shortestPause = TimeAmount.milliseconds(1)
    private static let longestPause = TimeAmount.milliseconds(64)

    /// Whether something waits for the client.
    var isOutputPending: Bool { output.isPending }

    /// Writes what the requests served so far have to say: one system call for all of them.
    func flush() {
        if loop.output.bytes.isEmpty { return }
        send(then: nil)
    }

    func flushIfLarge() {
        if loop.output.bytes.count >= Self.largeOutput { flush() }
    }

    /// Writes a line behind the output, together with what follows where it is small.
    func write(_ line: [UInt8]) {
        if line.count > Self.largeOutput {
            flush(then: ByteBuffer(bytes: line))
        } else {
            line.withUnsafeBytes { loop.output.rawUnframed($0) }
        }
    }

    /// Writes the output and an event's shared body behind it, without copying the body.
    func flush(then body: ByteBuffer) { send(then: body) }

    private func send(then body: ByteBuffer?) {
        defer { loop.clearOutput() }
        if isClosed || isBroken { return }
        loop.traffic.bytesSent += loop.output.bytes.count + (body?.readableBytes ?? 0)
        let wasPending = isOutputPending
        let outcome = output.write(loop.output.bytes, passing: loop.passed, then: body)
        if case .done = outcome {} else { countHeldBytes() }
        if !wasPending { settle(outcome) }
    }

    /// Sees to it that what waits goes on.
    private func settle(_ outcome: OutboundQueue.Outcome) {
        switch outcome {
        case .done: return
        case .waits:
            waitUntilWritable(true)
        case .waitsForDescriptors:
            let pause = retryPause ?? Self.shortestPause
            retryPause = min(.nanoseconds(pause.nanoseconds * 2), Self.longestPause)
            loop.eventLoop.assumeIsolated().scheduleTask(in: pause) { self.continueOutput() }
        case .broken:
            // Not here: whoever writes is in the middle of something, maybe with other connections.
            isBroken = true
            output.removeAll()
            loop.eventLoop.assumeIsolated().execute { self.hangUp() }
            return
        }
        loop.watchForStalls(of: self)
    }

    /// The socket takes bytes again, or might.
    func continueOutput() {
        guard !isClosed, isOutputPending else { return }
        let outcome = output.resume()
        if case .waits = outcome { return waitUntilWritable(true) }
        waitUntilWritable(false)
        guard case .done = outcome else { return settle(outcome) }
        retryPause = nil
        outputDrained()
    }

    /// The client took everything: it gets what it missed, and its requests are read again.
    private func outputDrained() {
        countHeldBytes()
        catchUp()
        resumeInput()
        closeIfDone()
    }

    /// Drops a client that has taken no byte for too long.
    func dropIfStalled(at now: NIODeadline) {
        guard let stalled = output.stalledTime(at: now), stalled >= limits.stallTime else { return }
        loop.traffic.connectionsStalled += 1
        loop.server.logger.warning(
            "a client that does not read was dropped",
            metadata: logMetadata([
                "seconds": "\(stalled.nanoseconds / 1_000_000_000)", "pending_bytes": "\(output.pendingBytes)",
            ]))
        close()
    }
}
