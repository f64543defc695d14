import Glibc

extension LarderSocket {
    /// The `errno` of a failed connect(2).
    package struct ConnectError: Error {
        package let code: CInt

        package init(code: CInt) { self.code = code }
    }

    /// Whether a path names an abstract socket (unix(7)): `@` followed by the name of the socket, as systemd writes it.
    /// A path of a socket file whose name begins with `@` must therefore contain a directory: `./@name`.
    package static func isAbstract(_ path: String) -> Bool { path.hasPrefix("@") }

    /// Creates a stream socket and connects it.
    /// - Parameter isBlocking: whether calls on the socket block, including connect(2).
    /// - Returns: the socket, which is close-on-exec.
    package static func connect(_ path: String, isBlocking: Bool) throws(ConnectError) -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // In `sun_path`, a file path ends with a NUL. The name of an abstract socket begins with a NUL and has no
        // terminator.
        let isAbstract = isAbstract(path)
        let name = isAbstract ? [0] + path.utf8.dropFirst() : path.utf8 + [0]
        guard name.count <= MemoryLayout.size(ofValue: address.sun_path) else { throw ConnectError(code: ENAMETOOLONG) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = (MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 0) + name.count
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | (isBlocking ? 0 : SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, CInt(kind), 0)
        guard descriptor >= 0 else { throw ConnectError(code: errno) }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(length))
            }
        }
        if result == 0 { return descriptor }
        let code = errno
        close(descriptor)
        throw ConnectError(code: code)
    }
}
