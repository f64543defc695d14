public import LarderJSON

/// `config.set`: puts a value into the override layer, above every other layer.
public enum ConfigSet: WireMethod {
    public static let name = "config.set"

    public struct Parameters: WireParameters {
        /// Where; each segment is a member name, array elements cannot be overridden one by one.
        public var path: JSONPath
        /// The value. An object is merged with what the lower layers hold; null hides it (RFC 7396).
        public var value: JSONValue
        /// The namespace's name.
        public var namespace: String
        /// After how many milliseconds the override ends by itself; nil for never.
        public var ttlMilliseconds: Int?
        /// Whether the value replaces all overrides: true for the root, and false for any other path.
        public var replaceAll: Bool
        /// `path`, `value`, `namespace`, `ttlMilliseconds`, `replaceAll`
        public static var positional: [String] { ["path", "value", "namespace", "ttlMilliseconds", "replaceAll"] }
        public init(
            path: JSONPath, value: JSONValue, namespace: String = defaultNamespace, ttlMilliseconds: Int? = nil,
            replaceAll: Bool = false
        ) {
            self.path = path
            self.value = value
            self.namespace = namespace
            self.ttlMilliseconds = ttlMilliseconds
            self.replaceAll = replaceAll
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.requiredPath()
            value = try reader.requiredValue("value")
            namespace = try reader.namespace()
            ttlMilliseconds = try reader.int("ttlMilliseconds", in: 1...Self.longestTTLMilliseconds)
            replaceAll = try reader.confirmation(
                "replaceAll", of: path, "setting the whole document replaces all overrides")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("path")
            writer.string(path.pointer)
            writer.member("value", value)
            writer.namespace(namespace)
            writer.member("ttlMilliseconds", ttlMilliseconds)
            if replaceAll { writer.member("replaceAll", true) }
            writer.endObject()
        }
        /// Ten years: more is a mistake in the unit.
        public static let longestTTLMilliseconds = 10 * 366 * 86_400_000
    }

    /// The snapshot that carries the change.
    public typealias Result = ConfigChange
}

/// What a change of the configuration answers: the snapshot that carries it.
public struct ConfigChange: WireResult, Equatable {
    /// The first revision with the change in it; the current one where nothing changed.
    public var revision: Int
    /// The epoch in which that revision counts.
    public var epoch: String
    /// Whether the resolved configuration differs from before.
    public var changed: Bool
    /// When the override that `config.set` made ends; nil for never, and for other changes.
    public var expiresAt: Timestamp?
    /// Whether `config.set` replaced an override that would have ended at another time, or never.
    public var lifetimeChanged: Bool
    public init(
        revision: Int, epoch: String, changed: Bool, expiresAt: Timestamp? = nil, lifetimeChanged: Bool = false
    ) {
        self.revision = revision
        self.epoch = epoch
        self.changed = changed
        self.expiresAt = expiresAt
        self.lifetimeChanged = lifetimeChanged
    }
    public init(from value: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: value)
        revision = try reader.requiredInt("revision")
        epoch = try reader.requiredString("epoch")
        changed = try reader.requiredBool("changed")
        expiresAt = try reader.timestamp("expiresAt")
        lifetimeChanged = try reader.bool("lifetimeChanged") ?? false
    }
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("revision", revision)
        writer.member("epoch", epoch)
        writer.member("changed", changed)
        if let expiresAt { writer.member("expiresAt", expiresAt.description) }
        if lifetimeChanged { writer.member("lifetimeChanged", true) }
        writer.endObject()
    }
}
