import LarderEventLoop
import CLinuxShims
import Foundation
import NIOCore
import NIOEmbedded
import Synchronization

@testable import LarderServer

/// The client of a connection whose event loop runs when the test says so: nobody waits for its sockets, so that the connection is
/// told by the client what there is to do.
final class ConnectionClient: Sendable {
    /// The connection's event loop. Its time moves when it is told to.
    let eventLoop = NIOAsyncTestingEventLoop()
    private let socket: CInt
    private let connection: NIOLoopBound<ConnectionProbe>
    /// What the connection's user has in use.
    let usage: UserUsage

    struct NoSocket: Error {}

    /// Connects to a connection.
    init(_ connect: @escaping @Sendable (any ServerEventLoop, CInt) throws -> ConnectionProbe) async throws {
        var ends: [CInt] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw NoSocket() }
        socket = ends[0]
        let (eventLoop, end) = (eventLoop, ends[1])
        (connection, usage) = try await eventLoop.executeInContext {
            let probe = try connect(eventLoop, end)
            return (NIOLoopBound(probe, eventLoop: eventLoop), probe.usage)
        }
    }

    deinit { close(socket) }

    /// Sends bytes, and has the connection do what there is to do about them.
    func send(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw NoSocket() }
            rest = rest.dropFirst(count)
            try await tell(.readable)
        }
    }

    /// Sends text.
    func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    /// Sends lines one after the other, each with a descriptor, before the connection is told of any.
    func send(_ lines: [String], passing descriptor: CInt) async throws {
        for line in lines {
            let count = Array(line.utf8).withUnsafeBytes { bytes in
                larder_send_descriptors(socket, bytes.baseAddress, bytes.count, [descriptor], 1)
            }
            guard count == line.utf8.count else { throw NoSocket() }
        }
        try await tell(.readable)
    }

    /// Sends text, and has the connection take one turn.
    /// - Returns: how many requests it has taken so far.
    func sendAndTakeTurn(_ text: String) async throws -> Int {
        let bytes = Array(text.utf8)
        guard bytes.withUnsafeBytes({ Foundation.send(socket, $0.baseAddress, $0.count, 0) }) == bytes.count else {
            throw NoSocket()
        }
        let connection = connection
        return try await eventLoop.executeInContext {
            connection.value.ready(.readable)
            return connection.value.requests
        }
    }

    /// Has the connection take all the turns that it wants.
    /// - Returns: how many requests it had taken before each of them, and after the last.
    @discardableResult
    func takeTurns() async throws -> [Int] {
        let observer = TurnObserver(connection, eventLoop)
        try await eventLoop.executeInContext { observer.look() }
        await eventLoop.run()
        return observer.counts.withLock { $0 }
    }

    /// Stands in the queue of the event loop between one turn of a connection and the next.
    private final class TurnObserver: Sendable {
        private let connection: NIOLoopBound<ConnectionProbe>
        private let eventLoop: NIOAsyncTestingEventLoop
        let counts = Mutex<[Int]>([])

        init(_ connection: NIOLoopBound<ConnectionProbe>, _ eventLoop: NIOAsyncTestingEventLoop) {
            (self.connection, self.eventLoop) = (connection, eventLoop)
        }

        func look() {
            counts.withLock { $0.append(connection.value.requests) }
            if connection.value.isResumeScheduled { eventLoop.execute { self.look() } }
        }
    }

    /// Says that nothing more comes, as `socat` does at the end of its input.
    func endInput() async throws {
        shutdown(socket, Int32(SHUT_WR))
        try await tell([.readable, .inputEnded])
    }

    /// Ends the connection.
    func end() async throws {
        shutdown(socket, Int32(SHUT_RDWR))
        try await tell([.readable, .inputEnded, .hungUp])
    }

    /// Sends text and is gone, before the connection has read any of it.
    func sendAndLeave(_ text: String) async throws {
        let bytes = Array(text.utf8)
        guard bytes.withUnsafeBytes({ Foundation.send(socket, $0.baseAddress, $0.count, 0) }) == bytes.count else {
            throw NoSocket()
        }
        try await end()
    }

    /// Sends text and is gone as a process is that ends: what was sent to it is never read, and the kernel tells of that.
    func sendAndDie(_ text: String) async throws {
        let bytes = Array(text.utf8)
        let nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer { close(nothing) }
        guard bytes.withUnsafeBytes({ Foundation.send(socket, $0.baseAddress, $0.count, 0) }) == bytes.count,
            dup2(nothing, socket) == socket
        else { throw NoSocket() }
        try await tell([.readable, .inputEnded, .hungUp])
    }

    /// Whether the connection has ended.
    var isClosed: Bool {
        get async throws {
            let connection = connection
            return try await eventLoop.executeInContext { connection.value.isClosed }
        }
    }

    /// The lines that came out since it was asked last.
    func output() async throws -> [String] {
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = recv(socket, &piece, piece.count, 0)
            if count <= 0 { break }
            output += piece[..<count]
            try await tell(.writable)
        }
        return String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private func tell(_ events: EpollEvents) async throws {
        let connection = connection
        try await eventLoop.executeInContext { if !connection.value.isClosed { connection.value.ready(events) } }
        await eventLoop.run()
    }
}
