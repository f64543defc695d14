import DequeModule
package import LarderConfigModel
import LarderJSON
import LarderPlatform
import Synchronization

/// Publishes the current snapshot of one namespace. Any thread can read it at any time, without waiting for a commit.
///
/// Only ``ConfigStore`` publishes. Each publication replaces the whole snapshot in one step.
package final class ConfigPublication: Sendable {
    /// The current state of the namespace.
    package struct Current: Sendable {
        /// The newest snapshot; revision 0 with `{}` before the first publication.
        package var snapshot: ConfigSnapshot
        package var freshness: Freshness
        /// Whether there is a remote source but no remote document yet. While this is true, a missing value may still
        /// arrive with that document.
        package var awaitsSource: Bool
        /// Whether the namespace was removed from the settings. No more snapshots follow.
        package var hasEnded = false
        /// Whether the removal of the namespace has begun. Replies that are made from this snapshot must not be cached.
        package var isWithdrawn = false
        /// Incremented whenever another property of this struct changes.
        package fileprivate(set) var version = 0
    }

    private struct State {
        var current: Current
        var status: PublishedStatus
        var history: RecentSnapshots
        /// The buffers of the streams that ``snapshots()`` has returned, one per stream.
        var slots: [SnapshotSlot] = []
        /// The signal that is raised at each publication, and when the namespace ends; nil before ``raise(_:)``.
        var changes: Signal?
        var observers: [StatusObserver] = []
        /// The number of changes to report; see ``observeStatus(_:)``.
        var conditions = 0
        /// Whether a thread reports the status to the observers.
        var isReporting = false

        /// Replaces the status.
        /// - Returns: whether the change must be reported to the observers
        mutating func replace(_ new: PublishedStatus) -> Bool {
            let isSame = new.hasSameCondition(as: status)
            status = new
            current.awaitsSource = new.awaitsSource
            if isSame { return false }
            current.freshness = new.freshness
            conditions += 1
            return !observers.isEmpty
        }

        /// The next observer that does not know the current status; nil if all of them do.
        mutating func nextReport() -> (report: @Sendable (PublishedStatus) -> Void, status: PublishedStatus)? {
            guard let index = observers.firstIndex(where: { $0.reported != conditions }) else {
                isReporting = false
                return nil
            }
            observers[index].reported = conditions
            return (observers[index].report, status)
        }
    }

    private struct StatusObserver {
        let report: @Sendable (PublishedStatus) -> Void
        /// The value of ``State/conditions`` at the last report; nil before the first.
        var reported: Int?
    }

    /// Removes the slot of a stream when the stream is no longer used.
    private final class Subscriber: Sendable {
        let slot: SnapshotSlot
        private let publication: ConfigPublication

        init(_ slot: SnapshotSlot, _ publication: ConfigPublication) {
            (self.slot, self.publication) = (slot, publication)
        }

        deinit { publication.remove(slot) }
    }

    package let namespace: String
    /// Identifies the lifetime of the state directory. Revisions are comparable only within one epoch.
    package let epoch: String
    /// Event loops and tasks read what the store publishes, and cannot wait for its actor.
    private let state: Mutex<State>
    private let latestVersion = Atomic<Int>(0)
    private let readings = Atomic<Int>(0)

    init(namespace: String, epoch: String, snapshot: ConfigSnapshot, status: PublishedStatus) {
        self.namespace = namespace
        self.epoch = epoch
        var history = RecentSnapshots()
        history.append(snapshot)
        state = Mutex(
            State(
                current: Current(snapshot: snapshot, freshness: status.freshness, awaitsSource: status.awaitsSource),
                status: status, history: history))
    }

    /// The current state. Reading it takes a lock.
    package var current: Current { state.withLock { $0.current } }

    /// The version of ``current``. Reading it takes no lock.
    package var version: Int { latestVersion.load(ordering: .acquiring) }

    /// The number of calls of ``readAgain()``. Reading it takes no lock.
    package var settingsVersion: Int { readings.load(ordering: .acquiring) }

    /// The current status. Reading it takes a lock.
    package var status: PublishedStatus { state.withLock { $0.status } }

    /// The current overrides, and the revision of the snapshot in which they are in effect. Reading them takes a lock.
    package var overrides: (layer: OverrideLayer, revision: Int) {
        state.withLock { ($0.status.layers.override, $0.current.snapshot.revision) }
    }

    /// An upper bound of the memory of a copy of the current snapshot and of all layers, in bytes.
    package var copiedBytes: Int {
        let (snapshot, layers) = state.withLock { ($0.current.snapshot, $0.status.layers) }
        return snapshot.value.detachedMemory + layers.copiedBytes
    }

    /// The snapshot with a revision, as the base of a merge patch; nil if the snapshot is not among the retained ones.
    package func recent(revision: Int) -> ConfigSnapshot? { state.withLock { $0.history[revision] } }

    /// Yields the current snapshot and then every later one. A slow consumer skips to the newest. The stream finishes
    /// when the namespace is removed from the settings. It has one consumer.
    package func snapshots() -> AsyncStream<ConfigSnapshot> {
        let slot = state.withLock { state in
            let slot = SnapshotSlot(state.current.snapshot, isFinished: state.current.hasEnded)
            if !state.current.hasEnded { state.slots.append(slot) }
            return slot
        }
        let subscriber = Subscriber(slot, self)
        return AsyncStream(unfolding: { await subscriber.slot.next() }, onCancel: { slot.finish() })
    }

    var streamCount: Int { state.withLock { $0.slots.count } }

    private func remove(_ slot: SnapshotSlot) {
        state.withLock { state in state.slots.removeAll { $0 === slot } }
    }

    /// Raises `changes` now, at each publication, and when the namespace ends.
    func raise(_ changes: Signal) {
        state.withLock { $0.changes = changes }
        changes.raise()
    }

    /// Reports the status of the namespace now, and again after each change of its freshness, of the reason of rejected
    /// content, or of whether it can be written to disk, until the namespace ends. The last report has the current
    /// ones. Those that last less than one report may be skipped.
    /// - Parameter report: called on the current thread or on a publishing one, one call at a time; must return within
    ///   microseconds
    package func observeStatus(_ report: @escaping @Sendable (PublishedStatus) -> Void) {
        let last = state.withLock { state -> PublishedStatus? in
            if state.current.hasEnded { return state.status }
            state.observers.append(StatusObserver(report: report))
            return nil
        }
        if let last { report(last) } else { reportStatus() }
    }

    /// Calls the observers that do not know the current status, outside the lock. If another thread does this already,
    /// that thread makes the calls, so that an older status never follows a newer one.
    private func reportStatus() {
        let isReporting = state.withLock { state in
            defer { state.isReporting = true }
            return state.isReporting
        }
        if isReporting { return }
        while let next = state.withLock({ $0.nextReport() }) { next.report(next.status) }
    }

    /// Replaces the snapshot. Called only by the store, for one snapshot at a time.
    func publish(_ snapshot: ConfigSnapshot, status: PublishedStatus) {
        let (slots, changes, isReportDue) = state.withLock { state in
            state.current.snapshot = snapshot
            let isReportDue = state.replace(status)
            state.history.append(snapshot)
            changed(&state)
            return (state.slots, state.changes, isReportDue)
        }
        // `put` is called outside the lock, because it may run a consumer synchronously, and the consumer takes the
        // lock.
        for slot in slots { slot.put(snapshot) }
        changes?.raise()
        if isReportDue { reportStatus() }
    }

    /// Replaces the status. The streams of snapshots yield nothing.
    func update(_ status: PublishedStatus) {
        let isReportDue = state.withLock { state in
            let previous = (state.current.freshness, state.current.awaitsSource)
            let isReportDue = state.replace(status)
            if previous != (state.current.freshness, state.current.awaitsSource) { changed(&state) }
            return isReportDue
        }
        if isReportDue { reportStatus() }
    }

    private func changed(_ state: inout State) {
        state.current.version += 1
        latestVersion.store(state.current.version, ordering: .releasing)
    }

    /// Yields the current snapshot again, because readers interpret it differently under new settings. Cached replies
    /// become invalid.
    func readAgain() {
        readings.add(1, ordering: .releasing)
        let (slots, snapshot) = state.withLock { state in
            changed(&state)
            return (state.slots, state.current.snapshot)
        }
        for slot in slots { slot.put(snapshot) }
    }

    /// Records that the removal of the namespace has begun. Cached replies become invalid.
    func withdraw() {
        state.withLock { state in
            state.current.isWithdrawn = true
            changed(&state)
        }
    }

    /// Finishes the streams, because the namespace was removed from the settings.
    func end() {
        let (slots, changes) = state.withLock { state in
            state.current.hasEnded = true
            changed(&state)
            defer { (state.slots, state.changes, state.observers) = ([], nil, []) }
            return (state.slots, state.changes)
        }
        for slot in slots { slot.finish() }
        changes?.raise()
    }
}

