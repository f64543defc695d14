import LarderEventLoop
import Foundation
import LarderJSON
import LarderProtocol
import NIOCore

@testable import LarderServer

/// Connections on one event loop, with the client ends of their sockets. Used only on the loop.
final class ConnectionGroup {
    private(set) var connections: [ConnectionProbe] = []
    private(set) var ends: [CInt] = []
    private let server: LoopServer
    private let (limits, room): (ConnectionLimits, CInt)
    /// Whether each connection was open when a client last called the method `inspect`.
    var wereOpen: [Bool] = []

    /// - Parameter room: the size in bytes of the send buffer of each connection, which holds the output that its
    ///   client has not read.
    init(
        _ count: Int, on eventLoop: EpollLoop, _ server: ServerContext, limits: ConnectionLimits = ConnectionLimits(),
        room: CInt = 4096
    ) throws {
        var table = MethodRegistry.agent
        var inspect: () -> Void = {}
        table.addSlow()
        table.add(
            "large",
            { (writer) throws(WireError) in
                writer.string(String(repeating: "x", count: 50_000))
            })
        table.add(
            "inspect",
            { (writer) throws(WireError) in
                inspect()
                writer.value(true)
            })
        self.server = LoopServer(
            LoopLoad(eventLoop: eventLoop), eventLoop.epoll, server: server, methods: table,
            registry: ConnectionRegistry())
        (self.limits, self.room) = (limits, room)
        for _ in 0..<count { try join() }
        inspect = { [unowned self] in wereOpen = self.connections.map { !$0.isClosed } }
    }

    private func join() throws {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        var pair: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, type, 0, &pair) == 0 else { throw ConnectionClient.NoSocket() }
        var room = room
        setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, socklen_t(MemoryLayout<CInt>.size))
        connections.append(ConnectionProbe.start(pair[1], on: server, limits: limits, limit: .max))
        ends.append(pair[0])
    }

    var eventsSent: Int { server.traffic.eventsSent }
    var requestsInFlight: Int { server.traffic.requestsInFlight }

    func close() {
        for connection in connections { connection.close() }
        for end in ends { Glibc.close(end) }
    }

    /// Reads the bytes that a client has received, at most 4,096.
    func received(by client: Int) -> String {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = recv(ends[client], &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
    }

    /// Reads all bytes that a client has received.
    func allReceived(by client: Int) -> String {
        var all = ""
        while true {
            let more = received(by: client)
            if more.isEmpty { return all }
            all += more
        }
    }

    func send(_ line: String, by client: Int) {
        let bytes = Array((line + "\n").utf8)
        _ = bytes.withUnsafeBytes { Foundation.send(ends[client], $0.baseAddress, $0.count, 0) }
    }
}
