import LarderSnapshotFile
import Synchronization

/// A client's cache of the newest mapped snapshot of each namespace.
final class MappedSnapshotStore: Sendable {
    private struct CachedSnapshot {
        var snapshot: MappedSnapshot
        /// The subscription that invalidates `snapshot` when the agent announces a newer one.
        var subscription: OpenSubscription
    }

    private let cached = Mutex<[String: CachedSnapshot]>([:])

    /// Returns the cached snapshot of a namespace if it is current.
    func current(_ namespace: String) -> MappedSnapshot? {
        guard let snapshot = cached.withLock({ $0[namespace]?.snapshot }), snapshot.isCurrent else { return nil }
        return snapshot
    }

    /// Caches a snapshot, and the subscription that invalidates it, in place of those cached for the namespace.
    func keep(_ snapshot: MappedSnapshot, _ subscription: OpenSubscription, of namespace: String) {
        // The replaced values are released outside the lock, because releasing them ends a subscription.
        _ = cached.withLock {
            $0.updateValue(CachedSnapshot(snapshot: snapshot, subscription: subscription), forKey: namespace)
        }
    }
}