/// The newest snapshots, as bases for patches. Their number and total size are limited.
private struct RecentSnapshots {
    private static let maxCount = 16
    private static let maxBytes = 4 << 20
    private var snapshots = Deque<ConfigSnapshot>()
    private var bytes = 0

    mutating func append(_ snapshot: ConfigSnapshot) {
        snapshots.append(snapshot)
        bytes += snapshot.bytes
        while snapshots.count > 2, snapshots.count > Self.maxCount || bytes > Self.maxBytes {
            bytes -= snapshots.removeFirst().bytes
        }
    }

    subscript(revision: Int) -> ConfigSnapshot? { snapshots.last { $0.revision == revision } }
}

/// The buffer of ``ConfigPublication/snapshots()``. It retains the newest snapshot until its only consumer takes it.
///
/// `AsyncStream` has a buffer too, but its code in the standard library is not specialized: delivering a snapshot takes
/// 12,300 instructions with it, and 6,300 with this slot.
final class SnapshotSlot: Sendable {
    private typealias Consumer = UnsafeContinuation<ConfigSnapshot?, Never>

    private struct State {
        var snapshot: ConfigSnapshot?
        var consumer: Consumer?
        var isFinished = false
    }

    /// The store puts a snapshot on one thread, and the consumer takes it on another.
    private let state: Mutex<State>

