public import LarderJSON

/// `agent.info`: who the agent is, where its files are, its limits, and whom it takes the caller for.
public enum AgentInfo: WireMethod {
    public static let name = "agent.info"
    public typealias Parameters = NoParameters

    /// The caller as the kernel names it (`SO_PEERCRED`, unix(7)).
    public struct Peer: Sendable, Equatable {
        /// Process id at the time of the connection.
        public var pid: Int
        /// Effective user id.
        public var uid: Int
        /// Effective group id.
        public var gid: Int
        public init(pid: Int, uid: Int, gid: Int) { (self.pid, self.uid, self.gid) = (pid, uid, gid) }
    }

    /// What the agent takes at most.
    public struct Limits: CounterGroups, Equatable {
        /// Bytes in a line.
        public var lineBytes = 0
        /// Requests in a batch.
        public var batch = 0
        /// Nested arrays and objects.
        public var nesting = 0
        /// Connections at once.
        public var connections = 0
        public var subscriptionsPerConnection = 0
        /// Requests of one connection that wait for their reply.
        public var requestsInFlightPerConnection = 0
        /// Milliseconds for which a client may take no byte before it is dropped.
        public var stallMilliseconds = 0
        public var connectionsPerUser = 0
        /// Subscriptions of all connections of one user.
        public var subscriptionsPerUser = 0
        /// Requests of all connections of one user that wait for their reply.
        public var requestsInFlightPerUser = 0
        /// Bytes that the agent buffers for all connections of one user.
        public var queuedBytesPerUser = 0

        public init() {}

        package static let groups: [(name: StaticString?, members: [Member])] = [
            (
                nil,
                [
                    ("lineBytes", \.lineBytes), ("batch", \.batch), ("nesting", \.nesting),
                    ("connections", \.connections), ("subscriptionsPerConnection", \.subscriptionsPerConnection),
                    ("requestsInFlightPerConnection", \.requestsInFlightPerConnection),
                    ("stallMilliseconds", \.stallMilliseconds), ("connectionsPerUser", \.connectionsPerUser),
                    ("subscriptionsPerUser", \.subscriptionsPerUser),
                    ("requestsInFlightPerUser", \.requestsInFlightPerUser),
                    ("queuedBytesPerUser", \.queuedBytesPerUser),
                ]
            )
        ]
    }

    /// What `agent.info` answers.
    public struct Result: WireResult, Equatable {
        /// The program's name, `larderd`.
        public var name: String
        /// The program's version.
        public var version: String
        /// The protocol's version; see `Protocol/README.md` for what may change within one.
        public var protocolVersion: Int
        /// The agent's process id.
        public var pid: Int
        public var startedAt: Timestamp
        /// Milliseconds since then, on a clock that is never set.
        public var uptimeMilliseconds: Int
        /// The life of the state directory.
        public var epoch: String
        /// The path of the socket.
        public var socket: String
        /// Whether the socket was handed over by systemd.
        public var activated: Bool
        public var stateDirectory: String
        /// Where the images are; nil where the settings switch the image cache off, or it cannot be used.
        public var imageDirectory: String?
        /// Why the image cache that the settings want cannot be used; nil where it can.
        public var imageProblem: String?
        /// The settings file in force; nil where there is none.
        public var settings: String?
        /// When the agent read the settings that are in force, at its start or at a reload that took them.
        public var settingsReadAt: Timestamp
        /// The names of the namespaces that the caller may read, sorted.
        public var namespaces: [String]
        /// The limits in force.
        public var limits: Limits
        /// The caller.
        public var peer: Peer
        /// What the caller may do where a namespace says nothing else, in the order of ``Right``.
        public var rights: [Right]
        /// What it may do in the namespaces that have an access of their own, of those in which it may do anything.
        public var namespaceRights: [String: [Right]]

