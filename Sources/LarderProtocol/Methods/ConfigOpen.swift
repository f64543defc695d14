public import LarderJSON

/// `config.open`: the whole current snapshot as a file in memory, whose descriptor comes with the reply.
public enum ConfigOpen: WireMethod {
    public static let name = "config.open"

    /// Which snapshot.
    public struct Parameters: WireParameters {
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["namespace"] }
        public init(namespace: String = defaultNamespace) { self.namespace = namespace }
        public init(from reader: MemberReader) throws(WireError) { namespace = try reader.namespace() }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.namespace(namespace)
            writer.endObject()
        }
    }

    /// What the file holds.
    public struct Result: WireResult, Equatable {
        public var namespace: String
        /// The snapshot's revision.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// The namespace's state.
        public var state: ConfigState
        /// The length of the file.
        public var bytes: Int
        public init(namespace: String, revision: Int, epoch: String, state: ConfigState, bytes: Int) {
            self.namespace = namespace
            self.revision = revision
            self.epoch = epoch
            self.state = state
            self.bytes = bytes
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            namespace = try reader.requiredString("namespace")
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            state = ConfigState(rawValue: try reader.requiredString("state"))
            bytes = try reader.requiredInt("bytes")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("namespace", namespace)
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("state", state.rawValue)
            writer.member("bytes", bytes)
            writer.member("descriptor", true)
            writer.endObject()
        }
    }
}
