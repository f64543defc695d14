import Glibc

/// A connection to a server that sends prepared bytes and splits its input into replies.
///
/// Replies are passed on in the buffer in which they were received, which all connections share. Only an incomplete
/// reply is copied, to a buffer of the connection that is allocated on first use.
final class Connection {
    let descriptor: Int32
    /// The index under which the owner stores the state of this connection.
    let index: Int
    /// The bytes that are still to be sent. The caller of ``send(_:)`` owns the memory.
    private(set) var unsent = UnsafeRawBufferPointer(start: nil, count: 0)
    private let peer: Peer
    private var carry = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var carriedBytes = 0
    private var scannedBytes = 0

    /// Connects to `peer`.
    init(to peer: Peer, index: Int) throws(BenchError) {
        self.peer = peer
        self.index = index
        descriptor = try UnixSocket.connect(to: peer.socketPath)
    }

    deinit {
        close(descriptor)
        carry.deallocate()
    }

    /// Sends as much as the socket accepts now, and keeps the rest for ``flush()``.
    ///
    /// `bytes` must remain valid until all of them have been sent. There must be no unsent bytes of an earlier call.
    @inline(__always)
    func send(_ bytes: UnsafeRawBufferPointer) throws(BenchError) {
        unsent = bytes
        try flush()
    }

    /// Sends as many of the ``unsent`` bytes as the socket accepts now.
    @inline(__always)
    func flush() throws(BenchError) {
        while unsent.count > 0 {
            let sent = Glibc.send(descriptor, unsent.baseAddress, unsent.count, Int32(MSG_NOSIGNAL))
            if sent < 0 {
                switch errno {
                case EINTR: continue
                case EAGAIN: return
                case EPIPE, ECONNRESET: throw closedByServer()
                default: throw .system("send to \(peer.name)")
                }
            }
            unsent = UnsafeRawBufferPointer(rebasing: unsent[sent...])
        }
    }

    /// Reads the available input and calls `body` with each complete reply.
    ///
    /// A read that does not fill the buffer has emptied the socket. Therefore no second read is needed, even with
    /// edge-triggered notification (epoll(7), question 9).
    /// - Parameter scratch: the buffer to read into.
    @inline(__always)
    func receive(
        into scratch: UnsafeMutableRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws(BenchError) -> Void
    ) throws(BenchError) {
        while true {
            let buffer = carriedBytes == 0 ? scratch : roomAfterCarry()
            let received = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if received < 0 {
                if errno == EINTR { continue }
                if errno == EAGAIN { return }
                if errno == ECONNRESET { throw closedByServer() }
                throw .system("recv from \(peer.name)")
            }
            if received == 0 { throw closedByServer() }
            try split(
                carriedBytes == 0
                    ? UnsafeRawBufferPointer(rebasing: scratch[..<received])
                    : UnsafeRawBufferPointer(rebasing: carry[..<(carriedBytes + received)]),
                body)
            if received < buffer.count { return }
        }
    }

    /// Splits `bytes` into replies, and keeps an incomplete one for the next read.
    @inline(__always)
    private func split(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws(BenchError) -> Void
    ) throws(BenchError) {
        var rest = bytes
        var scanned = scannedBytes
        scannedBytes = 0
        while rest.count > 0 {
            switch peer.framing.firstFrame(in: rest, scanned: scanned) {
            case .complete(let size):
                try body(UnsafeRawBufferPointer(rebasing: rest[..<size]))
                rest = UnsafeRawBufferPointer(rebasing: rest[size...])
                scanned = 0
            case .partial(let seen):
                scannedBytes = seen
                keep(rest)
                return
            case .malformed:
                throw BenchError("\(peer.name) sent an invalid reply: \(ReplyText.excerpt(rest))")
            }
        }
        carriedBytes = 0
    }

    /// Copies an incomplete reply to the start of the buffer of this connection. The reply may already be in this
    /// buffer, at another place.
    private func keep(_ bytes: UnsafeRawBufferPointer) {
        if carry.count < bytes.count { grow(to: bytes.count * 2) }
        if let from = bytes.baseAddress, let to = carry.baseAddress, from != UnsafeRawPointer(to) {
            memmove(to, from, bytes.count)
        }
        carriedBytes = bytes.count
    }

    private func roomAfterCarry() -> UnsafeMutableRawBufferPointer {
        let room = max(16 * 1024, carriedBytes)
        if carry.count - carriedBytes < room { grow(to: carriedBytes + room) }
        return UnsafeMutableRawBufferPointer(rebasing: carry[carriedBytes...])
    }

    private func grow(to capacity: Int) {
        let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: UnsafeRawBufferPointer(rebasing: carry[..<carriedBytes]))
        carry.deallocate()
        carry = larger
    }

    private func closedByServer() -> BenchError {
        BenchError("\(peer.name) closed a connection that was in use; check its log and its limits")
    }
}
