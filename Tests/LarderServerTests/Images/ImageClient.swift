import CLinuxShims
import Foundation
import LarderJSON
import LarderProtocol
import NIOPosix

@testable import LarderServer

/// The client's end of a connection. Reading waits for what is certain to come, on a thread of its own: those of tasks are
/// few, and the connection needs them.
final class ImageClient: Sendable {
    private static let threads: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 16)
        pool.start()
        return pool
    }()

    private let socket: CInt
    /// Of this connection alone.
    private let registry: ConnectionRegistry

    init(_ socket: CInt, _ registry: ConnectionRegistry) { (self.socket, self.registry) = (socket, registry) }

    deinit { close(socket) }

    /// Sends lines.
    func send(_ lines: String...) async throws {
        try await Self.threads.runIfActive { try self.write(lines) }
    }

    /// Sends a line or a part of one, and descriptors with its first byte.
    func send(_ text: String, passing descriptors: [CInt]) async throws {
        try await Self.threads.runIfActive { [socket] in
            let bytes = Array(text.utf8)
            var count = -1
            repeat {
                // The session may not have read what was sent before.
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

    /// Ends the connection, and returns when the agent's side is closed.
    func end() async throws {
        shutdown(socket, Int32(SHUT_RDWR))
        await registry.waitUntilEmpty()
    }

    /// Returns once the connection has an answer to everything that was asked, whether the client reads it or not.
    func answers() async {
        while await registry.traffic().requestsInFlight > 0 { await Task.yield() }
    }

    /// Reads so many lines, and counts the descriptors that came with them.
    ///
    /// - Parameter takesDescriptors: whether it is a client that knows of them; another one just reads
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

    /// Asks for an image.
    func get(_ url: String, _ more: String = "", id: Int = 1) async throws -> JSONValue {
        try await call(Self.request(url, more, id: id))
    }

    /// The line that asks for an image.
    static func request(_ url: String, _ more: String = "", id: Int = 1) -> String {
        #"{"id":\#(id),"method":"image.get","params":{"url":"\#(url)"\#(more)}}"#
    }
}
