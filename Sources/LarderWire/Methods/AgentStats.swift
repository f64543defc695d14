public import JSON

/// `agent.stats`: counters since the agent's start.
public enum AgentStats: WireMethod {
    /// `agent.stats`
    public static let name = "agent.stats"
    public typealias Parameters = NoParameters

    /// The counters of one namespace.
    public struct Namespace: Sendable, Equatable {
        /// The newest revision; 0 where nothing is published yet.
        public var revision: Int
        /// Snapshots published since the start.
        public var publishes: Int
        /// Requests to the remote source.
        public var attempted: Int
        /// Those whose answer changed the remote layer.
        public var changed: Int
        /// Those whose answer was "not modified".
        public var notModified: Int
        /// Those that failed or were refused.
        public var failed: Int
        public init(revision: Int, publishes: Int, attempted: Int, changed: Int, notModified: Int, failed: Int) {
            self.revision = revision
            self.publishes = publishes
            self.attempted = attempted
            self.changed = changed
            self.notModified = notModified
            self.failed = failed
        }
    }

    /// The counters of the socket.
    public struct Traffic: Sendable, Equatable {
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
        /// Events sent.
        public var eventsSent = 0
        /// Snapshots that a subscription was not offered because its client did not keep up.
        public var eventsSkipped = 0
        /// Bytes received.
        public var bytesReceived = 0
        /// Bytes sent.
        public var bytesSent = 0
        /// What was refused because of a limit.
        public var refused = Refusals()
        /// Makes them, all zero.
        public init() {}
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
            traffic = Traffic()
            let connections = try MemberReader(object: reader.requiredValue("connections"))
            traffic.connectionsOpen = try connections.requiredInt("open")
            traffic.connectionsAccepted = try connections.requiredInt("accepted")
            traffic.connectionsRefused = try connections.requiredInt("refused")
            traffic.connectionsStalled = try connections.requiredInt("stalled")
            let requests = try MemberReader(object: reader.requiredValue("requests"))
            traffic.requestsTotal = try requests.requiredInt("total")
            traffic.requestErrors = try requests.requiredInt("errors")
            traffic.requestsInFlight = try requests.requiredInt("inFlight")
            let subscriptions = try MemberReader(object: reader.requiredValue("subscriptions"))
            traffic.subscriptionsOpen = try subscriptions.requiredInt("open")
            traffic.eventsSent = try subscriptions.requiredInt("events")
            traffic.eventsSkipped = try subscriptions.requiredInt("skipped")
            let bytes = try MemberReader(object: reader.requiredValue("bytes"))
            traffic.bytesReceived = try bytes.requiredInt("received")
            traffic.bytesSent = try bytes.requiredInt("sent")
            if let refused = try reader.object("refused") { traffic.refused = try Refusals(from: refused) }
            residentBytes = try MemberReader(object: reader.requiredValue("memory")).requiredInt("residentBytes")
            namespaces = [:]
            for (name, counters) in try reader.requiredValue("namespaces").members {
                let reader = try MemberReader(object: counters)
                let refreshes = try MemberReader(object: reader.requiredValue("refreshes"))
                namespaces[name] = Namespace(
                    revision: try reader.requiredInt("revision"), publishes: try reader.requiredInt("publishes"),
                    attempted: try refreshes.requiredInt("attempted"), changed: try refreshes.requiredInt("changed"),
                    notModified: try refreshes.requiredInt("notModified"), failed: try refreshes.requiredInt("failed"))
            }
            images = try reader.object("images").map { (images) throws(WireError) in try Images(from: images) }
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("uptimeMilliseconds", uptimeMilliseconds)
            writer.name("connections")
            writer.beginObject()
            writer.member("open", traffic.connectionsOpen)
            writer.member("accepted", traffic.connectionsAccepted)
            writer.member("refused", traffic.connectionsRefused)
            writer.member("stalled", traffic.connectionsStalled)
            writer.endObject()
            writer.name("requests")
            writer.beginObject()
            writer.member("total", traffic.requestsTotal)
            writer.member("errors", traffic.requestErrors)
            writer.member("inFlight", traffic.requestsInFlight)
            writer.endObject()
            writer.name("subscriptions")
            writer.beginObject()
            writer.member("open", traffic.subscriptionsOpen)
            writer.member("events", traffic.eventsSent)
            writer.member("skipped", traffic.eventsSkipped)
            writer.endObject()
            writer.name("bytes")
            writer.beginObject()
            writer.member("received", traffic.bytesReceived)
            writer.member("sent", traffic.bytesSent)
            writer.endObject()
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

extension AgentStats.Namespace {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("revision", revision)
        writer.member("publishes", publishes)
        writer.name("refreshes")
        writer.beginObject()
        writer.member("attempted", attempted)
        writer.member("changed", changed)
        writer.member("notModified", notModified)
        writer.member("failed", failed)
        writer.endObject()
        writer.endObject()
    }
}
