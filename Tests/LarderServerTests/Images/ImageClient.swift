import CLinuxShims
import Foundation
import LarderJSON
import LarderProtocol
import NIOPosix

@testable import LarderServer

/// The client side of a connection. Reads and writes block threads of a dedicated pool, because the agent side of the
/// connection needs the few threads of the task pool.
final class ImageClient: Sendable {
    private static let threads: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 16)
        pool.start()
        return pool
    }()

    private let socket: CInt
    /// A registry with only this connection.
    private let registry: ConnectionRegistry

    init(_ socket: CInt, _ registry: ConnectionRegistry) { (self.socket, self.registry) = (socket, registry) }

    deinit { close(socket) }

    func send(_ lines: String...) async throws {
        try await Self.threads.runIfActive { try self.write(lines) }
    }

    /// Sends a line or a part of a line, and passes descriptors with the first byte.
    func send(_ text: String, passing descriptors: [CInt]) async throws {
        try await Self.threads.runIfActive { [socket] in
            let bytes = Array(text.utf8)
            var count = -1
            repeat {
                // Waits for room in the socket, because the agent may not have read the previous lines.
                var room = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
                _ = poll(&room, 1, -1)
                count = larder_send_descriptors(socket, bytes, bytes.count, descriptors, descriptors.count)
            } while count < 0 && errno == EAGAIN
            guard count == bytes.count else { throw ImageFixture.Failure.socket }
        }
    }

    private func write(_ lines: [String]) throws {
        let bytes = Array((lines.joined(separator: "\n") + "\n").utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { Foundation.write(socket, $0.baseAddress, $0.count) }
            guard count > 0 else { throw ImageFixture.Failure.socket }
            sent += count
        }
    }

    /// Disconnects, and returns when the agent has closed its side.
    func end() async throws {
        shutdown(socket, Int32(SHUT_RDWR))
        await registry.waitUntilEmpty()
    }

    /// Waits until the agent has answered every request, whether or not the client reads the replies.
    func waitForAnswers() async {
        while await registry.traffic().requestsInFlight > 0 { await Task.yield() }
    }

    /// Reserves memory for a reply to another connection of the agent's own user.
    func reserveReply(_ bytes: Int, _ limits: ConnectionLimits) throws -> ReplyReservation {
        guard let usage = registry.users.join(.own, limits) else { throw ImageFixture.Failure.socket }
        defer { registry.users.leave(usage) }
        return try usage.reserveReply(bytes, limits)
    }

    /// Reads `count` lines and the descriptors that came with them.
    ///
    /// - Parameter takesDescriptors: false to call read(2), as a client without support for descriptors does
    func read(
        _ count: Int, takesDescriptors: Bool = true
    ) async throws -> (lines: [JSONValue], files: [CInt]) {
        try await Self.threads.runIfActive { try self.receive(count, takesDescriptors) }
    }

    private func receive(_ count: Int, _ takesDescriptors: Bool) throws -> (lines: [JSONValue], files: [CInt]) {
        var (text, files): ([UInt8], [CInt]) = ([], [])
        var piece = [UInt8](repeating: 0, count: 4096)
        var ends = 0
        while ends < count {
            var passed = [CInt](repeating: -1, count: 4)
            var found = 0
            let received =
                takesDescriptors
                ? larder_receive_descriptors(socket, &piece, piece.count, &passed, passed.count, &found)
                : Foundation.read(socket, &piece, piece.count)
            guard received > 0 else { throw ImageFixture.Failure.end }
            files += passed.prefix(found)
            text += piece[..<received]
            ends += piece[..<received].count { $0 == 0x0A }
        }
        return (try text.split(separator: 0x0A).map { try JSONValue(parsing: Array($0)) }, files)
    }

    /// Sends one request and reads its reply.
    func call(_ line: String) async throws -> JSONValue {
        try await send(line)
        return try await read(1).lines[0]
    }

    /// Requests an image and reads the reply.
    func get(_ url: String, _ more: String = "", id: Int = 1) async throws -> JSONValue {
        try await call(Self.request(url, more, id: id))
    }

    /// The request line for an image.
    static func request(_ url: String, _ more: String = "", id: Int = 1) -> String {
        #"{"id":\#(id),"method":"image.get","params":{"url":"\#(url)"\#(more)}}"#
    }
}
