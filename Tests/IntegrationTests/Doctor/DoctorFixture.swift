import LarderClient

@testable import LarderCommand
import LarderEncoding
import LarderProtocol

extension Examination {
    /// A healthy host. Each test changes the facts that it checks.
    static var healthy: Examination {
        Examination(
            socket: .healthy, service: .units(.healthy), agent: .facts(.healthy),
            settings: SettingsFacts(path: "/etc/larder/larder.json", isNamed: false, state: .right, modifiedAt: .early),
            isClockSynchronized: true,
            volumes: [VolumeFacts(purpose: "state", path: "/var/lib/larder", state: .capacity(.healthy))],
            openFiles: 524_288, log: [])
    }

    /// The findings that are not `ok`, in the order of the report.
    var complaints: [Finding] { report.findings.filter { $0.level != .ok } }
}

extension SocketFacts {
    static var healthy: SocketFacts {
        SocketFacts(
            path: "/run/larder/larder.sock", choice: .system, otherPath: "/run/user/1000/larder/larder.sock",
            file: .socket(.healthy), canConnect: true,
            caller: Caller(user: 1000, name: "alice", groups: [1000, 990], databaseGroups: [1000, 990]))
    }
}

extension SocketFacts.Owner {
    static var healthy: Self { Self(user: 0, group: 990, userName: "root", groupName: "larder", mode: 0o660) }
}

extension ServiceFacts.Units {
    static var healthy: Self {
        Self(
            isUser: false, isRoot: false,
            service: unit(["ActiveState": "active", "SubState": "running", "WatchdogUSec": "30s"]),
            socket: unit(["ActiveState": "active", "SubState": "running", "UnitFileState": "enabled"]))
    }

    static func unit(_ properties: [String: String]) -> UnitFacts {
        let all = ["LoadState": "loaded", "Result": "success", "NRestarts": "0"].merging(properties) { $1 }
        return UnitFacts(printed: all.map { "\($0.key)=\($0.value)\n" }.joined())
    }

    /// The systemd units of a service that is stopped, with an inactive socket unit.
    static func down(_ service: [String: String] = ["ActiveState": "inactive", "SubState": "dead"]) -> Self {
        var units = Self.healthy
        units.service = unit(service)
        units.socket = unit(["ActiveState": "inactive", "SubState": "dead"])
        return units
    }
}

extension VolumeFacts.Capacity {
    static var healthy: Self {
        Self(bytes: 40 << 30, freeBytes: 20 << 30, inodes: 1 << 20, freeInodes: 1 << 19, isReadOnly: false)
    }
}

extension Timestamp {
    /// 1,000 s before the agent of the fixture started.
    static let early = Timestamp(milliseconds: 1_700_000_000_000)
}

extension AgentFacts {
    static let start = Timestamp(milliseconds: Timestamp.early.milliseconds + 1_000_000)
    static let present = Timestamp(milliseconds: start.milliseconds + 60_000)

    static var healthy: AgentFacts {
        var limits = AgentInfo.Limits()
        limits.connections = 16384
        return AgentFacts(
            roundTrip: .microseconds(412),
            info: AgentInfo.Result(
                name: "larderd", version: larderVersion, protocolVersion: 1, pid: 612, startedAt: start,
                uptimeMilliseconds: 60_000, epoch: "9f86d081884c7d65", socket: "/run/larder/larder.sock",
                activated: true,
                stateDirectory: "/var/lib/larder", imageDirectory: "/var/cache/larder/images",
                settings: "/etc/larder/larder.json", settingsReadAt: start, namespaces: ["default"],
                limits: limits,
                peer: AgentInfo.Peer(pid: 1, uid: 1000, gid: 1000), rights: [.read, .images], namespaceRights: [:]),
            now: present, status: .success(ConfigStatus.Result(namespaces: [.healthy])),
            stats: .success(.healthy))
    }
}

extension AgentStats.Result {
    static var healthy: Self {
        var images = AgentStats.Images()
        (images.entries, images.bytes, images.maximumBytes) = (3, 1_000_000, 1 << 30)
        return Self(
            uptimeMilliseconds: 60_000, traffic: AgentStats.Traffic(), residentBytes: 1, namespaces: [:], images: images
        )
    }
}

extension ConfigStatus.Namespace {
    static var healthy: Self {
        Self(
            namespace: "default", state: .fresh, since: AgentFacts.start, revision: 41, epoch: "9f86d081884c7d65",
            digest: nil, bytes: 2, publishedAt: AgentFacts.start, ageMilliseconds: nil, durability: "full",
            lastError: nil, rejected: nil, upstream: nil, layers: [])
    }

    /// A namespace whose etcd source returned a document when the namespace entered its state.
    static func followed(_ state: ConfigState) -> Self {
        var namespace = healthy
        namespace.state = state
        namespace.layers = [.remote]
        namespace.upstream = ConfigStatus.Upstream(
            kind: "etcd", location: "http://127.0.0.1:2379", version: "5", etag: nil, lastAttemptAt: AgentFacts.start,
            lastSuccessAt: AgentFacts.start, nextAttemptAt: nil, consecutiveFailures: 0)
        return namespace
    }
}

extension ConfigStatus.Layer {
    static var remote: Self {
        Self(
            name: "remote", present: true, bytes: 2, origin: "https://config.example.org/shop.json", updatedAt: nil,
            problem: nil)
    }
}
