import Glibc

/// The location of the agent socket. A path that begins with `@` names an abstract socket (unix(7)).
///
/// ```swift
/// print(LarderSocket.defaultPath)
/// let client = LarderClient(socket: LarderSocket.systemPath)
/// ```
public enum LarderSocket {
    /// The environment variable that overrides the path of the socket.
    public static let environmentVariable = "LARDER_SOCKET"
    /// The socket of the system-wide agent.
    public static let systemPath = "/run/larder/larder.sock"

    /// The default socket: `$LARDER_SOCKET`, else `$XDG_RUNTIME_DIR/larder/larder.sock` if it exists, else
    /// ``systemPath``. An empty variable counts as unset.
    public static var defaultPath: String {
        path(environment: { name in getenv(name).map { String(cString: $0) } }, exists: { access($0, F_OK) == 0 })
    }

    /// The socket of the user's own agent; nil if `$XDG_RUNTIME_DIR` is unset or `$LARDER_SOCKET` overrides the path.
    static var userPath: String? {
        func value(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        if value(environmentVariable) != nil { return nil }
        return value("XDG_RUNTIME_DIR").map { "\($0)/larder/larder.sock" }
    }

    /// Computes ``defaultPath`` from the given environment and file system. An empty variable counts as unset, as the
    /// XDG Base Directory Specification requires.
    static func path(environment: (String) -> String?, exists: (String) -> Bool) -> String {
        if let named = environment(environmentVariable), !named.isEmpty { return named }
        if let directory = environment("XDG_RUNTIME_DIR"), !directory.isEmpty {
            let user = "\(directory)/larder/larder.sock"
            if exists(user) { return user }
        }
        return systemPath
    }
}

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
    /// - Throws: the error of connect(2), or `EINVAL` if the path is empty, which would name the abstract socket with
    ///   the empty name
    package static func connect(_ path: String, isBlocking: Bool) throws(ConnectError) -> CInt {
        if path.isEmpty { throw ConnectError(code: EINVAL) }
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
