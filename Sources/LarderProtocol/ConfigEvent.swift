import LarderEncoding
package import LarderJSON

/// An event of a subscription: the notification `config.event`.
///
/// On the wire an event consists of a head, which is specific to one subscription, and a body, which all subscriptions
/// to the same path share: `{"jsonrpc":"2.0","method":"config.event","params":{"subscription":1,"sequence":1` is a
/// head, `,"kind":…}}` a body.
package struct ConfigEvent: Sendable, Equatable {
    /// The method of the notification.
    package static let method = "config.event"

    /// Why an event was sent with the whole value or with a revision only, or why the subscription ended. A reason that
    /// this version does not know is kept as received.
    package struct Reason: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        package let rawValue: String
        package init(rawValue: String) { self.rawValue = rawValue }

        /// The event is the first one of a subscription, and the client had no snapshot yet.
        package static let initial = Self(rawValue: "initial")
        /// A new snapshot was published.
        package static let change = Self(rawValue: "change")
        /// The client has a revision that the agent no longer has, so the agent cannot send the difference.
        package static let gap = Self(rawValue: "gap")
        /// The client has a revision of another epoch.
        package static let restart = Self(rawValue: "restart")
        /// The change cannot be expressed as a merge patch.
        package static let inexpressible = Self(rawValue: "inexpressible")
        /// The agent is stopping.
        package static let shutdown = Self(rawValue: "shutdown")
        /// The settings no longer declare the namespace.
        package static let namespaceRemoved = Self(rawValue: "namespaceRemoved")
        /// The settings no longer permit the peer to read the namespace.
        package static let denied = Self(rawValue: "denied")

        package var description: String { rawValue }
    }

    package enum Content: Sendable, Equatable {
        /// The whole value at the path; nil if there is no value.
        case snapshot(JSONValue?, Reason)
        /// A merge patch (RFC 7396) to apply to the value at revision `from`.
        case patch(JSONValue, from: Int)
        /// A new snapshot was published. The event does not contain any of its content.
        case revision(Reason)
        /// Outcomes of feature flags: of all flags of the subscription in its first event, later of those that have
        /// changed.
        case flags([WireFlagOutcome], Reason)
        /// The end of the subscription. No further events follow.
        case end(Reason)
        /// An event of a kind that this version does not know. It counts in the sequence and has no other effect.
        case unknown(kind: String)
    }

    /// The number of the subscription.
    package var subscription: Int
    /// The number of this event within the subscription, counted from 1.
    package var sequence: Int
    /// The number of earlier snapshots that this subscription did not receive, because the client was too slow or the
    /// snapshots followed each other closely.
    package var skipped: Int
    package var namespace: String
    /// The epoch of the revision.
    package var epoch: String
    /// The revision of the snapshot.
    package var revision: Int
    /// The state of the namespace.
    package var state: ConfigState
    package var content: Content

    package init(
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
    /// - Throws: `invalidParams` with the name of the member that is missing or has the wrong type
    package init(params: JSONValue) throws(WireError) {
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
        case "flags":
            var outcomes: [WireFlagOutcome] = []
            for outcome in try reader.requiredValue("flags").elements {
                outcomes.append(try WireFlagOutcome(from: outcome))
            }
            content = .flags(outcomes, try Self.reason(reader))
        case "end":
            content = .end(try Self.reason(reader))
        default:
            content = .unknown(kind: kind)
        }
    }

    private static func reason(_ reader: MemberReader) throws(WireError) -> Reason {
        Reason(rawValue: try reader.requiredString("reason"))
    }

    /// Appends a complete event: the head for one subscription, and the shared body.
    /// - Parameters:
    ///   - subscription: the number of the subscription
    ///   - sequence: the number of the event within the subscription, counted from 1
    ///   - skipped: the number of earlier snapshots that the subscription did not receive
    ///   - body: the result of ``body(namespace:epoch:revision:state:content:)``, or empty if the caller writes the
    ///     body itself
    ///   - writer: receives the event
    package static func append(
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

    /// Returns the body that the subscriptions share, including the closing braces and the LF.
    package static func body(
        namespace: String, epoch: String, revision: Int, state: ConfigState, content: Content
    ) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writer.beginObject()
        switch content {
        case .snapshot: writer.member("kind", "snapshot")
        case .patch: writer.member("kind", "patch")
        case .revision: writer.member("kind", "revision")
        case .flags: writer.member("kind", "flags")
        case .end: writer.member("kind", "end")
        case .unknown(let kind): writer.member("kind", kind)
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
        case .flags(let outcomes, let reason):
            writer.member("reason", reason.rawValue)
            writer.name("flags")
            writer.beginArray()
            for outcome in outcomes { outcome.write(to: &writer) }
            writer.endArray()
        case .unknown: break
        }
        writer.endObject()
        // The head contains the opening brace of `params`, so a comma replaces the brace at the start of the body. The
        // closing brace of the notification and the LF are added at the end.
        var bytes = writer.bytes
        bytes[0] = UInt8(ascii: ",")
        bytes.append(UInt8(ascii: "}"))
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }
}

extension MemberReader {
    /// The `mode` of a subscription; `snapshot` if the member is absent or null.
    func subscriptionMode() throws(WireError) -> ConfigSubscribe.Mode {
        guard let name = try string("mode") else { return .snapshot }
        guard let mode = ConfigSubscribe.Mode(rawValue: name) else {
            throw WireError(
                .invalidParams, "\"mode\" must be \"snapshot\", \"patch\" or \"revision\", not \"\(name.excerpt)\"")
        }
        return mode
    }
}
