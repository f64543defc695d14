import LarderProtocol
import Synchronization

/// The last acknowledgement of each connection for each namespace, over all event loops. The memory is limited by the
/// number of connections, because each has at most ``maxNamespaces`` acknowledgements.
final class AcknowledgementBook: Sendable {
    /// The acknowledgement of one client for one namespace.
    struct Entry: Sendable {
        var revision: Int
        var accepted: Bool
        var reason: String?
        var at: Timestamp
        var peer: PeerCredentials
    }

    private struct State {
        /// Keyed by namespace, then by connection id.
        var entries: [String: [Int: Entry]] = [:]
        /// The namespaces that each connection has acknowledged, keyed by connection id. The last one is the newest.
        var namespaces: [Int: [String]] = [:]

        mutating func remove(_ client: Int, of namespace: String) {
            entries[namespace]?[client] = nil
            if entries[namespace]?.isEmpty ?? false { entries[namespace] = nil }
        }
    }

    /// The maximum number of namespaces of one connection. A further one replaces the oldest.
    static let maxNamespaces = 16
    /// The maximum number of accepted revisions in the status of a namespace.
    static let maxRevisions = 16
    /// The maximum number of rejections that the status of a namespace lists.
    static let maxRefusals = 16

    private let state = Mutex(State())

    /// Replaces the acknowledgement of a client for a namespace.
    func note(_ entry: Entry, by client: Int, of namespace: String) {
        state.withLock { state in
            state.entries[namespace, default: [:]][client] = entry
            var namespaces = state.namespaces[client] ?? []
            namespaces.removeAll { $0 == namespace }
            namespaces.append(namespace)
            if namespaces.count > Self.maxNamespaces { state.remove(client, of: namespaces.removeFirst()) }
            state.namespaces[client] = namespaces
        }
    }

    /// Removes the acknowledgements of a client that has disconnected.
    func forget(_ client: Int) {
        state.withLock { state in
            for namespace in state.namespaces.removeValue(forKey: client) ?? [] { state.remove(client, of: namespace) }
        }
    }

    /// The last acknowledgement of a client for each namespace, ordered by namespace.
    func latest(by client: Int) -> [AgentClients.Acknowledgement] {
        state.withLock { state in
            (state.namespaces[client] ?? []).sorted().compactMap { namespace in
                state.entries[namespace]?[client].map { entry in
                    AgentClients.Acknowledgement(
                        namespace: namespace, revision: entry.revision, accepted: entry.accepted,
                        reason: entry.reason, at: entry.at)
                }
            }
        }
    }

    /// A summary of all clients' acknowledgements for a namespace.
    func summary(of namespace: String) -> ConfigStatus.Acknowledgements {
        let latest = state.withLock { $0.entries[namespace] } ?? [:]
        var summary = ConfigStatus.Acknowledgements()
        for entry in latest.values where entry.accepted { summary.accepted[entry.revision, default: 0] += 1 }
        for revision in summary.accepted.keys.sorted(by: >).dropFirst(Self.maxRevisions) {
            summary.accepted[revision] = nil
        }
        let refused = latest.filter { !$0.value.accepted }.sorted { ($0.value.at, $0.key) > ($1.value.at, $1.key) }
        summary.refusals = refused.count
        summary.refused = refused.prefix(Self.maxRefusals).map { client, entry in
            ConfigStatus.Acknowledgements.Refusal(
                client: client,
                peer: WirePeer(pid: entry.peer.pid, uid: entry.peer.uid, command: entry.peer.command),
                revision: entry.revision, reason: entry.reason, at: entry.at)
        }
        return summary
    }
}
