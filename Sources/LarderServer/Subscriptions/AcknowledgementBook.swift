import LarderProtocol
import Synchronization

/// The last acknowledgement of each connection for each namespace, over all event loops. The memory is limited by the
/// number of connections, because each has at most ``maxNamespaces`` acknowledgements.
final class AcknowledgementBook: Sendable {
    private struct Client {
        /// The peer when it last acknowledged a snapshot.
        var peer: PeerCredentials
        /// The last acknowledgement for each namespace. The last one is the newest.
        var acknowledgements: [AgentClients.Acknowledgement] = []
    }

    /// The maximum number of namespaces of one connection. A further one replaces the oldest.
    static let maxNamespaces = 16
    /// The maximum number of accepted revisions in the status of a namespace.
    static let maxRevisions = 16
    /// The maximum number of rejections that the status of a namespace lists.
    static let maxRejections = 16

    /// Keyed by connection id.
    private let clients = Mutex<[Int: Client]>([:])

    /// Replaces the acknowledgement of a client for a namespace.
    func note(_ acknowledgement: AgentClients.Acknowledgement, by id: Int, _ peer: PeerCredentials) {
        clients.withLock { clients in
            var latest = clients[id]?.acknowledgements ?? []
            latest.removeAll { $0.namespace == acknowledgement.namespace }
            latest.append(acknowledgement)
            clients[id] = Client(peer: peer, acknowledgements: latest.suffix(Self.maxNamespaces))
        }
    }

    /// Removes the acknowledgements of a client that has disconnected.
    func forget(_ id: Int) { clients.withLock { $0[id] = nil } }

    /// The last acknowledgement of a client for each namespace, ordered by namespace.
    func latest(by id: Int) -> [AgentClients.Acknowledgement] {
        (clients.withLock { $0[id]?.acknowledgements } ?? []).sorted { $0.namespace < $1.namespace }
    }

    /// A summary of all clients' acknowledgements for a namespace.
    func summary(of namespace: String) -> ConfigStatus.Acknowledgements {
        let latest = clients.withLock { clients in
            clients.compactMap { id, client in
                client.acknowledgements.first { $0.namespace == namespace }.map { (id, client.peer, $0) }
            }
        }
        var summary = ConfigStatus.Acknowledgements()
        for (_, _, last) in latest where last.accepted { summary.accepted[last.revision, default: 0] += 1 }
        for revision in summary.accepted.keys.sorted(by: >).dropFirst(Self.maxRevisions) {
            summary.accepted[revision] = nil
        }
        let refused = latest.filter { !$0.2.accepted }.sorted { ($0.2.at, $0.0) > ($1.2.at, $1.0) }
        summary.rejections = refused.count
        summary.rejected = refused.prefix(Self.maxRejections).map { id, peer, last in
            ConfigStatus.Acknowledgements.Rejection(
                client: id, peer: WirePeer(pid: peer.pid, uid: peer.uid, command: peer.command),
                revision: last.revision, reason: last.reason, at: last.at)
        }
        return summary
    }
}
