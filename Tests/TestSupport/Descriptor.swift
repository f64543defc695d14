import CLinuxShims
package import Glibc

/// An owned file descriptor. It is closed exactly once, at the latest when this object is released.
package final class Descriptor {
    package private(set) var number: CInt

    package init(_ number: CInt) { self.number = number }

    /// Creates a pipe. Children do not inherit it.
    package static func pipe() throws -> (read: Descriptor, write: Descriptor) {
        var ends: [CInt] = [-1, -1]
        guard larder_pipe(&ends, false) == 0 else { throw HarnessError.system("pipe") }
        return (Descriptor(ends[0]), Descriptor(ends[1]))
    }

    /// Creates a socket. Children do not inherit it.
    package static func socket(_ family: CInt, _ type: __socket_type) throws -> Descriptor {
        let number = Glibc.socket(family, CInt(type.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { throw HarnessError.system("socket") }
        return Descriptor(number)
    }

    /// Connects to a port of 127.0.0.1.
    package static func connected(toPort port: Int) throws -> Descriptor {
        let socket = try socket(AF_INET, SOCK_STREAM)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket.number, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw HarnessError.system("connect to port \(port)") }
        return socket
    }

    package func makeNonBlocking() { _ = fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK) }

    package func close() {
        if number >= 0 { Glibc.close(number) }
        number = -1
    }

    deinit { close() }
}

/// Calls `body` with the address of a Unix socket.
package func withUnixAddress<Result>(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result
) throws -> Result {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
        throw HarnessError("the socket path \(path) is too long")
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    return try withUnsafePointer(to: &address) { pointer in
        try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            try body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}

/// Raises the descriptor limit of this process, and of the agents that it starts, to the hard limit.
package func raiseDescriptorLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}
