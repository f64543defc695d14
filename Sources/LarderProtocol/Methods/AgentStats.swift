public import LarderJSON

/// `agent.stats`: counters since the agent's start.
public enum AgentStats: WireMethod {
    public static let name = "agent.stats"
    public typealias Parameters = NoParameters

    /// The counters of one namespace.
    public struct Namespace: CounterGroups, Equatable {
        /// The newest revision; 0 where nothing is published yet.
        public var revision = 0
        /// Snapshots published since the start.
        public var publishes = 0
        /// Requests to the remote source.
        public var attempted = 0
        /// Those whose answer changed the remote layer.
        public var changed = 0
        /// Those whose answer was "not modified".
        public var notModified = 0
        /// Those that failed or were refused.
        public var failed = 0
        public init() {}

        package static let groups: [(name: StaticString?, members: [Member])] = [
            (nil, [("revision", \.revision), ("publishes", \.publishes)]),
            (
                "refreshes",
                [
                    ("attempted", \.attempted), ("changed", \.changed), ("notModified", \.notModified),
                    ("failed", \.failed),
                ]
            ),
        ]
    }

    /// The counters of the socket.
    public struct Traffic: CounterGroups, Equatable {
        /// Connections open now.
        public var connectionsOpen = 0
        /// Connections accepted since the start.
        public var connectionsAccepted = 0
        /// Connections turned away, for either of the limits of ``refused``.
        public var connectionsRefused = 0
        /// Connections dropped because the client took no byte for too long.
        public var connectionsStalled = 0
        /// Requests and notifications received.
        public var requestsTotal = 0
        /// Error replies.
        public var requestErrors = 0
        /// Requests that wait for their reply now.
        public var requestsInFlight = 0
        /// Subscriptions open now.
        public var subscriptionsOpen = 0
        public var eventsSent = 0
        /// Snapshots that a subscription was not offered because its client did not keep up.
        public var eventsSkipped = 0
        public var bytesReceived = 0
        public var bytesSent = 0
        /// What was refused because of a limit.
        public var refused = Refusals()
        public init() {}

        /// All but ``refused``.
        package static let groups: [(name: StaticString?, members: [Member])] = [
            (
                "connections",
                [
                    ("open", \.connectionsOpen), ("accepted", \.connectionsAccepted), ("refused", \.connectionsRefused),
                    ("stalled", \.connectionsStalled),
                ]
            ),
            ("requests", [("total", \.requestsTotal), ("errors", \.requestErrors), ("inFlight", \.requestsInFlight)]),
            (
                "subscriptions",
                [("open", \.subscriptionsOpen), ("events", \.eventsSent), ("skipped", \.eventsSkipped)]
            ),
            ("bytes", [("received", \.bytesReceived), ("sent", \.bytesSent)]),
        ]
    }

    /// What `agent.stats` answers.
    public struct Result: WireResult, Equatable {
        /// Milliseconds since the agent's start.
        public var uptimeMilliseconds: Int
        /// The socket's counters.
        public var traffic: Traffic
        /// Resident memory in bytes.
        public var residentBytes: Int
        /// Each namespace's counters by name.
        public var namespaces: [String: Namespace]

        /// The image cache's counters; nil where the settings switch it off.
        public var images: Images?

        public init(
            uptimeMilliseconds: Int, traffic: Traffic, residentBytes: Int, namespaces: [String: Namespace],
            images: Images? = nil
        ) {
            self.uptimeMilliseconds = uptimeMilliseconds
            self.traffic = traffic
            self.residentBytes = residentBytes
            self.namespaces = namespaces
            self.images = images
        }

        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            uptimeMilliseconds = try reader.requiredInt("uptimeMilliseconds")
            traffic = try Traffic(from: reader)
            traffic.refused = try Refusals(from: MemberReader(object: reader.requiredValue("refused")))
            residentBytes = try MemberReader(object: reader.requiredValue("memory")).requiredInt("residentBytes")
            namespaces = [:]
            for (name, counters) in try reader.requiredValue("namespaces").members {
                namespaces[name] = try Namespace(from: MemberReader(object: counters))
            }
            images = try reader.object("images").map { (images) throws(WireError) in try Images(from: images) }
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("uptimeMilliseconds", uptimeMilliseconds)
            traffic.writeMembers(to: &writer)
            writer.name("refused")
            traffic.refused.write(to: &writer)
            writer.name("memory")
            writer.beginObject()
            writer.member("residentBytes", residentBytes)
            writer.endObject()
            writer.name("namespaces")
            writer.beginObject()
            for (name, counters) in namespaces.sorted(by: { $0.key < $1.key }) {
                writer.name(name)
                counters.write(to: &writer)
            }
            writer.endObject()
            writer.name("images")
            if let images { images.write(to: &writer) } else { writer.null() }
            writer.endObject()
        }
    }
}
