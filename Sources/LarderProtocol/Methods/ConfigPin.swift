public import LarderJSON

/// `config.pin`: keeps a snapshot in the history, or ends that.
public enum ConfigPin: WireMethod {
    public static let name = "config.pin"

    /// Which snapshot, and whether to pin or to unpin it.
    public struct Parameters: WireParameters {
        /// One of the revisions of `config.history`.
        public var revision: Int
        public var pinned: Bool
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["revision", "pinned", "namespace"] }
        public init(revision: Int, pinned: Bool = true, namespace: String = defaultNamespace) {
            self.revision = revision
            self.pinned = pinned
            self.namespace = namespace
        }
        public init(from reader: MemberReader) throws(WireError) {
            revision = try reader.requiredInt("revision", in: 0...largestRevision)
            pinned = try reader.bool("pinned") ?? true
            namespace = try reader.namespace()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            if !pinned { writer.member("pinned", false) }
            writer.namespace(namespace)
            writer.endObject()
        }
    }

    /// What the request came to.
    public struct Result: WireResult, Equatable {
        public var revision: Int
        /// The epoch in which the revision counts.
        public var epoch: String
        /// Whether that was not so before.
        public var changed: Bool
        public init(revision: Int, epoch: String, changed: Bool) {
            self.revision = revision
            self.epoch = epoch
            self.changed = changed
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            changed = try reader.requiredBool("changed")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("changed", changed)
            writer.endObject()
        }
    }
}
