import LarderSnapshotFile
import Synchronization

/// A client's cache of the newest mapped snapshot of each namespace.
final class MappedSnapshotStore: Sendable {
    private struct CachedSnapshot {
        var snapshot: MappedSnapshot
        var token: InvalidationToken
        /// The subscription that invalidates `snapshot` when the agent announces a newer one.
        var subscription: OpenSubscription
    }

    private let cached = Mutex<[String: CachedSnapshot]>([:])

    /// Returns the cached snapshot of a namespace if it is current.
    func current(_ namespace: String) -> MappedSnapshot? {
        guard let snapshot = cached.withLock({ $0[namespace]?.snapshot }), snapshot.isCurrent else { return nil }
        return snapshot
    }

    /// Caches a snapshot, with its token and the subscription that invalidates it, unless a concurrent call has cached
    /// one that is current and not older. A snapshot that is replaced is invalidated, because its subscription ends.
    /// - Returns: the snapshot that is cached now.
    func keep(
        _ snapshot: MappedSnapshot, _ token: InvalidationToken, _ subscription: OpenSubscription,
        of namespace: String
    ) -> MappedSnapshot {
        let (kept, replaced) = cached.withLock { cached -> (MappedSnapshot, CachedSnapshot?) in
            if let other = cached[namespace]?.snapshot, other.isCurrent, other.epoch == snapshot.epoch,
                other.revision >= snapshot.revision
            {
                return (other, nil)
            }
            let new = CachedSnapshot(snapshot: snapshot, token: token, subscription: subscription)
            return (snapshot, cached.updateValue(new, forKey: namespace))
        }
        // The replaced values are released outside the lock, because releasing them ends a subscription.
        replaced?.token.invalidate()
        return kept
    }
}
