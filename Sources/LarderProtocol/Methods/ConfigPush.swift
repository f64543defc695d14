public import LarderJSON

/// `config.push`: hands the agent a whole document as the namespace's remote layer.
public enum ConfigPush: WireMethod {
    public static let name = "config.push"

    /// The document and what its sender calls its version.
    public struct Parameters: WireParameters {
        /// The document, an object.
        public var document: JSONValue
        /// The namespace's name.
        public var namespace: String
        /// The upstream version; a version older than the one held is refused unless forced.
        public var version: String?
        /// Whether to take the document even if its version is older.
        public var force: Bool
        public static var positional: [String] { ["document", "namespace", "version", "force"] }
        public init(
            document: JSONValue, namespace: String = defaultNamespace, version: String? = nil, force: Bool = false
        ) {
            self.document = document
            self.namespace = namespace
            self.version = version
            self.force = force
        }
        public init(from reader: MemberReader) throws(WireError) {
            document = try reader.requiredValue("document")
            guard document.kind == .object else {
                throw WireError(.invalidParams, "\"document\" must be an object, not \(document.kind)")
            }
            namespace = try reader.namespace()
            version = try reader.string("version")
            force = try reader.bool("force") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("document", document)
            writer.namespace(namespace)
            writer.member("version", version)
            if force { writer.member("force", true) }
            writer.endObject()
        }
    }

    /// The snapshot that carries the document.
    public typealias Result = ConfigChange
}
