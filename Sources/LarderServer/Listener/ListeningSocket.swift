import LarderPlatform
import LarderUpstream
import Glibc
import SystemPackage

/// The Unix socket that the server listens on. It is created here or passed by systemd.
///
/// A passed socket belongs to the process that created it, so this class never unlinks it or shuts it down. A socket
/// created here is protected by a lock file next to it. When the server stops, the socket file is unlinked only if the
/// file's inode is unchanged.
package final class ListeningSocket: Sendable {
    package let descriptor: CInt
    /// The path for display. An abstract socket (unix(7)) is shown as its name with the prefix `@`.
    package let path: String
    /// Whether the socket was passed to this process.
    package let isActivated: Bool
    /// The maximum number of connections that wait to be accepted. The kernel limits it to `net.core.somaxconn`
    /// (listen(2)). systemd has the same default for `Backlog=`.
    private static let backlog = CInt.max
    private let lock: FileLock?
    private let inode: UInt64?

    /// The directory of the socket file; nil if the socket is abstract.
    package var directory: String? {
        path.hasPrefix("/") ? splitPath(path).directory : nil
    }

    /// Uses a socket that was passed to this process.
    package init(activated descriptor: CInt) {
        self.descriptor = descriptor
        isActivated = true
        lock = nil
        inode = nil
        path = Self.path(of: descriptor)
    }

    /// Creates a socket.
    /// - Parameters:
    ///   - mode: the permission bits of the socket file. Users with write permission may connect (unix(7)).
    ///   - group: the name or id of the group that owns the file; nil for the group of the process
    package init(path: String, mode: UInt32, group: String?) throws(ServerError) {
        self.path = path
        isActivated = false
        let lock = try Self.lock(path + ".lock", socket: path)
        do throws(ServerError) {
            try Self.removeStale(path)
            descriptor = try Self.bind(path, mode: mode)
            self.lock = lock
            var information = stat()
            inode = stat(path, &information) == 0 ? UInt64(information.st_ino) : nil
            if let group { try Self.setGroup(path, to: group, mode: mode) }
            guard listen(descriptor, Self.backlog) == 0 else { throw ServerError("listen on", path) }
        } catch {
            lock.unlock()
            throw error
        }
    }

    /// Closes the socket. If it was created here, unlinks the socket file unless it was replaced, and releases the
    /// lock. A passed socket continues to queue connections for other processes that hold it.
    package func remove() {
        defer { Glibc.close(descriptor) }
        guard let lock else { return }
        var information = stat()
        if let inode, stat(path, &information) == 0, UInt64(information.st_ino) == inode { unlink(path) }
        lock.unlock()
    }

    /// The owner, group and mode of the socket file, for the log.
    package var permissions: String {
        var information = stat()
        guard stat(path, &information) == 0 else { return "unknown" }
        let mode = String(information.st_mode & 0o7777, radix: 8)
        return "0\(mode) uid \(information.st_uid) gid \(information.st_gid)"
    }

    // MARK: Creation

    /// The lock file is never removed. Otherwise one agent could hold a lock on the removed file while another agent
    /// holds a lock on a new file with the same name.
    private static func lock(_ lockPath: String, socket: String) throws(ServerError) -> FileLock {
        let descriptor = uninterrupted { open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600) }
        guard descriptor >= 0 else { throw ServerError("open", lockPath) }
        do throws(FileLock.Failure) {
            return try FileLock(descriptor)
        } catch {
            if case .failed(let error) = error { throw ServerError("lock", lockPath, error) }
            throw ServerError(
                "another agent is starting or running on \(socket); stop it, or choose another path with --socket")
        }
    }

    /// Removes the socket file of an agent that is no longer running. Fails if an agent accepts connections on it.
    private static func removeStale(_ path: String) throws(ServerError) {
        var information = stat()
        guard lstat(path, &information) == 0 else { return }
        guard information.st_mode & S_IFMT == S_IFSOCK else {
            throw ServerError(
                "\(path) exists but is not a socket; remove it, or choose another path with --socket")
        }
        let probe = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard probe >= 0 else { throw ServerError("create a socket for", path) }
        defer { close(probe) }
        if try withAddress(path, { connect(probe, $0, $1) }) == 0 {
            throw ServerError(
                "another agent is listening on \(path); stop it, or choose another path with --socket")
        }
        guard errno == ECONNREFUSED else { throw ServerError("probe", path) }
        guard unlink(path) == 0 || errno == ENOENT else { throw ServerError("remove the stale socket", path) }
    }

    private static func bind(_ path: String, mode: UInt32) throws(ServerError) -> CInt {
        let descriptor = socket(
            AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw ServerError("create a socket for", path) }
        do throws(ServerError) {
            // bind(2) gives the file the mode of the descriptor, narrowed by the umask. So the file never has more
            // permissions than `mode`.
            guard fchmod(descriptor, mode) == 0 else { throw ServerError("set the mode of", path) }
            guard try withAddress(path, { Glibc.bind(descriptor, $0, $1) }) == 0 else {
                throw ServerError("bind", path)
            }
            // Adds the bits that the umask removed at bind(2).
            guard chmod(path, mode) == 0 else { throw ServerError("set the mode of", path) }
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    private static func setGroup(_ path: String, to group: String, mode: UInt32) throws(ServerError) {
        guard let number = gid_t(group) ?? getgrnam(group)?.pointee.gr_gid else {
            throw ServerError(
                "group \"\(group)\" does not exist (socket.group); create it, or name another group")
        }
        guard chown(path, uid_t.max, number) == 0 else {
            throw ServerError("set group \"\(group)\" on", path)
        }
    }

    private static func withAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
    ) throws(ServerError) -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw ServerError(
                "the socket path \(path) has \(bytes.count) bytes; use at most 107 (unix(7))")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    private static func path(of descriptor: CInt) -> String {
        var address = sockaddr_un()
        var length = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard result == 0 else { return "" }
        let count = Int(length) - (MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 0)
        return withUnsafeBytes(of: &address.sun_path) { bytes in
            guard count > 1, bytes[0] == 0 else { return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
            // An abstract name extends to the end of the address. It begins with a zero byte and may contain further
            // zero bytes. Each is shown as "@", as systemd does.
            return String(decoding: bytes.prefix(count).map { $0 == 0 ? UInt8(ascii: "@") : $0 }, as: UTF8.self)
        }
    }
}

/// The error thrown if the server cannot listen, or cannot update the plain copies.
package struct ServerError: Error, Sendable, CustomStringConvertible {
    /// A text in one line: what happened and, if known, what to do.
    package let description: String

    init(_ description: String) { self.description = description }

    /// Describes a failed system call.
    init(_ operation: String, _ path: String, _ error: Errno = .current) {
        self.init("cannot \(operation) \(path): \(error)")
    }
}
