extension AgentStats {
    /// What was refused because of a limit, since the start.
    public struct Refusals: CounterGroups, Equatable {
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

        public init() {}

        package static let groups: [(name: StaticString?, members: [Member])] = [
            (
                nil,
                [
                    ("connections", \.connections), ("connectionsPerUser", \.connectionsPerUser),
                    ("subscriptions", \.subscriptions), ("requests", \.requests), ("queuedBytes", \.queuedBytes),
                    ("queuedConnections", \.queuedConnections), ("lines", \.lines), ("malformed", \.malformed),
                ]
            )
        ]
    }
}
