import CLinuxShims
import Glibc

/// Waits for many connections on one thread (epoll(7), edge-triggered).
///
/// Edge triggering is the cheapest mode here. The kernel need not check a connection again after it was read, and
/// interest in writing is registered only while a socket is full, so there are no needless wake-ups.
final class EpollLoop {
    /// The time without any event after which a server that owes a reply is considered to have failed.
    static let stallMilliseconds: Int32 = 10_000

    /// The buffer for one read, shared by all connections of the loop.
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 4096)
    private let descriptor: Int32
    private let events: UnsafeMutableBufferPointer<larder_epoll_event>
    private var connections: [Connection?] = []

    init() throws(BenchError) {
        events = .allocate(capacity: 1024)
        events.initialize(repeating: larder_epoll_event())
        descriptor = larder_epoll_create()
        guard descriptor >= 0 else { throw .system("epoll_create1") }
    }

    deinit {
        close(descriptor)
        events.deallocate()
        scratch.deallocate()
    }

    /// Watches a connection, which takes the place of an earlier connection with the same index.
    func add(_ connection: Connection) throws(BenchError) {
        while connections.count <= connection.index { connections.append(nil) }
        connections[connection.index] = connection
        try control(LARDER_EPOLL_ADD, connection, LARDER_EPOLL_IN)
    }

    /// Releases a connection. The kernel stops watching the connection when the last owner releases it, which closes
    /// the descriptor.
    func remove(_ connection: Connection) {
        connections[connection.index] = nil
    }

    /// Sends `bytes`, which must remain valid. The bytes that the socket does not accept at once are sent by
    /// ``processEvents(_:)``.
    @inline(__always)
    func send(_ bytes: UnsafeRawBufferPointer, on connection: Connection) throws(BenchError) {
        try connection.send(bytes)
        if connection.unsent.count > 0 {
            try control(LARDER_EPOLL_CHANGE, connection, LARDER_EPOLL_IN | LARDER_EPOLL_OUT)
        }
    }

    /// Waits once, and calls `readable` with every connection that has input.
    /// - Throws: an error if nothing happens within ``stallMilliseconds``.
    @inline(__always)
    func processEvents(_ readable: (Connection) throws(BenchError) -> Void) throws(BenchError) {
        let ready = larder_epoll_wait(descriptor, events.baseAddress, Int32(events.count), Self.stallMilliseconds)
        if ready < 0 {
            if errno == EINTR { return }
            throw .system("epoll_wait")
        }
        if ready == 0 {
            throw BenchError(
                "no reply within \(Self.stallMilliseconds / 1000) s; the server hangs or lost a request")
        }
        for position in 0..<Int(ready) {
            let event = events[position]
            guard let connection = connections[Int(event.number)] else { continue }
            if event.events & LARDER_EPOLL_OUT != 0, connection.unsent.count > 0 {
                try connection.flush()
                if connection.unsent.count == 0 { try control(LARDER_EPOLL_CHANGE, connection, LARDER_EPOLL_IN) }
            }
            if event.events & ~LARDER_EPOLL_OUT != 0 { try readable(connection) }
        }
    }

    private func control(_ operation: Int32, _ connection: Connection, _ interest: UInt32) throws(BenchError) {
        var event = larder_epoll_event()
        event.events = interest | LARDER_EPOLL_ET
        event.number = UInt32(connection.index)
        guard larder_epoll_control(descriptor, operation, connection.descriptor, &event) == 0 else {
            throw .system("epoll_ctl")
        }
    }
}
