import Glibc

/// A connection for requests outside the measurement. They are sent one at a time, and the replies are copied.
struct ControlConnection {
    private let peer: Peer
    private let connection: Connection
    private let loop: EpollLoop

    /// Connects to `peer`.
    init(to peer: Peer) throws(BenchError) {
        self.peer = peer
        connection = try Connection(to: peer, index: 0)
        loop = try EpollLoop()
        try loop.add(connection)
    }

    /// The process of the server; nil if the kernel does not report it.
    var serverProcess: pid_t? { UnixSocket.peerProcess(of: connection.descriptor) }

    /// Sends `request` and waits for `count` replies.
    /// - Throws: an error if one of them is an error.
    @discardableResult
    func request(_ request: [UInt8], replies count: Int = 1) throws(BenchError) -> [[UInt8]] {
        let bytes = PreparedBytes(request)
        try loop.send(bytes.buffer, on: connection)
        var replies: [[UInt8]] = []
        while replies.count < count {
            try loop.processEvents { (connection) throws(BenchError) in
                try connection.receive(into: loop.scratch) { (frame) throws(BenchError) in
                    if let failure = peer.failure(in: frame) { throw failure }
                    replies.append(Array(frame))
                }
            }
        }
        return replies
    }
}
