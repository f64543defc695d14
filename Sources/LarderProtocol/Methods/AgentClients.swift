public import LarderJSON

/// `agent.clients`: who is connected, and how they keep up.
public enum AgentClients: WireMethod {
    public static let name = "agent.clients"
    public typealias Parameters = NoParameters

    /// What a client said of a snapshot.
    public struct Acknowledgement: Sendable, Equatable {
        /// The namespace's name.
        public var namespace: String
        /// The snapshot's revision.
        public var revision: Int
        /// Whether the client runs it.
        public var accepted: Bool
        /// Why not, or what else it said.
        public var reason: String?
        /// When it said so.
        public var at: Timestamp
        public init(namespace: String, revision: Int, accepted: Bool, reason: String?, at: Timestamp) {
            self.namespace = namespace
            self.revision = revision
            self.accepted = accepted
            self.reason = reason
            self.at = at
        }
    }

    /// One connection.
    public struct Client: WireResult, Equatable {
        /// The connection's number, never used twice in the agent's life.
        public var id: Int
        /// The peer's process, user and group (`SO_PEERCRED`).
        public var peer: AgentInfo.Peer
        /// The peer's command as `/proc/PID/comm` named it when it connected; empty where that could not be read.
        public var command: String
        public var connectedAt: Timestamp
        /// Requests and notifications received from it.
        public var requests: Int
        /// Its open subscriptions.
        public var subscriptions: Int
        public var bytesReceived: Int
        /// Bytes that it took.
        public var bytesSent: Int
        /// Bytes that wait for it.
        public var pendingBytes: Int
        /// The last that it said of each namespace's snapshots, in the order of their names.
        public var acknowledged: [Acknowledgement]

        public init(
            id: Int, peer: AgentInfo.Peer, command: String, connectedAt: Timestamp, requests: Int, subscriptions: Int,
            bytesReceived: Int, bytesSent: Int, pendingBytes: Int, acknowledged: [Acknowledgement] = []
        ) {
            self.id = id
            self.peer = peer
            self.command = command
            self.connectedAt = connectedAt
            self.requests = requests
            self.subscriptions = subscriptions
            self.bytesReceived = bytesReceived
            self.bytesSent = bytesSent
            self.pendingBytes = pendingBytes
            self.acknowledged = acknowledged
        }

        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            id = try reader.requiredInt("id")
            peer = AgentInfo.Peer(
                pid: try reader.requiredInt("pid"), uid: try reader.requiredInt("uid"),
                gid: try reader.requiredInt("gid"))
            command = try reader.requiredString("command")
            connectedAt = try reader.requiredTimestamp("connectedAt")
            requests = try reader.requiredInt("requests")
            subscriptions = try reader.requiredInt("subscriptions")
            bytesReceived = try reader.requiredInt("bytesReceived")
            bytesSent = try reader.requiredInt("bytesSent")
            pendingBytes = try reader.requiredInt("pendingBytes")
            acknowledged = []
            for said in (reader.value("acknowledged") ?? .array([])).elements {
                acknowledged.append(try Acknowledgement(from: MemberReader(object: said)))
            }
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("id", id)
            writer.member("pid", peer.pid)
            writer.member("uid", peer.uid)
            writer.member("gid", peer.gid)
            writer.member("command", command)
            writer.member("connectedAt", connectedAt.description)
            writer.member("requests", requests)
            writer.member("subscriptions", subscriptions)
            writer.member("bytesReceived", bytesReceived)
            writer.member("bytesSent", bytesSent)
            writer.member("pendingBytes", pendingBytes)
            writer.name("acknowledged")
            writer.beginArray()
            for said in acknowledged { said.write(to: &writer) }
            writer.endArray()
            writer.endObject()
        }
    }

    /// What `agent.clients` answers.
    public struct Result: WireResult, Equatable {
        /// Every connection in the order of their numbers.
        public var clients: [Client]

        public init(clients: [Client]) { self.clients = clients }

        public init(from value: JSONValue) throws(WireError) {
            clients = []
            for client in try MemberReader(object: value).requiredValue("clients").elements {
                clients.append(try Client(from: client))
            }
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("clients")
            writer.beginArray()
            for client in clients { client.write(to: &writer) }
            writer.endArray()
            writer.endObject()
        }
    }
}

extension AgentClients.Acknowledgement {
    fileprivate init(from reader: MemberReader) throws(WireError) {
        namespace = try reader.requiredString("namespace")
        revision = try reader.requiredInt("revision")
        accepted = try reader.requiredBool("accepted")
        reason = try reader.string("reason")
        at = try reader.requiredTimestamp("at")
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("namespace", namespace)
        writer.member("revision", revision)
        writer.member("accepted", accepted)
        writer.member("reason", reason)
        writer.member("at", at.description)
        writer.endObject()
    }
}
