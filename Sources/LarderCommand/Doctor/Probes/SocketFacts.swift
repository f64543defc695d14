import Glibc
import LarderClientCore

/// The file at the path of the socket, and the user of this process.
struct SocketFacts: Sendable, Equatable {
    /// How the path was chosen.
    enum Choice: Sendable { case option, variable, user, system }

    /// The owner of a socket.
    struct Owner: Sendable, Equatable {
        var user: UInt32
        var group: UInt32
        var userName: String
        var groupName: String
        /// The permission bits, without the file type.
        var mode: UInt32
    }

    /// The type of the file at the path.
    enum File: Sendable, Equatable {
        case missing
        /// The type of the file cannot be determined, for this reason.
        case hidden(String)
        /// The file is not a socket but, for example, "a directory".
        case other(String)
        case socket(Owner)
        /// An abstract socket. It has no file, so every user can connect.
        case abstract
    }

    /// The user of this process.
    struct Caller: Sendable, Equatable {
        var user: UInt32
        var name: String
        /// Whether the host's database has a name for the user. Otherwise `name` contains the number.
        var hasName = true
        /// The groups of this process.
        var groups: Set<UInt32>
        /// The groups of the user in the host's database.
        var databaseGroups: Set<UInt32>
    }

    var path: String
    var choice: Choice
    /// The socket path of the user's own agent, if it was checked before ``path`` and does not exist; otherwise nil.
    var otherPath: String?
    var file: File
    var canConnect: Bool
    var caller: Caller

    /// Whether the user chose the path, with `--socket` or the environment variable.
    var isNamed: Bool { choice == .option || choice == .variable }

    /// Creates commands for the agent of this socket.
    var hints: Hints { Hints(socket: choice == .option ? path : nil) }

    /// Creates commands that root runs for the agent of this socket. They contain the socket's path unless it is the
    /// system path, because root has neither the user's environment variable nor the user's runtime directory.
    var hintsForRoot: Hints { Hints(socket: choice == .system ? nil : path) }
}

extension SocketFacts {
    /// Checks the given path, or else the default paths.
    /// - Parameter option: the value of `--socket`.
    init(option: String?) {
        let users = environmentVariable("XDG_RUNTIME_DIR").map { "\($0)/larder/larder.sock" }
        path = option ?? LarderSocket.defaultPath
        if option != nil {
            choice = .option
        } else if environmentVariable(LarderSocket.environmentVariable) != nil {
            choice = .variable
        } else {
            choice = path == users ? .user : .system
        }
        otherPath = choice == .system ? users : nil
        file = LarderSocket.isAbstract(path) ? .abstract : Self.probe(at: path)
        canConnect = file == .abstract || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0
        let name = AccountName.ofUser(geteuid())
        caller = Caller(
            user: geteuid(), name: name ?? Accounts.name(ofUser: geteuid()), hasName: name != nil,
            groups: Accounts.ownGroups,
            databaseGroups: name.map { Accounts.groups(ofUser: $0, primary: getegid()) } ?? [])
    }

    private static func probe(at path: String) -> File {
        var status = stat()
        guard stat(path, &status) == 0 else {
            let code = errno
            return code == ENOENT || code == ENOTDIR ? .missing : .hidden(String(cString: strerror(code)))
        }
        switch status.st_mode & S_IFMT {
        case S_IFSOCK:
            return .socket(
                Owner(
                    user: status.st_uid, group: status.st_gid, userName: Accounts.name(ofUser: status.st_uid),
                    groupName: Accounts.name(ofGroup: status.st_gid), mode: status.st_mode & 0o7777))
        case S_IFDIR: return .other("a directory")
        case S_IFREG: return .other("a regular file")
        case S_IFIFO: return .other("a pipe")
        default: return .other("a device")
        }
    }
}

/// Looks up users and groups in the host's databases (getgrouplist(3), ``AccountName``).
enum Accounts {
    /// The name of a user; `user NUMBER` if the host has no name for the ID.
    static func name(ofUser id: uid_t) -> String { AccountName.ofUser(id) ?? "user \(id)" }

    /// The name of a group; `group NUMBER` if the host has no name for the ID.
    static func name(ofGroup id: gid_t) -> String { AccountName.ofGroup(id) ?? "group \(id)" }

    /// The groups of a user in the host's databases. A process of the user gets them only at the next login.
    static func groups(ofUser name: String, primary: gid_t) -> Set<gid_t> {
        var count: Int32 = 4096
        var groups = [gid_t](repeating: 0, count: Int(count))
        guard getgrouplist(name, primary, &groups, &count) >= 0 else { return [primary] }
        return Set(groups.prefix(Int(count)))
    }

    static var ownGroups: Set<gid_t> {
        var groups = [gid_t](repeating: 0, count: 65_536)
        let count = getgroups(Int32(groups.count), &groups)
        return Set(groups.prefix(max(0, Int(count)))).union([getegid()])
    }
}
