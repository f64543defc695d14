public import LarderJSON

/// One event of a subscription: the notification `config.event`.
///
/// On the wire an event is a head, which differs for each subscription, and a body, which all subscriptions to the
/// same path share: `{"jsonrpc":"2.0","method":"config.event","params":{` `"subscription":1,"sequence":1,` | `"kind":…}}`.
public struct ConfigEvent: Sendable, Equatable {
    /// The notification's method.
    public static let method = "config.event"

    /// Why an event carries the whole value, or why the subscription ended. A reason that this version does not know is kept
    /// as it came.
    public struct Reason: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The first event of a subscription that held nothing.
        public static let initial = Self(rawValue: "initial")
        /// A new snapshot.
        public static let change = Self(rawValue: "change")
        /// The revision that the client held is no longer known.
        public static let gap = Self(rawValue: "gap")
        /// The client's revision belongs to another epoch.
        public static let restart = Self(rawValue: "restart")
        /// A merge patch cannot say this change.
        public static let inexpressible = Self(rawValue: "inexpressible")
        /// The agent is stopping.
        public static let shutdown = Self(rawValue: "shutdown")
        /// The settings no longer declare the namespace.
        public static let namespaceRemoved = Self(rawValue: "namespaceRemoved")
        /// The settings no longer let the peer read the namespace.
        public static let denied = Self(rawValue: "denied")

        public var description: String { rawValue }
    }

    public enum Content: Sendable, Equatable {
        /// The whole value at the path; nil where there is nothing.
        case snapshot(JSONValue?, Reason)
        /// A merge patch (RFC 7396) onto the value at revision `from`.
        case patch(JSONValue, from: Int)
        /// That there is another snapshot, without anything of it.
        case revision(Reason)
        /// The last event of the subscription.
        case end(Reason)
    }

    /// The subscription that it belongs to.
    public var subscription: Int
    /// 1 for the first event of the subscription, then one more each time.
    public var sequence: Int
    /// Snapshots published before this one that the subscription was not offered: its client did not keep up, or the
    /// agent joined snapshots that followed closely.
    public var skipped: Int
    /// The namespace's name.
    public var namespace: String
    /// The epoch in which the revision counts.
    public var epoch: String
    /// The snapshot's revision.
    public var revision: Int
    /// The namespace's state.
    public var state: ConfigState
    public var content: Content

    public init(
        subscription: Int, sequence: Int, skipped: Int = 0, namespace: String, epoch: String, revision: Int,
        state: ConfigState, content: Content
    ) {
        self.subscription = subscription
        self.sequence = sequence
        self.skipped = skipped
        self.namespace = namespace
        self.epoch = epoch
        self.revision = revision
        self.state = state
        self.content = content
    }

    /// Reads the `params` of the notification.
    /// - Throws: `invalidParams` naming the member that is missing or has the wrong type.
    public init(params: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: params)
        subscription = try reader.requiredInt("subscription")
        sequence = try reader.requiredInt("sequence")
        skipped = try reader.int("skipped") ?? 0
        namespace = try reader.requiredString("namespace")
        epoch = try reader.requiredString("epoch")
        revision = try reader.requiredInt("revision")
        state = ConfigState(rawValue: try reader.requiredString("state"))
        let kind = try reader.requiredString("kind")
        switch kind {
        case "snapshot":
            let exists = try reader.bool("exists") ?? true
            content = .snapshot(exists ? try reader.requiredValue("value") : nil, try Self.reason(reader))
        case "patch":
            content = .patch(try reader.requiredValue("patch"), from: try reader.requiredInt("from"))
        case "revision":
            content = .revision(try Self.reason(reader))
        case "end":
            content = .end(try Self.reason(reader))
        default:
            throw WireError(.invalidParams, "\"kind\" is \"\(kind)\", which this version does not know")
        }
    }

    private static func reason(_ reader: MemberReader) throws(WireError) -> Reason {
        Reason(rawValue: try reader.requiredString("reason"))
    }

    /// Appends an event: its head, and the shared body.
    /// - Parameter body: as ``body(namespace:epoch:revision:state:content:)`` made it; empty where it is written by itself
    public static func append(
        subscription: Int, sequence: Int, skipped: Int, body: UnsafeRawBufferPointer, to writer: inout JSONWriter
    ) {
        let isWhole = skipped == 0
        writer.rawUnframed(
            "{\"jsonrpc\":\"2.0\",\"method\":\"config.event\",\"params\":{\"subscription\":", UInt64(subscription),
            ",\"sequence\":", UInt64(sequence), isWhole ? body : UnsafeRawBufferPointer(start: nil, count: 0))
        if isWhole { return }
        let name: StaticString = ",\"skipped\":"
        writer.rawUnframed(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        writer.rawUnframed(UInt64(skipped))
        writer.rawUnframed(body)
    }

    /// The shared body with the closing braces and the LF: what follows the head on the wire.
    public static func body(
        namespace: String, epoch: String, revision: Int, state: ConfigState, content: Content
    ) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writer.beginObject()
        switch content {
        case .snapshot: writer.member("kind", "snapshot")
        case .patch: writer.member("kind", "patch")
        case .revision: writer.member("kind", "revision")
        case .end: writer.member("kind", "end")
        }
        writer.member("namespace", namespace)
        writer.member("epoch", epoch)
        writer.member("revision", revision)
        writer.member("state", state.rawValue)
        switch content {
        case .snapshot(let value, let reason):
            writer.member("reason", reason.rawValue)
            if let value { writer.member("value", value) } else { writer.member("exists", false) }
        case .patch(let patch, let from):
            writer.member("from", from)
            writer.member("patch", patch)
        case .revision(let reason), .end(let reason):
            writer.member("reason", reason.rawValue)
        }
        writer.endObject()
        // The opening brace stands in the head, whose members it goes on from; the notification's own brace and the line end
        // follow.
        var bytes = writer.bytes
        bytes[0] = UInt8(ascii: ",")
        bytes.append(UInt8(ascii: "}"))
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }
}
