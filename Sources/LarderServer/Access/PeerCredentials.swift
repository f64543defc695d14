import CLinuxShims
import LarderConfigModel
import LarderProtocol
import Logging
import Glibc

/// The credentials of a peer, which the kernel recorded when the peer connected (`SO_PEERCRED`, unix(7)).
struct PeerCredentials: Sendable, Hashable {
    /// Process id; 0 if the kernel does not report it.
    var pid: Int
    /// Effective user id.
    var uid: Int
    /// Effective group id.
    var gid: Int
    /// The supplementary groups (`SO_PEERGROUPS`); empty if the kernel does not report them.
    var groups: [UInt32]
    /// The name of the process (``command(of:)``); nil if it has not been read yet.
    var knownCommand: String?
    /// The user who logged in (``loginUser(of:)``); nil if it is unset or has not been read yet.
    var loginUID: Int?

    /// Reads the credentials of a connected socket.
    init(descriptor: CInt) {
        var (process, user, group): (pid_t, uid_t, gid_t) = (0, 0, 0)
        if larder_peer_credentials(descriptor, &process, &user, &group) != 0 {
            // A peer that the kernel does not report gets an account without privileges: 65534 is Debian's user
            // `nobody` and group `nogroup`.
            (process, user, group) = (0, 65534, 65534)
        }
        (pid, uid, gid) = (Int(process), Int(user), Int(group))
        groups = Self.groups(of: descriptor)
    }

    /// The name of the process; empty if it has not been read yet.
    var command: String { knownCommand ?? "" }

    /// Whether the peer has all rights. Root and the agent's own user can read and change the agent's files anyway.
    var isTrusted: Bool { uid == 0 || uid == Int(geteuid()) }

    /// The peer, for the provenance of a change.
    var provenance: Peer { Peer(pid: pid, uid: uid, command: command, loginUID: loginUID) }

    /// The peer, for `agent.info`.
    var wire: AgentInfo.Peer { AgentInfo.Peer(pid: pid, uid: uid, gid: gid) }

    /// Adds the peer to log metadata.
    func logMetadata(_ more: Logger.Metadata) -> Logger.Metadata {
        var metadata = more
        metadata["peer_pid"] = "\(pid)"
        metadata["peer_uid"] = "\(uid)"
        metadata["peer_command"] = "\(command)"
        return metadata
    }

    private static func groups(of descriptor: CInt) -> [UInt32] {
        var capacity = 32
        while true {
            var found = 0
            let groups = [UInt32](unsafeUninitializedCapacity: capacity) { buffer, count in
                found = larder_peer_groups(descriptor, buffer.baseAddress, buffer.count)
                count = found <= buffer.count ? max(0, found) : 0
            }
            // If the buffer was too small, the loop repeats once with a buffer of the size that the kernel reported.
            // The number of groups cannot change in between, because the kernel recorded the groups at connect(2).
            guard found > capacity else { return groups }
            capacity = found
        }
    }

    /// The mount point of proc(5). A systemd unit whose `/proc` hides other users' processes (`ProtectProc=`,
    /// systemd.exec(5)) names another mount in `LARDER_PROC`.
    private static let processes = getenv("LARDER_PROC").map { String(cString: $0) } ?? "/proc"

    /// The name of a process (`comm`, proc(5)); empty if it cannot be read.
    static func command(of pid: Int) -> String { line(of: "comm", of: pid) }

    /// The user ID of the login session that a process belongs to (`loginuid`, proc(5)). It is not changed by sudo(8).
    /// Nil if it is unset, as for system services, or cannot be read.
    static func loginUser(of pid: Int) -> Int? {
        UInt32(line(of: "loginuid", of: pid)).flatMap { $0 == .max ? nil : Int($0) }
    }

    /// The first line of a file of a process; empty if it cannot be read.
    private static func line(of name: String, of pid: Int) -> String {
        pid > 0 ? line(at: "\(processes)/\(pid)/\(name)") : ""
    }

    /// The first line of a short file; empty if it cannot be read.
    static func line(at path: String) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        // The kernel limits the name of a process to 16 bytes (proc(5)). The other files are nearly as short.
        let bytes = [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
            count = max(0, read(file, buffer.baseAddress, buffer.count))
        }
        return String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
    }
}
