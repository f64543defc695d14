import CLinuxShims
import Glibc

/// A connection with blocking calls for one request at a time, as a simple client uses it.
final class BlockingConnection {
    private let descriptor: Int32
    private let name: String
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 4096)

    /// Connects to a socket.
    /// - Parameters:
    ///   - name: the name of the server in error messages
    ///   - timeout: the number of seconds without input after which the server is considered to have failed
    init(to path: String, name: String, timeout: Int = 10) throws(BenchError) {
        self.name = name
        descriptor = try UnixSocket.connect(to: path)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
        var limit = timeval(tv_sec: timeout, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
        buffer.deallocate()
    }

    /// Sends all bytes of a request.
    func send(_ bytes: UnsafeRawBufferPointer) throws(BenchError) {
        var rest = bytes
        while rest.count > 0 {
            let sent = Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            if sent < 0 {
                if errno == EINTR { continue }
                throw .system("send to \(name)")
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[sent...])
        }
    }

    /// Waits for the reply line. Also returns the descriptor that came with it, which the caller must close;
    /// -1 without a descriptor.
    ///
    /// The caller may change the memory of the line. The next call reuses that memory.
    func line() throws(BenchError) -> (bytes: UnsafeMutableRawBufferPointer, descriptor: Int32) {
        var filled = 0
        var passed: Int32 = -1
        while true {
            var count = 0
            let room = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            guard room.count > 0 else { throw BenchError(.unexpected, "\(name) sent a line of \(filled) bytes") }
            var descriptor: Int32 = -1
            let received = larder_receive_descriptors(
                self.descriptor, room.baseAddress, room.count, &descriptor, 1, &count)
            if received < 0, errno == EINTR { continue }
            try check(received)
            if count > 0 { passed = descriptor }
            filled += received
            if buffer[filled - 1] == UInt8(ascii: "\n") {
                return (UnsafeMutableRawBufferPointer(rebasing: buffer[..<filled]), passed)
            }
        }
    }

    /// Reads once into a buffer.
    /// - Returns: the number of bytes read, at least one
    func read(into room: UnsafeMutableRawBufferPointer) throws(BenchError) -> Int {
        while true {
            let received = recv(descriptor, room.baseAddress, room.count, 0)
            if received < 0, errno == EINTR { continue }
            try check(received)
            return received
        }
    }

    private func check(_ received: Int) throws(BenchError) {
        if received > 0 { return }
        if received == 0 { throw BenchError(.closed, "\(name) closed a connection that was in use; check its log") }
        if errno == EAGAIN { throw BenchError(.silent, "\(name) did not reply in time") }
        throw .system("recv from \(name)")
    }
}
