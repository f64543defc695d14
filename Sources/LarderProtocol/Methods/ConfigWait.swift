public import LarderJSON

/// `config.wait`: answers as soon as a condition holds in the current snapshot.
public enum ConfigWait: WireMethod {
    public static let name = "config.wait"

    public enum Condition: Sendable, Equatable {
        /// The value at the path is this one.
        case equals(JSONValue)
        /// It is another one, or nothing is there.
        case notEquals(JSONValue)
        /// Something is at the path, or nothing is.
        case exists(Bool)
        /// A snapshot of this revision or a newer one is there.
        case revisionAtLeast(Int, epoch: String?)
    }

    /// What to wait for, where and how long.
    public struct Parameters: WireParameters {
        /// Ten years: more is a mistake in the unit.
        public static let longestTimeoutMilliseconds = 10 * 366 * 86_400_000

        /// The path; the root is the whole document.
        public var path: JSONPath
        /// The namespace's name.
        public var namespace: String
        public var condition: Condition
        /// After how many milliseconds to give up; nil for never.
        public var timeoutMilliseconds: Int?
        /// `path`, `namespace`, `equals`, `notEquals`, `exists`, `revisionAtLeast`, `epoch`, `timeoutMilliseconds`
        public static var positional: [String] {
            ["path", "namespace", "equals", "notEquals", "exists", "revisionAtLeast", "epoch", "timeoutMilliseconds"]
        }
        public init(
            _ condition: Condition, path: JSONPath = JSONPath([]), namespace: String = defaultNamespace,
            timeoutMilliseconds: Int? = nil
        ) {
            self.path = path
            self.namespace = namespace
            self.condition = condition
            self.timeoutMilliseconds = timeoutMilliseconds
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.path()
            namespace = try reader.namespace()
            var conditions: [Condition] = []
            if let value = reader.value("equals"), !value.isNull { conditions.append(.equals(value)) }
            if let value = reader.value("notEquals"), !value.isNull { conditions.append(.notEquals(value)) }
            if let exists = try reader.bool("exists") { conditions.append(.exists(exists)) }
            let epoch = try reader.string("epoch")
            if let revision = try reader.int("revisionAtLeast", in: 0...largestRevision) {
                conditions.append(.revisionAtLeast(revision, epoch: epoch))
            }
            guard conditions.count == 1 else {
                throw WireError(
                    .invalidParams,
                    "give one of \"equals\", \"notEquals\", \"exists\" and \"revisionAtLeast\", not \(conditions.count)"
                )
            }
            condition = conditions[0]
            timeoutMilliseconds = try reader.int("timeoutMilliseconds", in: 0...Self.longestTimeoutMilliseconds)
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.path(path)
            writer.namespace(namespace)
            switch condition {
            case .equals(let value): writer.member("equals", value)
            case .notEquals(let value): writer.member("notEquals", value)
            case .exists(let exists): writer.member("exists", exists)
            case .revisionAtLeast(let revision, let epoch):
                writer.member("revisionAtLeast", revision)
                writer.member("epoch", epoch)
            }
            writer.member("timeoutMilliseconds", timeoutMilliseconds)
            writer.endObject()
        }
    }

    /// The value at the path, in the snapshot in which the condition holds.
    public struct Result: WireResult, Equatable {
        /// The value; nil where nothing is at the path.
        public var value: JSONValue?
        /// The snapshot's revision.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// The namespace's state.
        public var state: ConfigState
        /// Whether something is at the path.
        public var exists: Bool { value != nil }
        public init(value: JSONValue?, revision: Int, epoch: String, state: ConfigState) {
            self.value = value
            self.revision = revision
            self.epoch = epoch
            self.state = state
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            self.value = try reader.requiredBool("exists") ? reader.requiredValue("value") : nil
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            state = ConfigState(rawValue: try reader.requiredString("state"))
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("exists", exists)
            writer.member("value", value)
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("state", state.rawValue)
            writer.endObject()
        }
    }
}
