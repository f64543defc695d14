import Glibc
import LarderClient

/// What there is at the socket's path, and who asks.
struct SocketFacts: Sendable, Equatable {
    /// Why it is this path.
    enum Choice: Sendable { case option, variable, user, system }

    /// Who a socket belongs to.
    struct Owner: Sendable, Equatable {
        var user: UInt32
        var group: UInt32
        var userName: String
        var groupName: String
        /// The permission bits.
        var mode: UInt32
    }

    /// What is at the path.
    enum File: Sendable, Equatable {
        case missing
        /// It cannot be told, for this reason.
        case hidden(String)
        /// Something else, such as "a directory".
        case other(String)
        case socket(Owner)
        /// It is abstract: it has no file, and nothing keeps a user from it.
        case abstract
    }

    /// Who asks.
    struct Caller: Sendable, Equatable {
        var user: UInt32
        var name: String
        /// Whether the host's database has that name; there is only the number else.
        var hasName = true
        /// The groups of this process.
        var groups: Set<UInt32>
        /// The groups that the user has by the host's database.
        var databaseGroups: Set<UInt32>
    }

    var path: String
    var choice: Choice
    /// Where the user's own agent would have its socket; nil where that was not looked at.
    var otherPath: String?
    var file: File
    var mayConnect: Bool
    var caller: Caller

    /// Whether somebody chose the path for this call.
    var isNamed: Bool { choice == .option || choice == .variable }

    /// Makes commands for the agent of this socket.
    var hints: Hints { Hints(socket: choice == .option ? path : nil) }

    /// Makes commands that root is to run for the agent of this socket: root has neither the variable nor the user's directory.
    var hintsForRoot: Hints { Hints(socket: choice == .system ? nil : path) }
}

extension SocketFacts {
    /// Looks at the path of a command line, or else at the usual ones.
    /// - Parameter option: what `--socket` says.
    init(option: String?) {
        func variable(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        let users = variable("XDG_RUNTIME_DIR").map { "\($0)/larder/larder.sock" }
        path = option ?? LarderSocket.defaultPath
        if option != nil {
            choice = .option
        } else if variable(LarderSocket.environmentVariable) != nil {
            choice = .variable
        } else {
            choice = path == users ? .user : .system
        }
        otherPath = choice == .system ? users : nil
        file = LarderSocket.isAbstract(path) ? .abstract : Self.look(at: path)
        mayConnect = file == .abstract || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0
        let name = Accounts.knownName(ofUser: geteuid())
        caller = Caller(
            user: geteuid(), name: name ?? Accounts.name(ofUser: geteuid()), hasName: name != nil,
            groups: Accounts.ownGroups,
            databaseGroups: name.map { Accounts.groups(ofUser: $0, primary: getegid()) } ?? [])
    }

    private static func look(at path: String) -> File {
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
        case S_IFREG: return .other("a plain file")
        case S_IFIFO: return .other("a pipe")
        default: return .other("a device")
        }
    }
}
