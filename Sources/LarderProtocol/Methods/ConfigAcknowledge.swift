public import LarderJSON

/// `config.acknowledge`: a client says that it took or refused a snapshot.
public enum ConfigAcknowledge: WireMethod {
    public static let name = "config.acknowledge"

    /// What the client says.
    public struct Parameters: WireParameters {
        /// The most bytes of a reason.
        public static let longestReason = 1024

        /// The snapshot's revision.
        public var revision: Int
        /// Whether the client runs it.
        public var accepted: Bool
        /// Why not, or anything else that people should know.
        public var reason: String?
        /// The namespace's name.
        public var namespace: String
        /// The epoch in which the revision counts; nil for the current one.
        public var epoch: String?
        public static var positional: [String] { ["revision", "accepted", "reason", "namespace", "epoch"] }
        public init(
            revision: Int, accepted: Bool, reason: String? = nil, namespace: String = defaultNamespace,
            epoch: String? = nil
        ) {
            self.revision = revision
            self.accepted = accepted
            self.reason = reason
            self.namespace = namespace
            self.epoch = epoch
        }
        public init(from reader: MemberReader) throws(WireError) {
            revision = try reader.requiredInt("revision", in: 0...largestRevision)
            accepted = try reader.requiredBool("accepted")
            reason = try reader.string("reason")
            if let reason, reason.utf8.count > Self.longestReason {
                throw WireError(
                    .invalidParams,
                    "\"reason\" has \(reason.utf8.count) bytes, it may have \(Self.longestReason)")
            }
            namespace = try reader.namespace()
            epoch = try reader.string("epoch")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.member("accepted", accepted)
            writer.member("reason", reason)
            writer.namespace(namespace)
            writer.member("epoch", epoch)
            writer.endObject()
        }
    }

    /// What was noted.
    public struct Result: WireResult, Equatable {
        public var revision: Int
        public init(revision: Int) { self.revision = revision }
        public init(from value: JSONValue) throws(WireError) {
            revision = try MemberReader(object: value).requiredInt("revision")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.endObject()
        }
    }
}
