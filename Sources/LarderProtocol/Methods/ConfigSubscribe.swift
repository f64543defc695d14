public import LarderJSON

/// `config.subscribe`: every new snapshot from now on, as ``ConfigEvent`` notifications.
public enum ConfigSubscribe: WireMethod {
    public static let name = "config.subscribe"

    /// How changes are told.
    public enum Mode: String, Sendable {
        /// Each event carries the whole value.
        case snapshot
        /// Events carry RFC 7396 merge patches where those can say the change.
        case patch
        /// Events carry no value, only the revision: for clients that read what they want by themselves.
        case revision
    }

    /// What to follow, and what the client holds already.
    public struct Parameters: WireParameters {
        /// Events come only when the value at this path changes.
        public var path: JSONPath
        /// The namespace's name.
        public var namespace: String
        /// How changes are told.
        public var mode: Mode
        /// The revision that the client holds already; nil for none.
        public var since: Int?
        /// The epoch of `since`; nil means the agent's current one.
        public var epoch: String?
        public static var positional: [String] { ["path", "namespace", "mode", "since", "epoch"] }
        public init(
            path: JSONPath = JSONPath([]), namespace: String = defaultNamespace, mode: Mode = .snapshot,
            since: Int? = nil, epoch: String? = nil
        ) {
            self.path = path
            self.namespace = namespace
            self.mode = mode
            self.since = since
            self.epoch = epoch
        }
        public init(from reader: MemberReader) throws(WireError) {
            path = try reader.path()
            namespace = try reader.namespace()
            let name = try reader.string("mode") ?? Mode.snapshot.rawValue
            guard let mode = Mode(rawValue: name) else {
                throw WireError(
                    .invalidParams, "\"mode\" must be \"snapshot\", \"patch\" or \"revision\", not \"\(name)\"")
            }
            self.mode = mode
            since = try reader.int("since", in: 0...largestRevision)
            epoch = try reader.string("epoch")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.path(path)
            writer.namespace(namespace)
            if mode != .snapshot { writer.member("mode", mode.rawValue) }
            writer.member("since", since)
            writer.member("epoch", epoch)
            writer.endObject()
        }
    }

    /// The subscription's number and where it starts.
    public struct Result: WireResult, Equatable {
        /// The number that its events carry and that `config.unsubscribe` takes; unique within the connection.
        public var subscription: Int
        /// The current revision; 0 where nothing is published yet.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// The namespace's state.
        public var state: ConfigState
        public init(subscription: Int, revision: Int, epoch: String, state: ConfigState) {
            self.subscription = subscription
            self.revision = revision
            self.epoch = epoch
            self.state = state
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            subscription = try reader.requiredInt("subscription")
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            state = ConfigState(rawValue: try reader.requiredString("state"))
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("subscription", subscription)
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("state", state.rawValue)
            writer.endObject()
        }
    }
}
