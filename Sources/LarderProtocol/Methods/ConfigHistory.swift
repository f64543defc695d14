public import LarderJSON

/// `config.history`: the newest snapshots of a namespace and why each came into being.
public enum ConfigHistory: WireMethod {
    public static let name = "config.history"

    /// What to list.
    public struct Parameters: WireParameters {
        /// The largest limit, which is more than the settings let an agent keep.
        public static let maxLimit = 10_000

        /// The namespace's name.
        public var namespace: String
        /// How many at most, newest first; nil for all that are known.
        public var limit: Int?
        public static var positional: [String] { ["namespace", "limit"] }
        public init(namespace: String = defaultNamespace, limit: Int? = nil) {
            self.namespace = namespace
            self.limit = limit
        }
        public init(from reader: MemberReader) throws(WireError) {
            namespace = try reader.namespace()
            limit = try reader.int("limit", in: 1...Self.maxLimit)
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.namespace(namespace)
            writer.member("limit", limit)
            writer.endObject()
        }
    }

    /// One change that a snapshot was published for.
    public struct Cause: Sendable, Equatable {
        /// `start`, `set`, `unset`, `expiry`, `host`, `defaults`, `settings`, `refresh`, `push`, `rollback` or `release`;
        /// later agents may know more.
        public var kind: String
        /// The path of a `set` or `unset`, as `JSONPath` describes it.
        public var path: String?
        /// The revision whose content a `rollback` took up.
        public var revision: Int?
        /// The client that asked for it.
        public var peer: WirePeer?
        /// The URL or path of the source that gave the document.
        public var origin: String?
        public init(
            kind: String, path: String? = nil, revision: Int? = nil, peer: WirePeer? = nil, origin: String? = nil
        ) {
            self.kind = kind
            self.path = path
            self.revision = revision
            self.peer = peer
            self.origin = origin
        }
    }

    /// One snapshot.
    public struct Generation: Sendable, Equatable {
        public var revision: Int
        /// `sha256:` and the digest of its compact JSON.
        public var digest: String
        /// The size of its compact JSON.
        public var bytes: Int
        public var publishedAt: Timestamp
        public var current: Bool
        /// Whether it is kept until it is unpinned.
        public var isPinned: Bool
        /// The upstream version of the remote document in it.
        public var upstreamVersion: String?
        /// What it was published for.
        public var causes: [Cause]
        public init(
            revision: Int, digest: String, bytes: Int, publishedAt: Timestamp, current: Bool, upstreamVersion: String?,
            causes: [Cause], isPinned: Bool = false
        ) {
            self.revision = revision
            self.digest = digest
            self.bytes = bytes
            self.publishedAt = publishedAt
            self.current = current
            self.upstreamVersion = upstreamVersion
            self.causes = causes
            self.isPinned = isPinned
        }
    }

    /// What `config.history` answers.
    public struct Result: WireResult, Equatable {
        /// The namespace's name.
        public var namespace: String
        /// The epoch in which the revisions count.
        public var epoch: String
        /// The snapshots, newest first.
        public var generations: [Generation]
        public init(namespace: String, epoch: String, generations: [Generation]) {
            self.namespace = namespace
            self.epoch = epoch
            self.generations = generations
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            namespace = try reader.requiredString("namespace")
            epoch = try reader.requiredString("epoch")
            generations = []
            for generation in try reader.requiredValue("generations").elements {
                generations.append(try Generation(from: MemberReader(object: generation)))
            }
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("namespace", namespace)
            writer.member("epoch", epoch)
            writer.name("generations")
            writer.beginArray()
            for generation in generations { generation.write(to: &writer) }
            writer.endArray()
            writer.endObject()
        }
    }
}

extension ConfigHistory.Generation {
    fileprivate init(from reader: MemberReader) throws(WireError) {
        revision = try reader.requiredInt("revision")
        digest = try reader.requiredString("digest")
        bytes = try reader.requiredInt("bytes")
        publishedAt = try reader.requiredTimestamp("publishedAt")
        current = try reader.requiredBool("current")
        isPinned = try reader.bool("pinned") ?? false
        upstreamVersion = try reader.string("upstreamVersion")
        causes = []
        for cause in try reader.requiredValue("causes").elements {
            let reader = try MemberReader(object: cause)
            causes.append(
                ConfigHistory.Cause(
                    kind: try reader.requiredString("kind"), path: try reader.string("path"),
                    revision: try reader.int("revision"),
                    peer: try reader.object("peer").map { (peer) throws(WireError) in try WirePeer(from: peer) },
                    origin: try reader.string("origin")))
        }
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("revision", revision)
        writer.member("digest", digest)
        writer.member("bytes", bytes)
        writer.member("publishedAt", publishedAt.description)
        writer.member("current", current)
        if isPinned { writer.member("pinned", true) }
        writer.member("upstreamVersion", upstreamVersion)
        writer.name("causes")
        writer.beginArray()
        for cause in causes { cause.write(to: &writer) }
        writer.endArray()
        writer.endObject()
    }
}

extension ConfigHistory.Cause {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("kind", kind)
        writer.member("path", path)
        writer.member("revision", revision)
        if let peer {
            writer.name("peer")
            peer.write(to: &writer)
        }
        writer.member("origin", origin)
        writer.endObject()
    }
}
