import LarderWire
import SnapshotFile
import Synchronization

/// The newest mapped snapshot of each namespace, for a client: as long as it is current nobody needs to ask for another.
final class MappedSnapshotStore: Sendable {
    private struct Held {
        var snapshot: MappedSnapshot
        /// Brings the news that it is not current any more.
        var subscription: OpenSubscription
    }

    private let held = Mutex<[String: Held]>([:])

    /// The snapshot of a namespace that is held, if it is current and not older than another one that is known.
    func current(_ namespace: String, since known: SnapshotReceiver.Position? = nil) -> MappedSnapshot? {
        guard let snapshot = held.withLock({ $0[namespace]?.snapshot }), snapshot.isCurrent else { return nil }
        guard let known else { return snapshot }
        return snapshot.epoch == known.epoch && snapshot.revision >= known.revision ? snapshot : nil
    }

    /// Keeps a snapshot in the place of the one before.
    func keep(_ snapshot: MappedSnapshot, _ subscription: OpenSubscription, of namespace: String) {
        // What goes is let go of outside the lock: it ends a subscription.
        _ = held.withLock { $0.updateValue(Held(snapshot: snapshot, subscription: subscription), forKey: namespace) }
    }
}
