package import LarderConfigModel

/// The rollouts of a namespace, for `config.status`.
package struct RolloutReport: Sendable {
    /// The rollout in progress.
    package struct Progress: Sendable {
        /// The revision of the candidate; nil if none could be shown.
        package var revision: Int?
        /// The upstream version of the document; nil if it has none.
        package var version: String?
        /// When the document arrived, in milliseconds since 1970.
        package var since: Int
        /// When the document must have been accepted, in milliseconds since 1970.
        package var deadline: Int
        package var requirement: RolloutSettings.Requirement
        /// The names of the processes that have accepted the candidate, one for each connection.
        package var accepted: [String]
    }

    /// A rollout that has ended.
    package struct Ended: Sendable, Equatable {
        package var end: RolloutEnd
        /// When it ended, in milliseconds since 1970.
        package var at: Int

        /// The upstream version of the document; nil if it has none.
        package var version: String? { end.document?.version?.text }
    }

    package var progress: Progress?
    /// The last rollout that has ended since the start of the agent.
    package var last: Ended?
}
