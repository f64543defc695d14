public import LarderProtocol

extension TestAgent {
    /// The faults between an agent and its clients, as ``TestAgent/faults`` has them. Each fault lasts until it is
    /// switched off; a new value without faults ends all of them.
    ///
    /// ```swift
    /// agent.faults.isUnreachable = true
    /// agent.faults.delay = .milliseconds(200)
    /// agent.faults = TestAgent.Faults()
    /// ```
    ///
    /// Mapped snapshots and images stored from a file use connections of their own. Of the faults, only
    /// ``isUnreachable`` and ``deniedRights`` affect those.
    public struct Faults: Sendable, Hashable {
        /// Whether attempts to connect fail with `ECONNREFUSED`. Existing connections stay open; see
        /// ``TestAgent/disconnect()``.
        public var isUnreachable = false
        /// The time on the clock of the agent by which each reply and each event arrives later. If it becomes zero,
        /// messages that are held back arrive at once.
        public var delay = Duration.zero
        /// The rights that clients lack. Calls that need them fail with `denied`, and subscriptions that need them end.
        public var deniedRights: Set<Right> = []
        /// Whether each reply and each event arrives as a line that is not JSON. A client that receives one fails its
        /// calls with `protocolViolation` and closes the connection.
        public var sendsGarbage = false
        /// Whether each reply and each event has the revision 1, the oldest one, whatever its content. A stream does
        /// not deliver such a snapshot if it has delivered a newer one.
        public var sendsOldRevisions = false

        /// Creates a value without faults.
        public init() {}

        var changesMessages: Bool { sendsGarbage || sendsOldRevisions }
    }
}
