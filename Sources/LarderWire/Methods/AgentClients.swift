public import JSON

/// `agent.clients`: who is connected, and how they keep up.
public enum AgentClients: WireMethod {
    /// `agent.clients`
    public static let name = "agent.clients"
    /// None.
    public typealias Parameters = NoParameters

    /// One connection.
    public struct Client: WireResult, Equatable {
        /// The connection's number, never used twice in the agent's life.
        public var id: Int
        /// The peer's process, user and group (`SO_PEERCRED`).
        public var peer: AgentInfo.Peer
        /// The peer's command as `/proc/PID/comm` named it when it connected; empty where that could not be read.
        public var command: String
        /// When it connected.
        public var connectedAt: Timestamp
        /// Requests and notifications received from it.
        public var requests: Int
        /// Its open subscriptions.
        public var subscriptions: Int
        /// Bytes received from it.
        public var bytesReceived: Int
        /// Bytes that it took.
        public var bytesSent: Int
        /// Bytes that wait for it.
        public var pendingBytes: Int

        /// Makes it.
        public init(
            id: Int, peer: AgentInfo.Peer, command: String, connectedAt: Timestamp, requests: Int, subscriptions: Int,
            bytesReceived: Int, bytesSent: Int, pendingBytes: Int
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
        }

        /// Reads it.
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
        }

        /// Writes it.
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
            writer.endObject()
        }
    }

    /// What `agent.clients` answers.
    public struct Result: WireResult, Equatable {
        /// Every connection in the order of their numbers.
        public var clients: [Client]

        /// Makes it.
        public init(clients: [Client]) { self.clients = clients }

        /// Reads it.
        public init(from value: JSONValue) throws(WireError) {
            clients = []
            for client in try MemberReader(object: value).requiredValue("clients").elements {
                clients.append(try Client(from: client))
            }
        }

        /// Writes it.
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
