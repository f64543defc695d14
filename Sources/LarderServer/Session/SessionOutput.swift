import CLinuxShims
import NIOCore

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// The way out of one connection.
///
/// As long as the client keeps up, bytes go straight into its socket with send(2); what the socket does not take goes
/// through the channel, which writes it when it can. A prototype showed half the cost of going through the channel
/// each time.
final class SessionOutput {
    private var context: ChannelHandlerContext?
    private var descriptor: CInt?
    /// Bytes handed to the socket or the channel.
    private var offeredBytes = 0
    private var waitingWrites = 0
    /// Whether a write is being made right now.
    private var isWriting = false
    private var lastProgress = Progress(accepted: 0, unread: 0, at: .now())
    /// How far the client was at a time.
    private struct Progress {
        /// Bytes that its socket took.
        var accepted: Int
        /// Bytes in its socket that it had not read.
        var unread: Int
        var at: NIODeadline
    }

    /// Called when the client has taken all that waited, and never within ``write(_:then:)``.
    var onDrained: () -> Void = {}

    /// Whether something waits for the client.
    var isPending: Bool { waitingWrites > 0 }

    /// Bytes that wait for the client.
    var pendingBytes: Int {
        guard isPending, let context else { return 0 }
        return (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// Bytes that the client took, as far as the socket knows.
    var acceptedBytes: Int { offeredBytes - pendingBytes }

    func attach(_ context: ChannelHandlerContext) {
        self.context = context
        descriptor = try? context.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { $0 }
    }

    /// The connection is over; nothing may be written to a descriptor that may be somebody else's by now.
    func detach() {
        context = nil
        descriptor = nil
        onDrained = {}
    }

    /// Writes bytes, and then others where there are any. What has to wait of those is not copied: however many clients
    /// it waits for, they share its memory.
    /// - Returns: whether something has to wait.
    func write(_ bytes: [UInt8], then more: ByteBuffer? = nil) -> Bool {
        guard let context else { return false }
        let total = bytes.count + (more?.readableBytes ?? 0)
        offeredBytes += total
        let sent = isPending ? 0 : send(bytes, more)
        if sent == total { return false }
        if waitingWrites == 0 {
            lastProgress = Progress(accepted: offeredBytes - total + sent, unread: unreadBytes, at: .now())
        }
        isWriting = true
        defer { isWriting = false }
        if sent < bytes.count {
            enqueue(context.channel.allocator.buffer(bytes: bytes[sent...]), context)
            if let more { enqueue(more, context) }
        } else if var rest = more {
            rest.moveReaderIndex(forwardBy: sent - bytes.count)
            enqueue(rest, context)
        }
        context.flush()
        return isPending
    }

    /// How long the client has taken no byte; nil while nothing waits.
    ///
    /// Its socket takes more only once it has read most of what is in it; a client that is slow, but reads, shows before
    /// that by what it has not read yet.
    func stalledTime(at now: NIODeadline) -> TimeAmount? {
        guard isPending else { return nil }
        let (accepted, unread) = (acceptedBytes, unreadBytes)
        if accepted > lastProgress.accepted || unread < lastProgress.unread {
            lastProgress = Progress(accepted: accepted, unread: unread, at: now)
        }
        return now - lastProgress.at
    }

    private var unreadBytes: Int { descriptor.map { Int(larder_unread_by_peer($0)) } ?? 0 }

    private func send(_ bytes: [UInt8], _ more: ByteBuffer?) -> Int {
        guard let descriptor else { return 0 }
        while true {
            let count = bytes.withUnsafeBytes { first in
                guard let more else { return larder_send_nosignal(descriptor, first.baseAddress, first.count) }
                return more.withUnsafeReadableBytes { second in
                    larder_send_two(descriptor, first.baseAddress, first.count, second.baseAddress, second.count)
                }
            }
            if count >= 0 { return count }
            // A full socket waits in the channel; any other failure shows itself there too, and ends the connection.
            if errno != EINTR { return 0 }
        }
    }

    private func enqueue(_ bytes: ByteBuffer, _ context: ChannelHandlerContext) {
        waitingWrites += 1
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { _ in
            self.waitingWrites -= 1
            if self.waitingWrites == 0 { self.drained() }
        }
        context.write(NIOAny(bytes), promise: promise)
    }

    /// A client that reads fast empties its socket between send(2) and the channel's write, so that this happens within a
    /// write. The session is then in the middle of something, and goes on with what waited at its next turn.
    private func drained() {
        guard let context else { return }
        guard isWriting else { return onDrained() }
        context.eventLoop.assumeIsolated().execute {
            if !self.isPending, self.context != nil { self.onDrained() }
        }
    }
}
