public import JSON

/// One event of a subscription: the notification `config.event`.
///
/// On the wire an event is a head, which differs for each subscription, and a body, which all subscriptions to the
/// same path share: `{"jsonrpc":"2.0","method":"config.event","params":{` `"subscription":1,"sequence":1,` | `"kind":…}}`.
public struct ConfigEvent: Sendable, Equatable {
    /// The notification's method.
    public static let method = "config.event"

    /// Why an event carries the whole value, or why the subscription ended.
    public enum Reason: String, Sendable {
        /// The first event of a subscription that held nothing.
        case initial
        /// A new snapshot.
        case change
        /// The revision that the client held is no longer known.
        case gap
        /// The client's revision belongs to another epoch.
        case restart
        /// A merge patch cannot say this change.
        case inexpressible
        /// The agent is stopping.
        case shutdown
        /// The settings no longer declare the namespace.
        case namespaceRemoved
        /// The settings no longer let the peer read the namespace.
        case denied
    }

    /// What an event says.
    public enum Content: Sendable, Equatable {
        /// The whole value at the path; nil where there is nothing.
        case snapshot(JSONValue?, Reason)
        /// A merge patch (RFC 7396) onto the value at revision `from`.
        case patch(JSONValue, from: Int)
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
    /// What it says.
    public var content: Content

    /// Makes an event.
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
        case "end":
            content = .end(try Self.reason(reader))
        default:
            throw WireError(.invalidParams, "\"kind\" is \"\(kind)\", which this version does not know")
        }
    }

    private static func reason(_ reader: MemberReader) throws(WireError) -> Reason {
        let name = try reader.requiredString("reason")
        guard let reason = Reason(rawValue: name) else {
            throw WireError(.invalidParams, "\"reason\" is \"\(name)\", which this version does not know")
        }
        return reason
    }

    /// Appends the head: all that comes before the shared body.
    public static func appendHead(subscription: Int, sequence: Int, skipped: Int, to writer: inout JSONWriter) {
        appendUnframed("{\"jsonrpc\":\"2.0\",\"method\":\"config.event\",\"params\":{\"subscription\":", to: &writer)
        appendUnframed(subscription, to: &writer)
        appendUnframed(",\"sequence\":", to: &writer)
        appendUnframed(sequence, to: &writer)
        if skipped > 0 {
            appendUnframed(",\"skipped\":", to: &writer)
            appendUnframed(skipped, to: &writer)
        }
        appendUnframed(",", to: &writer)
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
        case .end(let reason):
            writer.member("reason", reason.rawValue)
        }
        writer.endObject()
        // The opening brace belongs to the head; the notification's own brace and the line end follow.
        var bytes = writer.bytes
        bytes.removeFirst()
        bytes.append(UInt8(ascii: "}"))
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }

    private static func appendUnframed(_ text: StaticString, to writer: inout JSONWriter) {
        writer.rawUnframed(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private static func appendUnframed(_ number: Int, to writer: inout JSONWriter) {
        var text = String(number)
        text.withUTF8 { writer.rawUnframed(UnsafeRawBufferPointer($0)) }
    }
}
