import DequeModule
import NIOCore

/// The queued output of one connection, in the order of writing. It performs no I/O: it receives the results of writes
/// and returns the next step.
///
/// While the client keeps up, bytes are written directly to its socket and nothing is queued. Bytes that the socket
/// does not accept are queued until it has room, and later output is queued behind them. A descriptor is sent with the
/// first byte of a line.
struct OutboundQueue {
    /// The next step.
    enum Action {
        /// Do nothing: everything was written.
        case none
        /// Write the next piece.
        case writeNext
        /// Continue when the socket has room.
        case waitUntilWritable
        /// Continue after a delay, because too many descriptors are in flight or memory is short. The kernel does not
        /// report when either condition ends.
        case retry(after: TimeAmount)
        /// Notify the connection that the last queued piece was written.
        case drained
        /// Hang up, because the peer has disconnected. Do so in a later job of the loop, because the writer may be
        /// serving other connections now.
        case hangUpLater
    }

    /// Queued bytes, and the descriptor to send with the first byte.
    struct Piece {
        var bytes: ByteBuffer
        var file: PassedFile?
    }

    /// The progress of the client at a point in time.
    private struct Progress {
        /// The number of bytes that the socket had accepted.
        var accepted: Int
        /// The number of bytes in the socket that the client had not read.
        var unread: Int
        var at: NIODeadline
    }

    /// The maximum number of descriptors in flight to a client (sent but not received). The next descriptor waits until
    /// the client has read everything sent before it.
    ///
    /// The kernel limits the number of descriptors in flight to all clients together to the agent's limit on open files
    /// (unix(7), ETOOMANYREFS), unless root runs the agent. By default, one user may have a quarter of the connections,
    /// each with up to four descriptors in flight, so no more descriptors than the maximum number of connections. If
    /// several users do not read, others get the error `limitExceeded` instead of a descriptor.
    static let maxDescriptorsInFlight = 4
    /// If the kernel reports fewer unread bytes than this, the client has read everything. The kernel adds more than
    /// this many bytes of overhead to each unread piece. A smaller number, if not zero, only means that the kernel has
    /// not finished subtracting the last piece.
    private static let minUnreadBytes = 256
    private static let minRetryDelay = TimeAmount.milliseconds(1)
    private static let maxRetryDelay = TimeAmount.milliseconds(64)

    private var pieces = Deque<Piece>()
    /// The number of queued bytes.
    private(set) var pendingBytes = 0
    /// The total number of bytes of output so far, written and queued.
    private var offeredBytes = 0
    /// The number of descriptors sent since the client was last found to have read everything.
    private var descriptorsInFlight = 0
    private var lastProgress = Progress(accepted: 0, unread: 0, at: .uptimeNanoseconds(0))
    /// The delay before the next write after the action ``Action/retry(after:)``. It doubles with each retry, up to
    /// ``maxRetryDelay``.
    private var retryDelay = Self.minRetryDelay
    /// Whether a write failed because the peer has disconnected. Later output is dropped.
    private(set) var isBroken = false
    /// Whether the connection is in the list of the ``StallMonitor``, which closes connections whose clients do not
    /// read.
    var isMonitored = false

    var isPending: Bool { !pieces.isEmpty }

    /// The number of bytes that the socket has accepted.
    var acceptedBytes: Int { offeredBytes - pendingBytes }

    var nextPiece: Piece? { pieces.first }

    /// Whether another descriptor may be sent now.
    /// - Parameter unread: the number of bytes that the peer has not read. Evaluated only if the limit is reached.
    mutating func maySendDescriptor(unreadByPeer unread: @autoclosure () -> Int) -> Bool {
        if descriptorsInFlight < Self.maxDescriptorsInFlight { return true }
        guard unread() < Self.minUnreadBytes else { return false }
        descriptorsInFlight = 0
        return true
    }

    /// Queues output. The body is not copied: all clients that receive it share its memory.
    /// - Parameter file: the file whose descriptor is sent with the first byte
    mutating func enqueue(_ bytes: [UInt8], passing file: PassedFile?, then body: ByteBuffer?) {
        offeredBytes += bytes.count + (body?.readableBytes ?? 0)
        enqueuePiece(ByteBuffer(bytes: bytes), file)
        if let body { enqueuePiece(body, nil) }
    }

