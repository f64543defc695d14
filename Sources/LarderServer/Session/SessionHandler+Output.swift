import JSON
import LarderWire
import Logging
import NIOCore

extension SessionHandler {
    /// More output than this is written before the next request is looked at.
    private static let largeOutput = 64 * 1024

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
        loop.traffic.bytesSent += loop.output.bytes.count + (body?.readableBytes ?? 0)
        let waits = output.write(loop.output.bytes, passing: loop.passed, then: body)
        loop.clearOutput()
        if waits {
            countHeldBytes()
            loop.watchForStalls(within: limits.stallTime)
        }
    }

    /// The client took everything: it gets what it missed, and its requests are read again.
    func outputDrained() {
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

extension LimitSettings {
    /// How long a client may take no byte.
    var stallTime: TimeAmount {
        let (seconds, attoseconds) = stall.components
        return .nanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
