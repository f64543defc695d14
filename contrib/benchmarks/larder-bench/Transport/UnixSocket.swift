import Glibc

/// Opens Unix domain stream sockets and identifies their peer.
enum UnixSocket {
    /// The time after which a connection attempt to a listener with a full accept queue is abandoned.
    static let connectTimeoutNanoseconds: UInt64 = 10_000_000_000

    /// Connects to the listener at `path` with a non-blocking socket (unix(7)).
    ///
    /// If the accept queue of the listener is full, connect(2) fails with `EAGAIN` on such a socket. It is then
    /// repeated every millisecond.
    static func connect(to path: String) throws(BenchError) -> Int32 {
        let descriptor = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else {
            if errno == EMFILE {
                throw BenchError(
                    "the limit of open files does not allow another connection; raise it (ulimit -n)")
            }
            throw .system("socket")
        }
        var address = try address(of: path)
        let giveUp = MonotonicClock.nanoseconds() &+ connectTimeoutNanoseconds
        while true {
            let result = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            if result == 0 { return descriptor }
            let reason = errno
            if reason == EINTR { continue }
            if reason == EAGAIN, MonotonicClock.nanoseconds() < giveUp {
                usleep(1000)
                continue
            }
            close(descriptor)
            throw BenchError("cannot connect to \(path): \(String(cString: strerror(reason)))")
        }
    }

    /// The process that listens on the socket (`SO_PEERCRED`); nil if the kernel does not report it.
    static func peerProcess(of descriptor: Int32) -> pid_t? {
        // struct ucred { pid_t pid; uid_t uid; gid_t gid; } is not available in Swift.
        var credentials: (process: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
        var size = socklen_t(MemoryLayout.size(ofValue: credentials))
        let result = getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size)
        return result == 0 && credentials.process > 0 ? credentials.process : nil
    }

    private static func address(of path: String) throws(BenchError) -> sockaddr_un {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let room = MemoryLayout.size(ofValue: address.sun_path) - 1
        guard !bytes.isEmpty, bytes.count <= room else {
            throw BenchError(
                "the socket path has \(bytes.count) bytes, but must have 1 to \(room): \(path)")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return address
    }
}
