import CLinuxShims
import Glibc

/// A connection over which one question is asked at a time, with calls that wait: what a simple client does.
final class WaitingConnection {
    private let descriptor: Int32
    private let name: String
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 4096)

    /// Connects to the socket of `name`, which errors speak of.
    /// - Parameter patience: seconds without a byte after which the server has failed
    init(to path: String, name: String, patience: Int = 10) throws(BenchError) {
        self.name = name
        descriptor = try UnixSocket.connect(to: path)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
        var limit = timeval(tv_sec: patience, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
        buffer.deallocate()
    }

    /// Sends all of a question.
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

    /// Waits for the line that answers, with the descriptor that comes with it, which then is the caller's; -1 for none.
    ///
    /// The line's memory may be changed, and is used again by the next call.
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
    /// - Returns: how many bytes came, at least one
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
        if received == 0 { throw BenchError(.closed, "\(name) closed a connection that was in use (see its log)") }
        if errno == EAGAIN { throw BenchError(.silent, "no answer from \(name)") }
        throw .system("recv from \(name)")
    }
}