    /// Records output that the socket accepted completely.
    mutating func wroteAll(_ count: Int, withDescriptor: Bool) {
        offeredBytes += count
        if withDescriptor { descriptorsInFlight += 1 }
    }

    /// Records the result of a direct write (nothing was queued), and queues what the socket did not accept.
    mutating func wrote(
        _ result: SocketWriter.Result, of bytes: [UInt8], passing file: PassedFile?, then body: ByteBuffer?
    ) -> Action {
        offeredBytes += bytes.count + (body?.readableBytes ?? 0)
        if file != nil, result.sent > 0 { descriptorsInFlight += 1 }
        switch result.status {
        case .complete: return .none
        case .broken: return breakOff()
        case .wouldBlock, .outOfDescriptors:
            if result.sent < bytes.count {
                enqueuePiece(ByteBuffer(bytes: bytes[result.sent...]), result.sent == 0 ? file : nil)
            }
            if var rest = body {
                rest.moveReaderIndex(forwardBy: max(0, result.sent - bytes.count))
                enqueuePiece(rest, nil)
            }
            return wait(result.status)
        }
    }

    /// Records the result of writing ``nextPiece``.
    mutating func wroteNext(_ result: SocketWriter.Result) -> Action {
        guard let piece = pieces.first else { return .drained }
        if piece.file != nil, result.sent > 0 { descriptorsInFlight += 1 }
        pendingBytes -= result.sent
        if result.sent == piece.bytes.readableBytes {
            pieces.removeFirst()
            if isPending { return .writeNext }
            retryDelay = Self.minRetryDelay
            return .drained
        }
        if result.sent > 0 {
            pieces[0].bytes.moveReaderIndex(forwardBy: result.sent)
            // The descriptor was sent with the first byte, so it is not sent again with the rest of the piece.
            pieces[0].file = nil
        }
        return result.status == .broken ? breakOff() : wait(result.status)
    }

    /// Replaces the next piece, of which nothing was written, with bytes without a descriptor.
    mutating func replaceNext(_ bytes: [UInt8]) {
        guard let piece = pieces.first else { return }
        let growth = bytes.count - piece.bytes.readableBytes
        pieces[0] = Piece(bytes: ByteBuffer(bytes: bytes), file: nil)
        pendingBytes += growth
        offeredBytes += growth
    }

    /// Starts to measure the client's progress, because output is now pending.
    mutating func startProgress(unreadByPeer unread: Int, at now: NIODeadline) {
        lastProgress = Progress(accepted: acceptedBytes, unread: unread, at: now)
    }

    /// The time since the client last made progress; nil if no output is pending.
    ///
    /// A decrease of the number of unread bytes is progress too. The socket accepts more output only after the client
    /// has read most of the socket's content, so the progress of a slow client shows first in the number of unread
    /// bytes.
    mutating func stalledTime(at now: NIODeadline, unreadByPeer unread: @autoclosure () -> Int) -> TimeAmount? {
        guard isPending else { return nil }
        let unread = unread()
        if acceptedBytes > lastProgress.accepted || unread < lastProgress.unread {
            startProgress(unreadByPeer: unread, at: now)
        }
        return now - lastProgress.at
    }

    /// Drops all queued output.
    mutating func removeAll() {
        pieces = []
        pendingBytes = 0
    }

    private mutating func enqueuePiece(_ bytes: ByteBuffer, _ file: PassedFile?) {
        if bytes.readableBytes == 0 { return }
        pieces.append(Piece(bytes: bytes, file: file))
        pendingBytes += bytes.readableBytes
    }

    private mutating func wait(_ status: SocketWriter.Result.Status) -> Action {
        guard status == .outOfDescriptors else { return .waitUntilWritable }
        defer { retryDelay = min(.nanoseconds(retryDelay.nanoseconds * 2), Self.maxRetryDelay) }
        return .retry(after: retryDelay)
    }

    private mutating func breakOff() -> Action {
        isBroken = true
        removeAll()
        return .hangUpLater
    }
}
