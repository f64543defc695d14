import CLinuxShims
import LarderConfigModel
import LarderProtocol
import Logging
import Glibc

/// Who is at the other end of a connection, as the kernel recorded it when they connected (`SO_PEERCRED`, unix(7)).
struct PeerCredentials: Sendable, Hashable {
    /// Process id; 0 where the kernel does not tell.
    var pid: Int
    /// Effective user id.
    var uid: Int
    /// Effective group id.
    var gid: Int
    /// The supplementary groups (`SO_PEERGROUPS`); none where the kernel does not tell.
    var groups: [UInt32]
    /// The process's name, ``command(of:)``; nil as long as nobody has asked for it.
    var knownCommand: String?

    /// Asks the kernel about a connected socket.
    init(descriptor: CInt) {
        var (process, user, group): (pid_t, uid_t, gid_t) = (0, 0, 0)
        if larder_peer_credentials(descriptor, &process, &user, &group) != 0 {
            // Nobody is taken for somebody: uid and gid 65534 are Debian's nobody and nogroup.
            (process, user, group) = (0, 65534, 65534)
        }
        (pid, uid, gid) = (Int(process), Int(user), Int(group))
        groups = Self.groups(of: descriptor)
    }

    /// The process's name, where somebody has asked for it.
    var command: String { knownCommand ?? "" }

    /// Whether the peer has every right: root, and who runs the agent. Both can read and change its files anyway.
    var isTrusted: Bool { uid == 0 || uid == Int(geteuid()) }

    /// The peer as provenance remembers it.
    var provenance: Peer { Peer(pid: pid, uid: uid, command: command) }

    /// Their numbers as `agent.info` tells them.
    var wire: AgentInfo.Peer { AgentInfo.Peer(pid: pid, uid: uid, gid: gid) }

    /// Log metadata that names the peer, and more.
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
            // They are those of the connect(2), and do not become more.
            guard found > capacity else { return groups }
            capacity = found
        }
    }

    /// Where the kernel shows the clients' processes. A unit that hides those of other users in `/proc` (`ProtectProc=`,
    /// systemd.exec(5)) says in `LARDER_PROC` where else they are.
    private static let processes = getenv("LARDER_PROC").map { String(cString: $0) } ?? "/proc"

    /// A process's name, `comm` in its directory of proc(5); empty where it cannot be read.
    static func command(of pid: Int) -> String {
        guard pid > 0 else { return "" }
        let file = open("\(processes)/\(pid)/comm", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        // The kernel keeps 16 bytes of it (proc(5)).
        let bytes = [UInt8](unsafeUninitializedCapacity: 64) { buffer, count in
            count = max(0, read(file, buffer.baseAddress, buffer.count))
        }
        return String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
    }
}
