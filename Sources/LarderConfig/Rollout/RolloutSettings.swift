/// The settings of a namespace for rollouts: a new remote document is first shown only to canaries.
package struct RolloutSettings: Sendable, Equatable {
    /// The acceptances after which the document is published to all clients.
    package enum Requirement: Sendable, Equatable {
        /// Processes with each of these names (`comm` in proc(5)).
        case names([String])
        /// A number of connections.
        case count(Int)
    }

    /// The consequence of a rejection or a timeout.
    package enum Consequence: String, Sendable, CaseIterable {
        /// The previous document stays.
        case rollback
        /// The document is published to all clients.
        case warn
    }

    package var requirement: Requirement
    /// The time from the arrival of the document in which it must be accepted.
    package var timeout = Duration.seconds(60)
    package var onRefusal = Consequence.rollback
    package var onTimeout = Consequence.rollback

    package init(_ requirement: Requirement) { self.requirement = requirement }
}
