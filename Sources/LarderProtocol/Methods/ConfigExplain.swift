public import LarderJSON

/// `config.explain`: what each layer says at a path, which of them wins, and where each has it from.
public enum ConfigExplain: WireMethod {
    public static let name = "config.explain"

    public struct Parameters: WireParameters {
        /// The path; the root is the whole document.
        public var path: JSONPath
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["path", "namespace"] }
        public init(path: JSONPath = JSONPath([]), namespace: String = defaultNamespace) {
            self.path = path
            self.namespace = namespace
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.path()
            namespace = try reader.namespace()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.path(path)
            writer.namespace(namespace)
            writer.endObject()
        }
    }

    /// Where a layer has from what it says.
    public struct Source: Sendable, Equatable {
        /// `file`, `http`, `sse`, `etcd`, `push`, `set` or `settings`.
        public var kind: String
        /// A URL, file or directory.
        public var location: String?
        public var file: String?
        /// The line in that file, from 1.
        public var line: Int?
        /// The key in a store of keys.
        public var key: String?
        /// The upstream version.
        public var version: String?
        /// The name of the overlay: the arm of an experiment that this host is in.
        public var experiment: String?
        /// Who set or pushed it.
        public var peer: WirePeer?
        /// When it ends by itself.
        public var expiresAt: Timestamp?
        public init(
            kind: String, location: String? = nil, file: String? = nil, line: Int? = nil, key: String? = nil,
            version: String? = nil, experiment: String? = nil, peer: WirePeer? = nil, expiresAt: Timestamp? = nil
        ) {
            self.kind = kind
            self.location = location
            self.file = file
            self.line = line
            self.key = key
            self.version = version
            self.experiment = experiment
            self.peer = peer
            self.expiresAt = expiresAt
        }
    }

    /// Since when a layer has said the same.
    public struct Since: Sendable, Equatable {
        /// The snapshot from which on it has.
        public var revision: Int
        /// When that was published.
        public var at: Timestamp
        /// Whether it may have said so earlier: older snapshots are no longer known.
        public var orEarlier: Bool
        public init(revision: Int, at: Timestamp, orEarlier: Bool) {
            self.revision = revision
            self.at = at
            self.orEarlier = orEarlier
        }
    }

    /// One layer's say.
    public struct Layer: Sendable, Equatable {
        /// `defaults`, `host`, `remote`, `experiment` or `override`.
        public var name: String
        /// The value that it has at the path; nil for none.
        public var value: JSONValue?
        /// Whether secrets are masked in it.
        public var isMasked: Bool
        /// Whether it has no value there and hides what lower layers have.
        public var isHiding: Bool
        /// Where it has it from; nil where it says nothing.
        public var source: Source?
        /// Since when; nil where it says nothing, or that is not known.
        public var since: Since?
        /// The revision that a rollback went back to, where it shows the layer as it was then; nil where it does not.
        public var heldRevision: Int?
        public init(
            name: String, value: JSONValue? = nil, isMasked: Bool = false, isHiding: Bool = false,
            source: Source? = nil, since: Since? = nil, heldRevision: Int? = nil
        ) {
            self.name = name
            self.value = value
            self.isMasked = isMasked
            self.isHiding = isHiding
            self.source = source
            self.since = since
            self.heldRevision = heldRevision
        }
    }

    /// The lock that a path is under.
    public struct Lock: Sendable, Equatable {
        /// The locked path.
        public var path: String
        /// The file that pins it; nil where no file says anything there.
        public var file: String?
        /// The line in that file, from 1.
        public var line: Int?
        /// The settings file that locks it; nil where the settings came from no file.
        public var settings: String?
        public init(path: String, file: String?, line: Int?, settings: String?) {
            self.path = path
            self.file = file
            self.line = line
            self.settings = settings
        }
    }

    /// How what is at a path came about.
    public struct Result: WireResult, Equatable {
        /// The path, dotted where every name allows it, else as a JSON Pointer.
        public var path: String
        /// The namespace's name.
        public var namespace: String
        /// The snapshot that is explained.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// The value in that snapshot; nil for none.
        public var value: JSONValue?
        /// The highest layer that has a say there and is not kept from it by a lock; nil where none has.
        public var winner: String?
        /// Whether secrets are masked in the value.
        public var isMasked: Bool
        /// The lock that the path is under; nil for none.
        public var lock: Lock?
        /// All layers, lowest first.
        public var layers: [Layer]
        public init(
            path: String, namespace: String, revision: Int, epoch: String, value: JSONValue?, winner: String?,
            isMasked: Bool, lock: Lock?, layers: [Layer]
        ) {
            self.path = path
            self.namespace = namespace
            self.revision = revision
            self.epoch = epoch
            self.value = value
            self.winner = winner
            self.isMasked = isMasked
            self.lock = lock
            self.layers = layers
        }
    }
}