    /// - Parameter isFinished: whether no other snapshot follows
    init(_ snapshot: ConfigSnapshot, isFinished: Bool) {
        state = Mutex(State(snapshot: snapshot, isFinished: isFinished))
    }

    /// Passes a snapshot to the consumer. The new snapshot replaces one that the consumer has not taken, unless that one
    /// is newer: ``ConfigPublication/readAgain()`` may run at the same time as a publication.
    func put(_ snapshot: ConfigSnapshot) {
        let consumer = state.withLock { state -> Consumer? in
            if state.isFinished || state.snapshot.map({ $0.revision > snapshot.revision }) ?? false { return nil }
            let consumer = state.consumer.take()
            if consumer == nil { state.snapshot = snapshot }
            return consumer
        }
        // The consumer is resumed outside the lock: an executor may run the consumer synchronously, and the consumer
        // takes the lock when it asks for the next snapshot.
        consumer?.resume(returning: snapshot)
    }

    /// Finishes the stream. The consumer still gets a snapshot that it has not taken, and then nil.
    func finish() {
        let consumer = state.withLock { state in
            state.isFinished = true
            return state.consumer.take()
        }
        consumer?.resume(returning: nil)
    }

    /// Waits for a snapshot; nil after the last one.
    func next() async -> ConfigSnapshot? {
        await withUnsafeContinuation { consumer in
            let (snapshot, isReady) = state.withLock { state -> (ConfigSnapshot?, Bool) in
                precondition(state.consumer == nil, "a stream of snapshots has one consumer")
                if let snapshot = state.snapshot.take() { return (snapshot, true) }
                if !state.isFinished { state.consumer = consumer }
                return (nil, state.isFinished)
            }
            if isReady { consumer.resume(returning: snapshot) }
        }
    }
}