        public init(
            name: String, version: String, protocolVersion: Int, pid: Int, startedAt: Timestamp,
            uptimeMilliseconds: Int, epoch: String, socket: String, activated: Bool, stateDirectory: String,
            imageDirectory: String? = nil, settings: String?, settingsReadAt: Timestamp, namespaces: [String],
            limits: Limits, peer: Peer, rights: [Right], namespaceRights: [String: [Right]],
            imageProblem: String? = nil
        ) {
            self.name = name
            self.version = version
            self.protocolVersion = protocolVersion
            self.pid = pid
            self.startedAt = startedAt
            self.uptimeMilliseconds = uptimeMilliseconds
            self.epoch = epoch
            self.socket = socket
            self.activated = activated
            self.stateDirectory = stateDirectory
            self.imageDirectory = imageDirectory
            self.imageProblem = imageProblem
            self.settings = settings
            self.settingsReadAt = settingsReadAt
            self.namespaces = namespaces
            self.limits = limits
            self.peer = peer
            self.rights = rights
            self.namespaceRights = namespaceRights
        }

        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            name = try reader.requiredString("name")
            version = try reader.requiredString("version")
            protocolVersion = try reader.requiredInt("protocol")
            pid = try reader.requiredInt("pid")
            startedAt = try reader.requiredTimestamp("startedAt")
            uptimeMilliseconds = try reader.requiredInt("uptimeMilliseconds")
            epoch = try reader.requiredString("epoch")
            socket = try reader.requiredString("socket")
            activated = try reader.requiredBool("activated")
            stateDirectory = try reader.requiredString("stateDirectory")
            imageDirectory = try reader.string("imageDirectory")
            imageProblem = try reader.string("imageProblem")
            settings = try reader.string("settings")
            settingsReadAt = try reader.requiredTimestamp("settingsReadAt")
            namespaces = try reader.requiredValue("namespaces").elements.compactMap(\.string)
            limits = try Limits(from: MemberReader(object: reader.requiredValue("limits")))
            let peer = try MemberReader(object: reader.requiredValue("peer"))
            self.peer = Peer(
                pid: try peer.requiredInt("pid"), uid: try peer.requiredInt("uid"), gid: try peer.requiredInt("gid"))
            rights = Self.rights(try reader.requiredValue("rights"))
            namespaceRights = Dictionary(
                try reader.requiredValue("namespaceRights").members.map { ($0.name, Self.rights($0.value)) }
            ) { $1 }
        }

        /// The rights of a list; those that this version does not know are left out.
        private static func rights(_ value: JSONValue) -> [Right] {
            value.elements.compactMap { $0.string.flatMap(Right.init) }
        }

        private static func write(_ rights: [Right], to writer: inout JSONWriter) {
            writer.beginArray()
            for right in rights { writer.string(right.rawValue) }
            writer.endArray()
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("name", name)
            writer.member("version", version)
            writer.member("protocol", protocolVersion)
            writer.member("pid", pid)
            writer.member("startedAt", startedAt.description)
            writer.member("uptimeMilliseconds", uptimeMilliseconds)
            writer.member("epoch", epoch)
            writer.member("socket", socket)
            writer.member("activated", activated)
            writer.member("stateDirectory", stateDirectory)
            writer.nullableMember("imageDirectory", imageDirectory)
            if let imageProblem { writer.member("imageProblem", imageProblem) }
            writer.nullableMember("settings", settings)
            writer.member("settingsReadAt", settingsReadAt.description)
            writer.name("namespaces")
            writer.beginArray()
            for namespace in namespaces { writer.string(namespace) }
            writer.endArray()
            writer.name("limits")
            limits.write(to: &writer)
            writer.name("peer")
            writer.beginObject()
            writer.member("pid", peer.pid)
            writer.member("uid", peer.uid)
            writer.member("gid", peer.gid)
            writer.endObject()
            writer.name("rights")
            Self.write(rights, to: &writer)
            writer.name("namespaceRights")
            writer.beginObject()
            for (name, rights) in namespaceRights.sorted(by: { $0.key < $1.key }) {
                writer.name(name)
                Self.write(rights, to: &writer)
            }
            writer.endObject()
            writer.endObject()
        }
    }
}

/// What a peer may be allowed to do. Section 12 of `Protocol/README.md` says which method needs which.
public enum Right: String, Sendable, Hashable, CaseIterable {
    /// To read the configuration, and how it came about.
    case read
    /// To set and remove overrides.
    case write
    /// To hand over the remote layer, and to have the source's answer taken by force.
    case push
    /// To do what concerns all clients: rollbacks, the list of clients, what stays in the image cache.
    case administer
    /// To be shown the values that the settings declare secret where others get a mask.
    case secrets
    /// To be given images.
    case images
}

/// `agent.ping`: is the agent there and answering?
public enum AgentPing: WireMethod {
    /// `agent.ping`
    public static let name = "agent.ping"
    public typealias Parameters = NoParameters

    /// `{"pong":true}`
    public struct Result: WireResult, Equatable {
        public init() {}
        public init(from value: JSONValue) throws(WireError) {
            _ = try MemberReader(object: value).requiredBool("pong")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("pong", true)
            writer.endObject()
        }
    }
}

/// `rpc.discover`: the protocol's own description (OpenRPC 1.3, section "Service Discovery Method").
public enum RPCDiscover: WireMethod {
    /// `rpc.discover`
    public static let name = "rpc.discover"
    public typealias Parameters = NoParameters

    /// The OpenRPC document, which is `Protocol/openrpc.json`.
    public struct Result: WireResult, Equatable {
        /// The document.
        public var document: JSONValue
        public init(document: JSONValue) { self.document = document }
        public init(from value: JSONValue) throws(WireError) { document = value }
        public func write(to writer: inout JSONWriter) { writer.value(document) }
    }
}
