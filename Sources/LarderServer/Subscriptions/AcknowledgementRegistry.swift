import LarderJSON
import LarderPlatform
import LarderProtocol
import Synchronization

/// The last acknowledgement of each connection for each namespace, over all event loops. The memory is limited by the
/// number of connections, because each has at most ``maxNamespaces`` acknowledgements.
final class AcknowledgementRegistry: Sendable {
    private struct Entry {
        let acknowledgement: AgentClients.Acknowledgement
        let peer: PeerCredentials
    }

    private struct State {
        /// By namespace and connection ID.
        var entries: [String: [Int: Entry]] = [:]
        /// The namespaces of the entries of each connection, the last acknowledged one last. Keyed by connection ID.
        var namespaces: [Int: [String]] = [:]
        /// Raised at each change; nil if nothing observes the registry.
        var changes: Signal?

        mutating func remove(_ namespace: String, of id: Int) {
            entries[namespace]?[id] = nil
            if entries[namespace]?.isEmpty ?? false { entries[namespace] = nil }
        }
    }

    /// The maximum number of namespaces of one connection. A further one replaces the oldest.
    static let maxNamespaces = 16
    /// The maximum number of accepted revisions in the status of a namespace.
    static let maxRevisions = 16
    /// The maximum number of rejections that the status of a namespace lists.
    static let maxRejections = 16

    /// All event loops share it.
    private let state = Mutex(State())

    /// Replaces the acknowledgement of a client for a namespace.
    func note(_ acknowledgement: AgentClients.Acknowledgement, by id: Int, _ peer: PeerCredentials) {
        let namespace = acknowledgement.namespace
        let changes = state.withLock { state in
            var latest = state.namespaces[id] ?? []
            latest.removeAll { $0 == namespace }
            if latest.count == Self.maxNamespaces { state.remove(latest.removeFirst(), of: id) }
            state.namespaces[id] = latest + [namespace]
            state.entries[namespace, default: [:]][id] = Entry(acknowledgement: acknowledgement, peer: peer)
            return state.changes
        }
        changes?.raise()
    }

    /// Removes the acknowledgements of a client that has disconnected.
    func forget(_ id: Int) {
        let changes = state.withLock { state in
            for namespace in state.namespaces.removeValue(forKey: id) ?? [] { state.remove(namespace, of: id) }
            return state.changes
        }
        changes?.raise()
    }

    /// Raises `changes` at each later change. Replaces the signal of an earlier call.
    func raise(_ changes: Signal) { state.withLock { $0.changes = changes } }

    /// The clients that have acknowledged a snapshot of a namespace, by name; those that rejected one first.
    /// - Parameter withReasons: whether clients that gave different reasons are listed separately
    func clients(of namespace: String, withReasons: Bool) -> [(client: AcknowledgingClient, count: Int)] {
        guard let entries = state.withLock({ $0.entries[namespace] }) else { return [] }
        var counts: [AcknowledgingClient: Int] = [:]
        for entry in entries.values {
            let last = entry.acknowledgement
            let client = AcknowledgingClient(
                name: ExactText(entry.peer.command), revision: last.revision, isAccepted: last.accepted,
                reason: withReasons ? last.reason.map(ExactText.init) : nil)
            counts[client, default: 0] += 1
        }
        return counts.sorted { $0.key.precedes($1.key) }.map { ($0.key, $0.value) }
    }

    /// The last acknowledgement of a client for each namespace, ordered by namespace.
    func latest(by id: Int) -> [AgentClients.Acknowledgement] {
        state.withLock { state in
            (state.namespaces[id] ?? []).sorted().compactMap { state.entries[$0]?[id]?.acknowledgement }
        }
    }

    /// A summary of all clients' acknowledgements for a namespace.
    func summary(of namespace: String) -> ConfigStatus.Acknowledgements {
        var summary = ConfigStatus.Acknowledgements()
        guard let entries = state.withLock({ $0.entries[namespace] }) else { return summary }
        for entry in entries.values where entry.acknowledgement.accepted {
            summary.accepted[entry.acknowledgement.revision, default: 0] += 1
        }
        for revision in summary.accepted.keys.sorted(by: >).dropFirst(Self.maxRevisions) {
            summary.accepted[revision] = nil
        }
        let rejected = entries.filter { !$0.value.acknowledgement.accepted }
            .sorted { ($0.value.acknowledgement.at, $0.key) > ($1.value.acknowledgement.at, $1.key) }
        summary.rejections = rejected.count
        summary.rejected = rejected.prefix(Self.maxRejections).map { id, entry in
            let (last, peer) = (entry.acknowledgement, entry.peer)
            return ConfigStatus.Acknowledgements.Rejection(
                client: id, peer: WirePeer(pid: peer.pid, uid: peer.uid, command: peer.command),
                revision: last.revision, reason: last.reason, at: last.at)
        }
        return summary
    }
}

/// Clients with one name that have acknowledged one revision in the same way.
struct AcknowledgingClient: Hashable {
    /// The name of their process.
    let name: ExactText
    let revision: Int
    let isAccepted: Bool
    let reason: ExactText?

    /// Whether the client is listed before another one.
    func precedes(_ other: AcknowledgingClient) -> Bool {
        if isAccepted != other.isAccepted { return !isAccepted }
        for (left, right) in [(name, other.name), (reason ?? ExactText(""), other.reason ?? ExactText(""))]
        where left != right {
            return left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
        }
        return revision < other.revision
    }
}
