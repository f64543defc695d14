import LarderEventLoop
import CLinuxShims
import Foundation
import NIOCore
import NIOEmbedded
import Synchronization

@testable import LarderServer

/// The client of a connection whose event loop runs only when a test calls a method of the client. No loop polls the
/// socket: the client reports events of the socket to the connection.
final class ConnectionClient: Sendable {
    /// The connection's event loop, with a manual clock.
    let eventLoop = NIOAsyncTestingEventLoop()
    private let socket: CInt
    private let connection: NIOLoopBound<ConnectionProbe>
    /// The resources used by the connection's user.
    let usage: UserUsage

    struct NoSocket: Error {}

    /// Creates a socket pair, keeps one end for the client, and starts a connection on the other end.
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

    /// Sends bytes and runs the connection until it is idle.
    func send(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw NoSocket() }
            rest = rest.dropFirst(count)
            try await report(.readable)
        }
    }

    /// Sends text and runs the connection until it is idle.
    func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    /// Sends all lines, each with a descriptor, and then runs the connection until it is idle.
    func send(_ lines: [String], passing descriptor: CInt) async throws {
        for line in lines {
            let count = Array(line.utf8).withUnsafeBytes { bytes in
                larder_send_descriptors(socket, bytes.baseAddress, bytes.count, [descriptor], 1)
            }
            guard count == line.utf8.count else { throw NoSocket() }
        }
        try await report(.readable)
    }

    /// Sends text and runs the connection for one time slice.
    /// - Returns: the number of requests that the connection has served since its start
    func sendAndServeOneSlice(_ text: String) async throws -> Int {
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

    /// Runs the connection until it has no deferred work.
    /// - Returns: the number of requests that the connection has served since its start, before each time slice and
    ///   after the last one
    @discardableResult
    func serveAllSlices() async throws -> [Int] {
        let observer = SliceObserver(connection, eventLoop)
        try await eventLoop.executeInContext { observer.record() }
        await eventLoop.run()
        return observer.counts.withLock { $0 }
    }

    /// Records the number of served requests between the time slices of a connection.
    private final class SliceObserver: Sendable {
        private let connection: NIOLoopBound<ConnectionProbe>
        private let eventLoop: NIOAsyncTestingEventLoop
        let counts = Mutex<[Int]>([])

        init(_ connection: NIOLoopBound<ConnectionProbe>, _ eventLoop: NIOAsyncTestingEventLoop) {
            (self.connection, self.eventLoop) = (connection, eventLoop)
        }

        func record() {
            counts.withLock { $0.append(connection.value.requests) }
            if connection.value.isResumeScheduled { eventLoop.execute { self.record() } }
        }
    }

    /// Shuts down the sending side, as `socat` does at the end of its input.
    func endInput() async throws {
        shutdown(socket, Int32(SHUT_WR))
        try await report([.readable, .inputEnded])
    }

    /// Disconnects.
    func end() async throws {
        shutdown(socket, Int32(SHUT_RDWR))
        try await report([.readable, .inputEnded, .hungUp])
    }

    /// Sends text and disconnects before the connection has read any of the text.
    func sendAndDisconnect(_ text: String) async throws {
        let bytes = Array(text.utf8)
        guard bytes.withUnsafeBytes({ Foundation.send(socket, $0.baseAddress, $0.count, 0) }) == bytes.count else {
            throw NoSocket()
        }
        try await end()
    }

    /// Sends text and closes the socket, as the kernel does when a process ends. If the client has not read all output
    /// of the connection, the kernel reports ECONNRESET to the connection.
    func sendAndExit(_ text: String) async throws {
        let bytes = Array(text.utf8)
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer { close(null) }
        guard bytes.withUnsafeBytes({ Foundation.send(socket, $0.baseAddress, $0.count, 0) }) == bytes.count,
            dup2(null, socket) == socket
        else { throw NoSocket() }
        try await report([.readable, .inputEnded, .hungUp])
    }

    var isClosed: Bool {
        get async throws {
            let connection = connection
            return try await eventLoop.executeInContext { connection.value.isClosed }
        }
    }

    /// Whether the client has only monitored the agent.
    var isMonitoring: Bool {
        get async throws {
            let connection = connection
            return try await eventLoop.executeInContext { connection.value.isMonitoring }
        }
    }

    /// The lines that the connection has sent since the last call.
    func output() async throws -> [String] {
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = recv(socket, &piece, piece.count, 0)
            if count <= 0 { break }
            output += piece[..<count]
            try await report(.writable)
        }
        return String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private func report(_ events: EpollEvents) async throws {
        let connection = connection
        try await eventLoop.executeInContext { if !connection.value.isClosed { connection.value.ready(events) } }
        await eventLoop.run()
    }
}
