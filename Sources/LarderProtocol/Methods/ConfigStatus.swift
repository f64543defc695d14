public import LarderJSON

/// `config.status`: each namespace's state, its layers, its source, and what was last refused and why.
public enum ConfigStatus: WireMethod {
    public static let name = "config.status"

    /// Which namespaces.
    public struct Parameters: WireParameters {
        /// The namespace's name; nil for all.
        public var namespace: String?
        public static var positional: [String] { ["namespace"] }
        public init(namespace: String? = nil) { self.namespace = namespace }
        public init(from reader: MemberReader) throws(WireError) { namespace = try reader.string("namespace") }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("namespace", namespace)
            writer.endObject()
        }
    }

    /// What went wrong last, or what was refused last.
    public struct Problem: Sendable, Equatable {
        /// The error's name, as in the table of errors.
        public var name: String
        /// What happened.
        public var message: String
        public var at: Timestamp
        public init(name: String, message: String, at: Timestamp) {
            self.name = name
            self.message = message
            self.at = at
        }
    }

    /// A document that was refused.
    public struct Refusal: Sendable, Equatable {
        /// Its upstream version, where it had one.
        public var version: String?
        public var reason: String
        public var at: Timestamp
        public init(version: String?, reason: String, at: Timestamp) {
            self.version = version
            self.reason = reason
            self.at = at
        }
    }

    /// The remote source.
    public struct Upstream: Sendable, Equatable {
        /// `http` or `file`.
        public var kind: String
        /// The URL (without user information) or path.
        public var location: String
        /// The upstream version held.
        public var version: String?
        /// The validator held.
        public var etag: String?
        /// When it was last asked.
        public var lastAttemptAt: Timestamp?
        /// When it last gave a usable answer.
        public var lastSuccessAt: Timestamp?
        /// When it will be asked next.
        public var nextAttemptAt: Timestamp?
        /// Failures since the last usable answer.
        public var consecutiveFailures: Int
        public init(
            kind: String, location: String, version: String?, etag: String?, lastAttemptAt: Timestamp?,
            lastSuccessAt: Timestamp?, nextAttemptAt: Timestamp?, consecutiveFailures: Int
        ) {
            self.kind = kind
            self.location = location
            self.version = version
            self.etag = etag
            self.lastAttemptAt = lastAttemptAt
            self.lastSuccessAt = lastSuccessAt
            self.nextAttemptAt = nextAttemptAt
            self.consecutiveFailures = consecutiveFailures
        }
    }

    public struct Layer: Sendable, Equatable {
        /// `host`, `remote` or `override`.
        public var name: String
        /// Whether it holds anything.
        public var present: Bool
        /// The size of its document as compact JSON.
        public var bytes: Int
        /// Where it comes from.
        public var origin: String
        /// When it last changed.
        public var updatedAt: Timestamp?
        /// Why it could not be read last time; the content before that is kept.
        public var problem: String?
        public init(
            name: String, present: Bool, bytes: Int, origin: String, updatedAt: Timestamp?, problem: String?
        ) {
            self.name = name
            self.present = present
            self.bytes = bytes
            self.origin = origin
            self.updatedAt = updatedAt
            self.problem = problem
        }
    }

    /// The plain copy of the snapshot.
    public struct Copy: Sendable, Equatable {
        /// The file.
        public var path: String
        /// Why it is missing or old; nil where it is neither.
        public var problem: String?
        public init(path: String, problem: String?) {
            self.path = path
            self.problem = problem
        }
    }

    public struct Namespace: Sendable, Equatable {
        public var namespace: String
        public var state: ConfigState
        /// Since when it is in that state.
        public var since: Timestamp
        /// The newest revision; 0 where nothing is published yet.
        public var revision: Int
        /// The epoch in which it counts.
        public var epoch: String
        /// `sha256:` and the digest of the snapshot's compact JSON; nil where nothing is published yet.
        public var digest: String?
        /// The size of the snapshot's compact JSON.
        public var bytes: Int
        /// When the snapshot was published; nil where nothing is published yet.
        public var publishedAt: Timestamp?
        /// Milliseconds since the source last confirmed what is served; nil without a source or before its first answer.
        public var ageMilliseconds: Int?
        /// `full` or `relaxed`.
        public var durability: String
        /// What went wrong last; nil once the source answers again.
        public var lastError: Problem?
        /// What was refused last; nil once a document is taken again.
        public var refused: Refusal?
        /// The document that was refused last because it removes too much; nil once one is taken again.
        public var quarantine: Quarantine?
        /// What a rollback holds; nil for nothing.
        public var hold: Hold?
        /// The remote source; nil where the namespace has none.
        public var upstream: Upstream?
        /// The layers, lowest first.
        public var layers: [Layer]
        /// What the clients say that are connected.
        public var acknowledgements = Acknowledgements()
        /// The plain copy of the snapshot; nil if the settings want none or the socket is abstract.
        public var copy: Copy?

        /// Makes it, with nothing in quarantine, held or acknowledged.
        public init(
            namespace: String, state: ConfigState, since: Timestamp, revision: Int, epoch: String, digest: String?,
            bytes: Int, publishedAt: Timestamp?, ageMilliseconds: Int?, durability: String, lastError: Problem?,
            refused: Refusal?, upstream: Upstream?, layers: [Layer], copy: Copy? = nil
        ) {
            self.namespace = namespace
            self.state = state
            self.since = since
            self.revision = revision
            self.epoch = epoch
            self.digest = digest
            self.bytes = bytes
            self.publishedAt = publishedAt
            self.ageMilliseconds = ageMilliseconds
            self.durability = durability
            self.lastError = lastError
            self.refused = refused
            self.upstream = upstream
            self.layers = layers
            self.copy = copy
        }
    }

    /// What `config.status` answers.
    public struct Result: WireResult, Equatable {
        /// The namespaces in the order of their names.
        public var namespaces: [Namespace]
        public init(namespaces: [Namespace]) { self.namespaces = namespaces }
        public init(from value: JSONValue) throws(WireError) {
            namespaces = []
            for namespace in try MemberReader(object: value).requiredValue("namespaces").elements {
                namespaces.append(try Namespace(from: namespace))
            }
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("namespaces")
            writer.beginArray()
            for namespace in namespaces { namespace.write(to: &writer) }
            writer.endArray()
            writer.endObject()
        }
    }
}

/// What a namespace's configuration is worth right now. A value that this version does not know is kept as it came.
public struct ConfigState: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public let rawValue: String
    /// Makes a state from its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The remote source has not answered yet, and nothing of it is on disk.
    public static let initializing = Self(rawValue: "initializing")
    /// What is served is what the sources last said.
    public static let fresh = Self(rawValue: "fresh")
    /// The remote source is being asked.
    public static let refreshing = Self(rawValue: "refreshing")
    /// The last attempt failed; the last good snapshot is served.
    public static let stale = Self(rawValue: "stale")
    /// The last attempt failed, and there never was a usable answer, or what is held is older than the settings say by
    /// `staleIfErrorSeconds`; it is served all the same.
    public static let failed = Self(rawValue: "failed")

    public var description: String { rawValue }
}
