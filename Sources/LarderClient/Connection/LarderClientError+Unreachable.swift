import Glibc

extension LarderClientError {
    /// Says why connect(2) failed, each cause with its own advice (the errors are those of connect(2) and unix(7)).
    static func unreachable(_ socket: String, errno code: Int32) -> Self {
        let file = SocketFile(socket)
        let (reason, advice): (String, String?)
        switch code {
        case ENOENT, ENOTDIR:
            // The default is the second place that was looked at.
            let users = socket == LarderSocket.systemPath ? LarderSocket.userPath.map { ", nor at \($0)" } : nil
            reason = "there is no socket at \(socket)\(users ?? "")"
            advice =
                "start the agent (systemctl start larder.socket, or larderd as a user), "
                + "or name its socket in \(LarderSocket.environmentVariable)"
        case EACCES, EPERM:
            reason = "permission denied on \(socket)"
            advice = file.permissionAdvice
        case ECONNREFUSED where file.isThere && !file.isSocket:
            reason = "\(socket) is not a socket"
            advice = "name the agent's socket in \(LarderSocket.environmentVariable)"
        case ECONNREFUSED where LarderSocket.isAbstract(socket):
            reason = "no process listens on the abstract socket \(socket)"
            advice = "start the agent, or name its socket in \(LarderSocket.environmentVariable); a file is ./\(socket)"
        case ECONNREFUSED:
            reason = "nobody listens on \(socket): the agent that made it has stopped"
            advice = "start it again (systemctl restart larder, or larderd as a user)"
        case EAGAIN:
            reason = "the agent at \(socket) does not accept connections fast enough"
            advice = "try again; if this stays, the agent hangs: see its log"
        case EPROTOTYPE:
            reason = "\(socket) is another kind of socket"
            advice = "name the agent's socket in \(LarderSocket.environmentVariable)"
        case ENAMETOOLONG:
            reason = "the socket's path has more than 107 bytes, which Linux does not allow: \(socket)"
            advice = "use a shorter path, or a symbolic link to its directory"
        default:
            reason = "cannot connect to \(socket): \(String(cString: strerror(code)))"
            advice = nil
        }
        return Self(.unreachable, reason, advice: advice, systemError: code)
    }
}

/// What stat(2) knows of the file at a socket's path.
private struct SocketFile {
    private let status: stat?

    init(_ path: String) {
        var status = stat()
        self.status = stat(path, &status) == 0 ? status : nil
    }

    var isThere: Bool { status != nil }
    var isSocket: Bool { status.map { $0.st_mode & S_IFMT == S_IFSOCK } ?? false }

    /// What lets a user connect who may not. Nobody is sent into the superuser's group for it.
    var permissionAdvice: String {
        guard let status else { return "the directory may not be entered: run as a user who may" }
        if status.st_gid != 0, status.st_mode & S_IWGRP != 0, let group = Self.name(ofGroup: status.st_gid) {
            return "group \(group) may connect: add the user to it (usermod -aG \(group) USER) and log in again"
        }
        let owner = Self.name(ofUser: status.st_uid) ?? "user \(status.st_uid)"
        return "only \(owner) may connect: run as \(owner), or name a group in the agent's settings (socket.group)"
    }

    /// getgrgid_r(3): the plain function keeps its answer in memory that other threads write.
    private static func name(ofGroup id: gid_t) -> String? {
        var entry = group()
        var found: UnsafeMutablePointer<group>?
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
            let error = getgrgid_r(id, &entry, buffer.baseAddress, buffer.count, &found)
            guard error == 0, found != nil else { return nil }
            return entry.gr_name.map { String(cString: $0) }
        }
    }

    /// getpwuid_r(3)
    private static func name(ofUser id: uid_t) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
            guard let texts = buffer.baseAddress else { return nil }
            let error = getpwuid_r(id, &entry, texts, buffer.count, &found)
            guard error == 0, found != nil else { return nil }
            return entry.pw_name.map { String(cString: $0) }
        }
    }
}
