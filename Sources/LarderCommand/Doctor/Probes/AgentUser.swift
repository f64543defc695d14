import Glibc
import LarderClientCore

/// The user that the agent runs as.
struct AgentUser: Sendable, Equatable {
    var user: UInt32
    var group: UInt32
    /// The supplementary groups; nil if they are those in the host's database.
    var groups: [UInt32]?

    /// Determines the user from the process `pid`, which replied as the agent; without a `pid`, from the systemd unit.
    /// Nil if the user cannot be determined.
    static func probe(pid: Int?, _ service: ServiceFacts) -> AgentUser? {
        if let pid {
            // If the agent runs in a container, this process ID may belong to another process on this host, so check
            // the name of the process.
            guard AgentProbe.command(of: pid) == "larderd",
                let status = try? Input.contents(of: "/proc/\(pid)/status")
            else { return nil }
            return AgentUser(status: String(decoding: status, as: UTF8.self))
        }
        guard case .units(let units) = service, !units.isUser, let name = units.service.user,
            let record = getpwnam(name)
        else { return nil }
        return AgentUser(user: record.pointee.pw_uid, group: record.pointee.pw_gid)
    }

    /// Whether the agent's user may read a file. Nil if doctor cannot determine this, for example because doctor does
    /// not run as root.
    /// - Parameter limit: the timeout of the check. The default is generous, because doctor is often used on a host
    ///   that is overloaded.
    func mayRead(_ path: String, limit: Duration = .seconds(20)) async -> Bool? { await may("-r", path, limit) }

    /// The first directory on the way to a file that the agent's user may not enter; nil if the user may
    /// enter all of them, or if doctor cannot determine it.
    func closedDirectory(above path: String, limit: Duration = .seconds(20)) async -> String? {
        var directories = Self.directories(above: path)
        // If the path contains symbolic links, the directories of the file itself can be others.
        if let target = realpath(path, nil) {
            defer { free(target) }
            directories += Self.directories(above: String(cString: target)).filter { !directories.contains($0) }
        }
        for directory in directories where await may("-x", directory, limit) == false { return directory }
        return nil
    }

    /// The directories above a file, from the outermost to the innermost.
    static func directories(above path: String) -> [String] {
        path.utf8.indices.filter { path.utf8[$0] == UInt8(ascii: "/") }.map { slash in
            slash == path.startIndex ? "/" : String(path[..<slash])
        }
    }

    /// Which permission bits of a file apply to the user: `u`, `g` or `o`, as chmod(1) names them.
    func classOfPermissions(owner: UInt32, group: UInt32) -> String {
        if owner == user { return "u" }
        let groups =
            self.groups
            ?? AccountName.ofUser(user).map {
                Array(Accounts.groups(ofUser: $0, primary: self.group))
            }
        return group == self.group || groups?.contains(group) == true ? "g" : "o"
    }

    /// Whether a test of test(1) for a file succeeds for the agent's user; nil if it cannot be performed.
    private func may(_ test: String, _ path: String, _ limit: Duration) async -> Bool? {
        guard geteuid() == 0 else { return nil }
        let list = groups.map {
            $0.isEmpty ? "--clear-groups" : "--groups=" + $0.map(String.init).joined(separator: ",")
        }
        let words = ["setpriv", "--reuid=\(user)", "--regid=\(group)", list ?? "--init-groups", "test", test, path]
        switch await CapturedProgram.run(words, limit: limit)?.end {
        case .exited(0): return true
        case .exited(1): return false
        default: return nil
        }
    }
}

extension AgentUser {
    /// Parses `/proc/PID/status` (proc(5)). The lines `Uid` and `Gid` contain four numbers each, of which the second is
    /// the effective ID.
    init?(status: String) {
        func numbers(_ name: String) -> [UInt32]? {
            let line = status.split(separator: "\n").first { $0.hasPrefix("\(name):") }
            return line?.dropFirst(name.count + 1).split { $0 == "\t" || $0 == " " }.compactMap { UInt32($0) }
        }
        guard let users = numbers("Uid"), let groups = numbers("Gid"), users.count == 4, groups.count == 4 else {
            return nil
        }
        self.init(user: users[1], group: groups[1], groups: numbers("Groups"))
    }
}
