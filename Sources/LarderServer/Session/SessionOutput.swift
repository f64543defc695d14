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
///
/// A descriptor travels with the first byte of a line (unix(7), SCM_RIGHTS), for which only sendmsg(2) will do. So such a
/// line waits here until everything before it is gone, and what comes after it waits behind it.
final class SessionOutput {
    private var context: ChannelHandlerContext?
    private var descriptor: CInt?
    /// Bytes handed to the socket or the channel.
    private var offeredBytes = 0
    private var waitingWrites = 0
    /// Whether a write is being made right now.
    private var isWriting = false
    /// What waits for a line that carries a descriptor, that line first.
    private var held = CircularBuffer<Held>()
    private var heldBytes = 0
    /// The next attempt to send that line, where only the socket is full: nobody says when it no longer is, because the
    /// channel has nothing to write.
    private var nextAttempt: Scheduled<Void>?
    private var pause = SessionOutput.shortestPause
    private static let shortestPause = TimeAmount.milliseconds(1)
    private static let longestPause = TimeAmount.milliseconds(64)
    private var lastProgress = Progress(accepted: 0, unread: 0, at: .now())
    /// How far the client was at a time.
    private struct Progress {
        /// Bytes that its socket took.
        var accepted: Int
        /// Bytes in its socket that it had not read.
        var unread: Int
        var at: NIODeadline
    }

    /// Bytes that have to wait, and what travels with the first one.
    private struct Held {
        var bytes: ByteBuffer
        var file: PassedFile?
    }

    /// Called when the client has taken all that waited, and never within ``write(_:then:)``.
    var onDrained: () -> Void = {}

    /// Whether something waits for the client.
    var isPending: Bool { waitingWrites > 0 || !held.isEmpty }

    /// Bytes that wait for the client.
    var pendingBytes: Int {
        guard isPending, let context else { return 0 }
        return ((try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0) + heldBytes
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
        held.removeAll()
        heldBytes = 0
        nextAttempt?.cancel()
        nextAttempt = nil
    }

    /// Writes bytes, and then others where there are any. What has to wait of those is not copied: however many clients
    /// it waits for, they share its memory.
    /// - Parameter file: what is passed with the first byte.
    /// - Returns: whether something has to wait.
    func write(_ bytes: [UInt8], passing file: PassedFile? = nil, then more: ByteBuffer? = nil) -> Bool {
        guard let context else { return false }
        let total = bytes.count + (more?.readableBytes ?? 0)
        offeredBytes += total
        let (sent, mustWait) = isPending ? (0, !held.isEmpty || file != nil) : send(bytes, more, passing: file)
        if sent == total { return false }
        if !isPending {
            lastProgress = Progress(accepted: offeredBytes - total + sent, unread: unreadBytes, at: .now())
        }
        if mustWait {
            hold(ByteBuffer(bytes: bytes), passing: file)
            if let more { hold(more, passing: nil) }
            if waitingWrites == 0 { attemptLater(context) }
            return true
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
        guard isWriting else { return goOn() }
        context.eventLoop.assumeIsolated().execute {
            if self.waitingWrites == 0 { self.goOn() }
        }
    }

    /// The channel has written everything: what was held comes next.
    private func goOn() {
        guard let context else { return }
        sendHeld(context)
        if !isPending { onDrained() }
    }

    // MARK: Descriptors

    private func hold(_ bytes: ByteBuffer, passing file: PassedFile?) {
        held.append(Held(bytes: bytes, file: file))
        heldBytes += bytes.readableBytes
    }

    /// Sends what is held as far as it goes, in its order.
    private func sendHeld(_ context: ChannelHandlerContext) {
        isWriting = true
        defer { isWriting = false }
        while waitingWrites == 0, let next = held.first {
            let bytes = Array(next.bytes.readableBytesView)
            let (sent, mustWait) = send(bytes, nil, passing: next.file)
            if mustWait { return attemptLater(context) }
            pause = Self.shortestPause
            held.removeFirst()
            heldBytes -= bytes.count
            if sent < bytes.count {
                enqueue(context.channel.allocator.buffer(bytes: bytes[sent...]), context)
                context.flush()
            }
        }
    }

    private func attemptLater(_ context: ChannelHandlerContext) {
        guard nextAttempt == nil else { return }
        nextAttempt = context.eventLoop.assumeIsolated().scheduleTask(in: pause) {
            self.nextAttempt = nil
            if self.waitingWrites == 0 { self.goOn() }
        }
        pause = min(.nanoseconds(pause.nanoseconds * 2), Self.longestPause)
    }

    /// Sends bytes, the first with a descriptor if there is one, and then others.
    /// - Returns: how many bytes went out, and whether none did because the descriptor has to wait.
    private func send(
        _ bytes: [UInt8], _ more: ByteBuffer?, passing file: PassedFile?
    ) -> (sent: Int, mustWait: Bool) {
        // Without a socket of the system's there is nothing to pass it over.
        guard let descriptor, let passed = file?.descriptor else { return (send(bytes, more), false) }
        while true {
            let count = bytes.withUnsafeBytes {
                larder_send_descriptors(descriptor, $0.baseAddress, $0.count, [passed], 1)
            }
            if count == bytes.count, let more { return (count + send([], more), false) }
            if count >= 0 { return (count, false) }
            switch errno {
            case EINTR: continue
            // The socket is full, or too many descriptors are under way to clients that do not read.
            case EAGAIN, ETOOMANYREFS, ENOBUFS, ENOMEM: return (0, true)
            // The channel finds the same failure, and ends the connection.
            default: return (0, false)
            }
        }
    }
}
