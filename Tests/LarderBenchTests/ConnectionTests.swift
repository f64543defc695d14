import Glibc
import Testing

@testable import larder_bench

@Suite("Benchmark connections")
struct ConnectionTests {
    /// A listening socket.
    private final class Listener {
        let path = "/tmp/larder-bench-test.\(getpid()).\(UInt32.random(in: 0 ... .max))"
        private let descriptor = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        private var accepted: [Int32] = []

        init() throws {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
            let bound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            try #require(bound == 0 && listen(descriptor, 8) == 0)
        }

        deinit {
            for other in accepted { close(other) }
            close(descriptor)
            unlink(path)
        }

        func accept() throws -> Int32 {
            let other = Glibc.accept(descriptor, nil, nil)
            try #require(other >= 0)
            _ = fcntl(other, F_SETFD, FD_CLOEXEC)
            accepted.append(other)
            return other
        }
    }

    private func sendAll(_ bytes: [UInt8], to descriptor: Int32) {
        #expect(send(descriptor, bytes, bytes.count, 0) == bytes.count)
    }

    @Test("replies are split correctly, wherever the reads end", arguments: [1, 2, 3, 7, 64, 100_000])
    func splitsReplies(scratchBytes: Int) throws {
        let listener = try Listener()
        let connection = try Connection(to: Peer(kind: .larder, socketPath: listener.path), index: 0)
        let server = try listener.accept()
        let replies = [
            "{}", String(repeating: "x", count: 40_000), "", "{\"id\":1}", String(repeating: "y", count: 90),
        ]
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: scratchBytes, alignment: 16)
        defer { scratch.deallocate() }
        var received: [String] = []
        // The pieces end in the middle of replies.
        var rest = Array(replies.map { $0 + "\n" }.joined().utf8)[...]
        while !rest.isEmpty {
            sendAll(Array(rest.prefix(17_001)), to: server)
            rest = rest.dropFirst(17_001)
            try connection.receive(into: scratch) { (reply) throws(BenchError) in
                received.append(String(decoding: reply.dropLast(), as: UTF8.self))
            }
        }
        #expect(received == replies)
    }

    @Test("bytes that a full socket does not accept are sent later by the loop")
    func sendsTheRestLater() throws {
        let listener = try Listener()
        let loop = try EpollLoop()
        let connection = try Connection(to: Peer(kind: .larder, socketPath: listener.path), index: 0)
        try loop.add(connection)
        let server = try listener.accept()
        let bytes = PreparedBytes([UInt8](repeating: 0x61, count: 4_000_000))
        try loop.send(bytes.buffer, on: connection)
        #expect(connection.unsent.count > 0)
        var buffer = [UInt8](repeating: 0, count: 65536)
        var received = 0
        while received < bytes.buffer.count {
            let count = recv(server, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            received += max(0, count)
            // The socket is certain to be writable again only once the test has received all bytes in the socket
            // buffer.
            if count < 0 { try loop.processEvents { _ in } }
        }
        #expect(connection.unsent.count == 0)
    }

    @Test("a connection that the server closes fails")
    func closed() throws {
        let listener = try Listener()
        let connection = try Connection(to: Peer(kind: .larder, socketPath: listener.path), index: 0)
        shutdown(try listener.accept(), Int32(SHUT_RDWR))
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 16)
        defer { scratch.deallocate() }
        let failure = #expect(throws: BenchError.self) {
            try connection.receive(into: scratch) { _ in }
        }
        #expect(failure?.description.contains("closed a connection") == true)
    }

    @Test("a missing or overlong socket path fails")
    func unreachable() {
        for path in ["/nonexistent/larder.sock", String(repeating: "x", count: 200), ""] {
            #expect(throws: BenchError.self) { try Connection(to: Peer(kind: .larder, socketPath: path), index: 0) }
        }
    }
}
