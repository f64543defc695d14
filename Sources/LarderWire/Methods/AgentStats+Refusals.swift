import JSON

extension AgentStats {
    /// What was refused because of a limit, since the start.
    public struct Refusals: Sendable, Equatable {
        /// Connections, because there were as many as there may be.
        public var connections = 0
        /// Connections, because their user had as many as one may have.
        public var connectionsPerUser = 0
        /// Subscriptions, because their connection or their user had as many as it may have.
        public var subscriptions = 0
        /// Requests, because their user had as many in flight as one may have.
        public var requests = 0
        /// Requests, lines and replies, because too much was held for their user.
        public var queuedBytes = 0
        /// Connections that were closed because too much was held for their user, and that took nothing of it.
        public var queuedConnections = 0
        /// Lines that were too long.
        public var lines = 0
        /// Lines that were not JSON.
        public var malformed = 0

        /// Makes them, all zero.
        public init() {}

        init(from reader: MemberReader) throws(WireError) {
            connections = try reader.requiredInt("connections")
            connectionsPerUser = try reader.requiredInt("connectionsPerUser")
            subscriptions = try reader.requiredInt("subscriptions")
            requests = try reader.requiredInt("requests")
            queuedBytes = try reader.requiredInt("queuedBytes")
            queuedConnections = try reader.requiredInt("queuedConnections")
            lines = try reader.requiredInt("lines")
            malformed = try reader.requiredInt("malformed")
        }

        func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("connections", connections)
            writer.member("connectionsPerUser", connectionsPerUser)
            writer.member("subscriptions", subscriptions)
            writer.member("requests", requests)
            writer.member("queuedBytes", queuedBytes)
            writer.member("queuedConnections", queuedConnections)
            writer.member("lines", lines)
            writer.member("malformed", malformed)
            writer.endObject()
        }

        /// Adds those of another event loop.
        public static func += (left: inout Refusals, right: Refusals) {
            left.connections += right.connections
            left.connectionsPerUser += right.connectionsPerUser
            left.subscriptions += right.subscriptions
            left.requests += right.requests
            left.queuedBytes += right.queuedBytes
            left.queuedConnections += right.queuedConnections
            left.lines += right.lines
            left.malformed += right.malformed
        }
    }
}
