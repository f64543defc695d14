public import LarderJSON

/// `config.refresh`: asks the namespace's sources now; requests that wait for the same answer share it.
public enum ConfigRefresh: WireMethod {
    public static let name = "config.refresh"

    public struct Parameters: WireParameters {
        /// The namespace's name.
        public var namespace: String
        /// Whether to take what the source says even if its version is older, and to ask without a validator.
        public var force: Bool
        public static var positional: [String] { ["namespace", "force"] }
        public init(namespace: String = defaultNamespace, force: Bool = false) {
            self.namespace = namespace
            self.force = force
        }
        public init(from reader: MemberReader) throws(WireError) {
            namespace = try reader.namespace()
            force = try reader.bool("force") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.namespace(namespace)
            if force { writer.member("force", true) }
            writer.endObject()
        }
    }

    /// What the refresh brought.
    public struct Result: WireResult, Equatable {
        /// The current revision after the refresh.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// Whether the resolved configuration changed.
        public var changed: Bool
        /// Whether the source said that nothing is new.
        public var notModified: Bool
        /// The namespace's state.
        public var state: ConfigState
        /// The upstream version held.
        public var upstreamVersion: String?
        public init(
            revision: Int, epoch: String, changed: Bool, notModified: Bool, state: ConfigState, upstreamVersion: String?
        ) {
            self.revision = revision
            self.epoch = epoch
            self.changed = changed
            self.notModified = notModified
            self.state = state
            self.upstreamVersion = upstreamVersion
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            changed = try reader.requiredBool("changed")
            notModified = try reader.requiredBool("notModified")
            state = ConfigState(rawValue: try reader.requiredString("state"))
            upstreamVersion = try reader.string("upstreamVersion")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("changed", changed)
            writer.member("notModified", notModified)
            writer.member("state", state.rawValue)
            writer.member("upstreamVersion", upstreamVersion)
            writer.endObject()
        }
    }
}
