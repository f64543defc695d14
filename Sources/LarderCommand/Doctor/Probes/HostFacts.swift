import CLinuxShims
import Glibc

/// The file system that a directory of the agent's is on.
struct VolumeFacts: Sendable, Equatable {
    /// What is left (statvfs(3)), for those who are not root.
    struct Room: Sendable, Equatable {
        var bytes: Int
        var freeBytes: Int
        /// 0 where the file system does not count them.
        var inodes: Int
        var freeInodes: Int
        var isReadOnly: Bool
    }

    /// What can be said of it.
    enum State: Sendable, Equatable {
        case room(Room)
        case missing
        /// For this reason.
        case hidden(String)
    }

    /// What the directory is for: `state`, `images`.
    var purpose: String
    var path: String
    var state: State

    /// Whether it holds what must not be lost.
    var isState: Bool { purpose == "state" }

    /// Looks at a directory.
    static func look(at path: String, purpose: String) -> VolumeFacts {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else {
            let code = errno
            let isMissing = code == ENOENT || code == ENOTDIR
            return VolumeFacts(
                purpose: purpose, path: path,
                state: isMissing ? .missing : .hidden("\(String(cString: strerror(code))); run this as root"))
        }
        let unit = Int(clamping: status.f_frsize)
        return VolumeFacts(
            purpose: purpose, path: path,
            state: .room(
                Room(
                    bytes: Int(clamping: status.f_blocks) * unit, freeBytes: Int(clamping: status.f_bavail) * unit,
                    inodes: Int(clamping: status.f_files), freeInodes: Int(clamping: status.f_favail),
                    isReadOnly: status.f_flag & UInt(ST_RDONLY) != 0)))
    }
}

/// What the kernel says of its clock.
struct ClockFacts: Sendable, Equatable {
    /// Whether something keeps it right; nil where the kernel does not say.
    var isSynchronized: Bool?

    /// Asks the kernel (adjtimex(2)).
    static var now: ClockFacts {
        let answer = larder_clock_is_synchronized()
        return ClockFacts(isSynchronized: answer < 0 ? nil : answer == 1)
    }
}
