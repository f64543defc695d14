/// When a rollout began, and the snapshot that is shown during it.
package struct RolloutStart: Sendable, Equatable {
    /// The revision of the snapshot that was current.
    package var revision: Int
    /// In milliseconds since 1970.
    package var since: Int

    package init(revision: Int, since: Int) {
        self.revision = revision
        self.since = since
    }
}

/// How a rollout ends, and why.
package struct RolloutEnd: Sendable, Equatable {
    package enum Outcome: String, Sendable {
        /// The document is published to all clients, because it was accepted or a client approved it.
        case published
        /// The document is published to all clients, although it was rejected or not accepted in time.
        case publishedAnyway
        /// The previous document stays, until one arrives that is newer than the refused one.
        case rolledBack
    }

    package var outcome: Outcome
    /// The candidate to which the end applies; nil for the current one, whichever it is.
    package var document: RollbackHold.Refused?
    /// Why the rollout ends, as text; nil if no reason is known.
    package var reason: String?
    /// The client that requested the end, or whose rejection caused it; nil for none.
    package var peer: Peer?
    /// Whether a client requested the end with `config.rollout`.
    package var isRequested: Bool

    package init(
        _ outcome: Outcome, of document: RollbackHold.Refused? = nil, reason: String? = nil, peer: Peer? = nil,
        isRequested: Bool = false
    ) {
        self.outcome = outcome
        self.document = document
        self.reason = reason
        self.peer = peer
        self.isRequested = isRequested
    }
}
