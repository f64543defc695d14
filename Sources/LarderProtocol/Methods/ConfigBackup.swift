public import LarderJSON

/// `config.backup`: a snapshot of a namespace with all its layers, as a file of the state directory.
public enum ConfigBackup: WireMethod {
    public static let name = "config.backup"

    /// Which snapshot.
    public struct Parameters: WireParameters {
        /// One of the revisions of `config.history`; nil for the current one.
        public var revision: Int?
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["revision", "namespace"] }
        public init(revision: Int? = nil, namespace: String = defaultNamespace) {
            self.revision = revision
            self.namespace = namespace
        }
        public init(from reader: MemberReader) throws(WireError) {
            revision = try reader.int("revision", in: 0...largestRevision)
            namespace = try reader.namespace()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.namespace(namespace)
            writer.endObject()
        }
    }

    /// The snapshot, and which others there are.
    public struct Result: WireResult, Equatable {
        /// The namespace's name.
        public var namespace: String
        /// The epoch in which the revisions count.
        public var epoch: String
        /// The revision of the snapshot; 0 as long as nothing was published.
        public var revision: Int
        /// The content of the file `generations/<revision>.json`; nil as long as nothing was published.
        public var generation: String?
        /// Whether the snapshot is pinned.
        public var isPinned: Bool
        /// The revisions of `config.history`, newest first.
        public var revisions: [Int]
        public init(
            namespace: String, epoch: String, revision: Int, generation: String?, isPinned: Bool = false,
            revisions: [Int]
        ) {
            self.namespace = namespace
            self.epoch = epoch
            self.revision = revision
            self.generation = generation
            self.isPinned = isPinned
            self.revisions = revisions
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            namespace = try reader.requiredString("namespace")
            epoch = try reader.requiredString("epoch")
            revision = try reader.requiredInt("revision")
            generation = try reader.string("generation")
            isPinned = try reader.bool("pinned") ?? false
            revisions = try reader.requiredValue("revisions").elements.compactMap(\.int)
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("namespace", namespace)
            writer.member("epoch", epoch)
            writer.member("revision", revision)
            writer.member("generation", generation)
            if isPinned { writer.member("pinned", true) }
            writer.name("revisions")
            writer.beginArray()
            for revision in revisions { writer.int(revision) }
            writer.endArray()
            writer.endObject()
        }
    }
}
