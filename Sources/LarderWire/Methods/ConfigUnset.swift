public import JSON

/// `config.unset`: removes the overrides at a path and below it, so that the lower layers show again.
public enum ConfigUnset: WireMethod {
    public static let name = "config.unset"

    /// What to remove.
    public struct Parameters: WireParameters {
        /// Where; the root removes every override.
        public var path: JSONPath
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["path", "namespace"] }
        public init(path: JSONPath, namespace: String = defaultNamespace) {
            self.path = path
            self.namespace = namespace
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.requiredPath()
            namespace = try reader.namespace()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("path")
            writer.string(path.pointer)
            writer.namespace(namespace)
            writer.endObject()
        }
    }

    /// The snapshot that carries the change; `changed` is false where there was no override to remove.
    public typealias Result = ConfigChange
}
