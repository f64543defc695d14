public import LarderJSON

/// `config.get`: the value at a path in the current snapshot.
public enum ConfigGet: WireMethod {
    public static let name = "config.get"

    /// What to read.
    public struct Parameters: WireParameters {
        /// The path; the root is the whole document.
        public var path: JSONPath
        /// The namespace's name.
        public var namespace: String
        /// How many seconds ago the remote source must have confirmed the value at least, by being asked now if need be;
        /// nil for whatever is there.
        public var maximumAgeSeconds: Double?
        /// With a maximum age: how many seconds ago it may have confirmed the value where it gives no usable answer now; nil
        /// for an error in that case.
        public var staleIfErrorSeconds: Double?
        public static var positional: [String] { ["path", "namespace", "maximumAgeSeconds", "staleIfErrorSeconds"] }
        public init(
            path: JSONPath = JSONPath([]), namespace: String = defaultNamespace, maximumAgeSeconds: Double? = nil,
            staleIfErrorSeconds: Double? = nil
        ) {
            self.path = path
            self.namespace = namespace
            self.maximumAgeSeconds = maximumAgeSeconds
            self.staleIfErrorSeconds = staleIfErrorSeconds
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.path()
            namespace = try reader.namespace()
            maximumAgeSeconds = try reader.seconds("maximumAgeSeconds")
            staleIfErrorSeconds = try reader.seconds("staleIfErrorSeconds")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.path(path)
            writer.namespace(namespace)
            writer.member("maximumAgeSeconds", maximumAgeSeconds)
            writer.member("staleIfErrorSeconds", staleIfErrorSeconds)
            writer.endObject()
        }
    }

    /// The value and the snapshot that it is part of.
    public struct Result: WireResult, Equatable {
        public var value: JSONValue
        /// The snapshot's revision.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// The namespace's state.
        public var state: ConfigState
        public init(value: JSONValue, revision: Int, epoch: String, state: ConfigState) {
            self.value = value
            self.revision = revision
            self.epoch = epoch
            self.state = state
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            self.value = try reader.requiredValue("value")
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            state = ConfigState(rawValue: try reader.requiredString("state"))
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("value", value)
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("state", state.rawValue)
            writer.endObject()
        }
    }
}
