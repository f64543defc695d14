import LarderProtocol
import Synchronization

/// What the clients that are connected said of snapshots, over all event loops: of each namespace the last word of each
/// connection.
final class AcknowledgementBook: Sendable {
    /// One client's word.
    struct Entry: Sendable {
        var revision: Int
        var accepted: Bool
        var reason: String?
        var at: Timestamp
        var peer: PeerCredentials
    }

    /// The most refusals that a status lists.
    static let mostRefusals = 64

    /// By namespace and connection.
    private let entries = Mutex<[String: [Int: Entry]]>([:])

    /// Notes what a client says.
    func note(_ entry: Entry, by client: Int, of namespace: String) {
        entries.withLock { $0[namespace, default: [:]][client] = entry }
    }

    /// Forgets a client that is gone.
    func forget(_ client: Int) {
        entries.withLock { entries in
            for namespace in entries.keys {
                entries[namespace]?[client] = nil
                if entries[namespace]?.isEmpty ?? false { entries[namespace] = nil }
            }
        }
    }

    /// What a client said, in the order of the namespaces' names.
    func said(by client: Int) -> [AgentClients.Acknowledgement] {
        let said = entries.withLock { $0.compactMapValues { $0[client] } }
        return said.sorted { $0.key < $1.key }.map { namespace, entry in
            AgentClients.Acknowledgement(
                namespace: namespace, revision: entry.revision, accepted: entry.accepted, reason: entry.reason,
                at: entry.at)
        }
    }

    /// What all clients said of a namespace.
    func summary(of namespace: String) -> ConfigStatus.Acknowledgements {
        let said = entries.withLock { $0[namespace] } ?? [:]
        var summary = ConfigStatus.Acknowledgements()
        for entry in said.values where entry.accepted { summary.accepted[entry.revision, default: 0] += 1 }
        let refused = said.filter { !$0.value.accepted }.sorted { ($0.value.at, $0.key) > ($1.value.at, $1.key) }
        summary.refused = refused.prefix(Self.mostRefusals).map { client, entry in
            ConfigStatus.Acknowledgements.Refusal(
                client: client,
                peer: WirePeer(pid: entry.peer.pid, uid: entry.peer.uid, command: entry.peer.command),
                revision: entry.revision, reason: entry.reason, at: entry.at)
        }
        return summary
    }
}
