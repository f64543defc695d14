public import LarderJSON

/// `config.unset`: removes the overrides at a path and below it, so that the lower layers show again.
public enum ConfigUnset: WireMethod {
    public static let name = "config.unset"

    /// What to remove.
    public struct Parameters: WireParameters {
        /// Where; the root removes every override, and needs ``all``.
        public var path: JSONPath
        /// The namespace's name.
        public var namespace: String
        /// Whether all overrides are removed: true for the root, and false for any other path.
        public var all: Bool
        /// `path`, `namespace`, `all`
        public static var positional: [String] { ["path", "namespace", "all"] }
        public init(path: JSONPath, namespace: String = defaultNamespace, all: Bool = false) {
            self.path = path
            self.namespace = namespace
            self.all = all
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.requiredPath()
            namespace = try reader.namespace()
            all = try reader.confirmation("all", of: path, "unsetting the whole document removes all overrides")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("path")
            writer.string(path.pointer)
            writer.namespace(namespace)
            if all { writer.member("all", true) }
            writer.endObject()
        }
    }

    /// The snapshot that carries the change; `changed` is false where there was no override to remove.
    public typealias Result = ConfigChange
}
