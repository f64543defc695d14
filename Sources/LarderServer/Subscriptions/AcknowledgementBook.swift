import LarderProtocol
import Synchronization

/// The last acknowledgement of each connection for each namespace, over all event loops.
final class AcknowledgementBook: Sendable {
    /// The acknowledgement of one client for one namespace.
    struct Entry: Sendable {
        var revision: Int
        var accepted: Bool
        var reason: String?
        var at: Timestamp
        var peer: PeerCredentials
    }

    /// The maximum number of rejections that the status of a namespace lists.
    static let maxRefusals = 64

    /// Keyed by namespace, then by connection id.
    private let entries = Mutex<[String: [Int: Entry]]>([:])

    /// Replaces the acknowledgement of a client for a namespace.
    func note(_ entry: Entry, by client: Int, of namespace: String) {
        entries.withLock { $0[namespace, default: [:]][client] = entry }
    }

    /// Removes the acknowledgements of a client that has disconnected.
    func forget(_ client: Int) {
        entries.withLock { entries in
            for namespace in entries.keys {
                entries[namespace]?[client] = nil
                if entries[namespace]?.isEmpty ?? false { entries[namespace] = nil }
            }
        }
    }

    /// The last acknowledgement of a client for each namespace, ordered by namespace.
    func latest(by client: Int) -> [AgentClients.Acknowledgement] {
        let latest = entries.withLock { $0.compactMapValues { $0[client] } }
        return latest.sorted { $0.key < $1.key }.map { namespace, entry in
            AgentClients.Acknowledgement(
                namespace: namespace, revision: entry.revision, accepted: entry.accepted, reason: entry.reason,
                at: entry.at)
        }
    }

    /// A summary of all clients' acknowledgements for a namespace.
    func summary(of namespace: String) -> ConfigStatus.Acknowledgements {
        let latest = entries.withLock { $0[namespace] } ?? [:]
        var summary = ConfigStatus.Acknowledgements()
        for entry in latest.values where entry.accepted { summary.accepted[entry.revision, default: 0] += 1 }
        let refused = latest.filter { !$0.value.accepted }.sorted { ($0.value.at, $0.key) > ($1.value.at, $1.key) }
        summary.refused = refused.prefix(Self.maxRefusals).map { client, entry in
            ConfigStatus.Acknowledgements.Refusal(
                client: client,
                peer: WirePeer(pid: entry.peer.pid, uid: entry.peer.uid, command: entry.peer.command),
                revision: entry.revision, reason: entry.reason, at: entry.at)
        }
        return summary
    }
}
