import LarderEventLoop
import Glibc

/// The registration of a connection's socket with the epoll instance of its loop.
struct SocketRegistration {
    private var isRegistered = false
    /// The events that are watched for.
    private var interest: EpollEvents = [.readable, .inputEnded, .onEdges]

    mutating func add(_ socket: CInt, of connection: Connection, to epoll: Epoll) throws(EpollError) {
        try epoll.add(socket, interest, connection)
        isRegistered = true
    }

    /// Sets whether the loop reports that the socket has room. This is needed only while output is pending. Otherwise
    /// the kernel would report an event for each reply that the client reads.
    mutating func waitUntilWritable(_ isWanted: Bool, _ socket: CInt, in epoll: Epoll) {
        guard isWanted != interest.contains(.writable) else { return }
        if isWanted { interest.insert(.writable) } else { interest.remove(.writable) }
        if isRegistered { epoll.change(socket, to: interest) }
    }

    /// Removes a socket that the caller is about to close.
    mutating func remove(_ socket: CInt, from epoll: Epoll) {
        if isRegistered { epoll.forget(socket) }
        isRegistered = false
    }
}
