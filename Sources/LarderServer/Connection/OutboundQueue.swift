import DequeModule
import NIOCore

/// The output of one connection, in the order in which it is written. It performs no I/O: it takes the results of writes
/// and says how to continue.
///
/// As long as the client keeps up, bytes go straight into its socket and nothing is queued. What the socket does not take
/// is queued until it has room, and later output behind it. A descriptor travels with the first byte of a line.
struct OutboundQueue {
    /// How the output continues.
    enum Action {
        /// Everything is written.
        case none
        /// Write the next piece.
        case writeNext
        /// Continue when the socket has room.
        case waitUntilWritable
        /// Continue after a delay.
        case retry(after: TimeAmount)
        /// Nothing was left, and the last piece is written.
        case drained
        /// The peer is gone. Hang up in a later job: the writer may be serving other connections.
        case hangUpLater
    }

    /// Queued bytes, and the descriptor that travels with the first one.
    struct Piece {
        var bytes: ByteBuffer
        var file: PassedFile?
    }

    /// How far the client was at a time.
    private struct Progress {
        /// Bytes that its socket took.
        var accepted: Int
        /// Bytes in its socket that it had not read.
        var unread: Int
        var at: NIODeadline
    }

    /// Descriptors that a client has not received yet; the next one waits until the client has read what was sent before.
    /// The kernel counts them for all clients of the agent together and allows as many as the agent may have open files
    /// (unix(7), ETOOMANYREFS). The agent may have more open files than connections, and by default a user has a quarter
    /// of the connections, so a user who does not read cannot keep others from receiving descriptors.
    static let maxDescriptorsInFlight = 4
    /// Fewer unread bytes count as none: the kernel's overhead of a piece is more, and it is subtracted only after the
    /// kernel has reported that the piece was read.
    private static let minUnreadBytes = 256
    private static let minRetryDelay = TimeAmount.milliseconds(1)
    private static let maxRetryDelay = TimeAmount.milliseconds(64)

    private var pieces = Deque<Piece>()
    /// Bytes that are queued.
    private(set) var pendingBytes = 0
    /// All bytes of the connection, queued ones included.
    private var offeredBytes = 0
    /// Descriptors that were sent since the client was last seen to have read everything.
    private var descriptorsInFlight = 0
    private var lastProgress = Progress(accepted: 0, unread: 0, at: .uptimeNanoseconds(0))
    /// The delay of the next retry.
    private var retryDelay = Self.minRetryDelay
    /// Whether a write has found the peer gone. Output is dropped from then on.
    private(set) var isBroken = false
    /// Whether the stall monitor of the loop has the connection in its list.
    var isMonitored = false

    /// Whether output is queued.
    var isPending: Bool { !pieces.isEmpty }

    /// Bytes that the socket took.
    var acceptedBytes: Int { offeredBytes - pendingBytes }

    /// The piece to write next.
    var nextPiece: Piece? { pieces.first }

    /// Whether another descriptor may be sent now.
    /// - Parameter unread: the bytes that the peer has not read; evaluated only if the limit is reached.
    mutating func maySendDescriptor(unreadByPeer unread: @autoclosure () -> Int) -> Bool {
        if descriptorsInFlight < Self.maxDescriptorsInFlight { return true }
        guard unread() < Self.minUnreadBytes else { return false }
        descriptorsInFlight = 0
        return true
    }

    /// Queues output behind the output that is pending. A body is not copied: the clients for which it is queued share its
    /// memory.
    /// - Parameter file: the descriptor that travels with the first byte.
    mutating func enqueue(_ bytes: [UInt8], passing file: PassedFile?, then body: ByteBuffer?) {
        offeredBytes += bytes.count + (body?.readableBytes ?? 0)
        hold(ByteBuffer(bytes: bytes), file)
        if let body { hold(body, nil) }
    }

    /// Counts bytes that the socket took at once.
    mutating func wroteAll(_ count: Int, withDescriptor: Bool) {
        offeredBytes += count
        if withDescriptor { descriptorsInFlight += 1 }
    }

    /// Takes the result of a write while nothing was pending, and queues the rest.
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
                hold(ByteBuffer(bytes: bytes[result.sent...]), result.sent == 0 ? file : nil)
            }
            if var rest = body {
                rest.moveReaderIndex(forwardBy: max(0, result.sent - bytes.count))
                hold(rest, nil)
            }
            return wait(result.status)
        }
    }

    /// Takes the result of writing ``nextPiece``.
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
            // It was sent with the first byte.
            pieces[0].file = nil
        }
        return result.status == .broken ? breakOff() : wait(result.status)
    }

    /// Notes when output began to be pending.
    mutating func startProgress(unreadByPeer unread: Int, at now: NIODeadline) {
        lastProgress = Progress(accepted: acceptedBytes, unread: unread, at: now)
    }

    /// How long the client has taken no byte; nil if nothing is pending.
    ///
    /// Its socket takes more only after the client has read most of its content. A client that is slow but reads shows
    /// that earlier by the bytes that it has not read.
    mutating func stalledTime(at now: NIODeadline, unreadByPeer unread: @autoclosure () -> Int) -> TimeAmount? {
        guard isPending else { return nil }
        let unread = unread()
        if acceptedBytes > lastProgress.accepted || unread < lastProgress.unread {
            startProgress(unreadByPeer: unread, at: now)
        }
        return now - lastProgress.at
    }

    /// Drops queued output.
    mutating func removeAll() {
        pieces = []
        pendingBytes = 0
    }

    private mutating func hold(_ bytes: ByteBuffer, _ file: PassedFile?) {
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
