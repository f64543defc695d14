package import LarderConfigModel
import LarderEncoding

/// A client's report whether it accepts a snapshot.
package struct RolloutAcknowledgement: Sendable {
    package var revision: Int
    package var isAccepted: Bool
    /// Why the client rejects the snapshot; nil if it gave no reason.
    package var reason: String?
    package var peer: Peer
    /// Identifies the connection of the client.
    package var client: Int

    package init(revision: Int, isAccepted: Bool, reason: String?, peer: Peer, client: Int) {
        self.revision = revision
        self.isAccepted = isAccepted
        self.reason = reason
        self.peer = peer
        self.client = client
    }
}

/// The progress of one rollout: who has accepted its candidate, and whether it ends. It performs no I/O.
struct RolloutProgress: Sendable {
    private(set) var rollout: CurrentRollout
    var settings: RolloutSettings
    /// The names of the processes that have accepted the candidate, by connection. An acceptance stays valid when the
    /// client disconnects.
    private var acceptances: [Int: String] = [:]
    /// Whether an end was returned. No other end is returned for the same document.
    private var hasEnded = false

    init(_ rollout: CurrentRollout, _ settings: RolloutSettings) {
        self.rollout = rollout
        self.settings = settings
    }

    /// The revision of the candidate; nil if none could be shown.
    var revision: Int? { rollout.candidate?.revision }

    /// When the document must have been accepted, in milliseconds since 1970.
    var deadline: Int { rollout.since + settings.timeout.milliseconds }

    /// The names of the processes that have accepted the candidate, sorted. A name occurs once for each connection.
    var accepted: [String] { acceptances.values.sorted() }

    /// Continues with the current state of the rollout. Acceptances of an earlier candidate do not count for a new one.
    mutating func update(_ current: CurrentRollout) {
        if current.candidate !== rollout.candidate { acceptances = [:] }
        if current.document != rollout.document || current.since != rollout.since { hasEnded = false }
        rollout = current
    }

    /// Records an acknowledgement.
    /// - Returns: the end of the rollout; nil if it continues
    mutating func note(_ acknowledgement: RolloutAcknowledgement) -> RolloutEnd? {
        guard !hasEnded, let revision, acknowledgement.revision == revision else { return nil }
        if !acknowledgement.isAccepted {
            guard mayReject(acknowledgement.peer) else { return nil }
            return end(
                settings.onRefusal, because: acknowledgement.reason ?? "no reason was given", acknowledgement.peer)
        }
        acceptances[acknowledgement.client] = acknowledgement.peer.command
        return endIfAccepted()
    }

    /// The end if the acceptances suffice; nil if the rollout continues. After a change of the settings, they may
    /// suffice without another acknowledgement.
    mutating func endIfAccepted() -> RolloutEnd? {
        guard !hasEnded, revision != nil, isAccepted else { return nil }
        hasEnded = true
        return RolloutEnd(.published, of: rollout.document, reason: "accepted by \(acceptedText)")
    }

    /// The end because of the timeout, at or after ``deadline``; nil if the rollout has ended.
    mutating func timedOut() -> RolloutEnd? {
        if hasEnded { return nil }
        let seconds = settings.timeout.milliseconds / 1000
        let missing =
            switch settings.requirement {
            case .names(let names):
                names.filter { !acceptances.values.contains($0) }.joined(separator: ", ") + " did not accept it"
            case .count(let count): "\(acceptances.count) of \(count) clients accepted it"
            }
        return end(settings.onTimeout, because: "\(missing) within \(seconds) s", nil)
    }

    private mutating func end(
        _ consequence: RolloutSettings.Consequence, because reason: String, _ peer: Peer?
    ) -> RolloutEnd {
        hasEnded = true
        let outcome = consequence == .rollback ? RolloutEnd.Outcome.rolledBack : .publishedAnyway
        return RolloutEnd(outcome, of: rollout.document, reason: reason, peer: peer)
    }

    private var isAccepted: Bool {
        switch settings.requirement {
        case .names(let names): Set(names).isSubset(of: acceptances.values)
        case .count(let count): acceptances.count >= count
        }
    }

    private func mayReject(_ peer: Peer) -> Bool {
        switch settings.requirement {
        case .names(let names): names.contains(peer.command)
        case .count: true
        }
    }

    /// The accepting clients, for messages.
    private var acceptedText: String {
        switch settings.requirement {
        case .names(let names): names.joined(separator: ", ")
        case .count: acceptances.count == 1 ? "1 client" : "\(acceptances.count) clients"
        }
    }
}
