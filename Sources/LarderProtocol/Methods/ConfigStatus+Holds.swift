import LarderJSON

// What keeps a document from being shown, and what clients say of the snapshots that are.

extension ConfigStatus {
    /// What a rollback holds.
    public struct Hold: Sendable, Equatable {
        /// The revision whose documents are shown.
        public var revision: Int
        /// The upstream version that the rollback refused, where it had one.
        public var refusedVersion: String?
        public var since: Timestamp
        /// The names of the layers that are held, lowest first.
        public var layers: [String]
        /// Which document ends the hold, as in ``ConfigRollback/Hold``; nil from an agent that does not report it.
        public var rule: String?
        /// Why the hold has this rule, for people.
        public var reason: String?
        /// The client that asked for the rollback, if that is known.
        public var peer: WirePeer?
        public init(
            revision: Int, refusedVersion: String?, since: Timestamp, layers: [String] = [], rule: String? = nil,
            reason: String? = nil, peer: WirePeer? = nil
        ) {
            self.revision = revision
            self.refusedVersion = refusedVersion
            self.since = since
            self.layers = layers
            self.rule = rule
            self.reason = reason
            self.peer = peer
        }
    }

    /// A document that was refused because it removes more than the settings allow.
    public struct Quarantine: Sendable, Equatable {
        /// Its upstream version, where it had one.
        public var version: String?
        /// When it came.
        public var at: Timestamp
        /// How many members, those of objects in objects counted one by one, the document held has.
        public var members: Int
        /// How many of these would be gone.
        public var removed: Int
        public init(version: String?, at: Timestamp, members: Int, removed: Int) {
            self.version = version
            self.at = at
            self.members = members
            self.removed = removed
        }
    }

    /// What the clients that are connected said of snapshots, each its last word.
    public struct Acknowledgements: Sendable, Equatable {
        /// A client that refused a snapshot.
        public struct Refusal: Sendable, Equatable {
            /// The number of its connection, as in `agent.clients`.
            public var client: Int
            /// The client.
            public var peer: WirePeer
            /// The snapshot's revision.
            public var revision: Int
            /// Why, where it said so.
            public var reason: String?
            /// When it said so.
            public var at: Timestamp
            public init(client: Int, peer: WirePeer, revision: Int, reason: String?, at: Timestamp) {
                self.client = client
                self.peer = peer
                self.revision = revision
                self.reason = reason
                self.at = at
            }
        }

        /// How many clients run each revision.
        public var accepted: [Int: Int]
        /// The clients that refused one, the last ones first, at most 64.
        public var refused: [Refusal]
        public init(accepted: [Int: Int] = [:], refused: [Refusal] = []) {
            self.accepted = accepted
            self.refused = refused
        }
    }
}

extension ConfigStatus.Hold {
    init(from reader: MemberReader) throws(WireError) {
        revision = try reader.requiredInt("revision")
        refusedVersion = try reader.string("refusedVersion")
        since = try reader.requiredTimestamp("since")
        layers = reader.value("layers")?.elements.compactMap(\.string) ?? []
        rule = try reader.string("rule")
        reason = try reader.string("reason")
        peer = try reader.object("peer").map { (peer) throws(WireError) in try WirePeer(from: peer) }
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("revision", revision)
        writer.nullableMember("refusedVersion", refusedVersion)
        writer.member("since", since.description)
        writer.name("layers")
        writer.beginArray()
        for layer in layers { writer.string(layer) }
        writer.endArray()
        writer.member("rule", rule)
        writer.member("reason", reason)
        writer.name("peer")
        if let peer { peer.write(to: &writer) } else { writer.null() }
        writer.endObject()
    }
}

extension ConfigStatus.Quarantine {
    init(from reader: MemberReader) throws(WireError) {
        version = try reader.string("version")
        at = try reader.requiredTimestamp("at")
        members = try reader.requiredInt("members")
        removed = try reader.requiredInt("removed")
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.nullableMember("version", version)
        writer.member("at", at.description)
        writer.member("members", members)
        writer.member("removed", removed)
        writer.endObject()
    }
}

extension ConfigStatus.Acknowledgements {
    init(from reader: MemberReader) throws(WireError) {
        accepted = [:]
        refused = []
        for (revision, count) in try reader.requiredValue("accepted").members {
            guard let revision = Int(revision), let count = count.int else { continue }
            accepted[revision] = count
        }
        for refusal in try reader.requiredValue("refused").elements {
            let reader = try MemberReader(object: refusal)
            refused.append(
                Refusal(
                    client: try reader.requiredInt("client"), peer: try WirePeer(from: reader),
                    revision: try reader.requiredInt("revision"), reason: try reader.string("reason"),
                    at: try reader.requiredTimestamp("at")))
        }
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.name("accepted")
        writer.beginObject()
        for (revision, count) in accepted.sorted(by: { $0.key < $1.key }) {
            writer.name(String(revision))
            writer.int(count)
        }
        writer.endObject()
        writer.name("refused")
        writer.beginArray()
        for refusal in refused {
            writer.beginObject()
            writer.member("client", refusal.client)
            writer.member("pid", refusal.peer.pid)
            writer.member("uid", refusal.peer.uid)
            writer.member("command", refusal.peer.command)
            writer.member("revision", refusal.revision)
            writer.nullableMember("reason", refusal.reason)
            writer.member("at", refusal.at.description)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
    }
}
