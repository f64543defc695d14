import DequeModule
package import LarderConfigModel
import Synchronization

/// The place where one namespace's current snapshot is read: by any thread, at any time, without waiting for a writer.
///
/// Only ``ConfigStore`` writes. A write replaces the whole snapshot in one step.
package final class ConfigPublication: Sendable {
    /// What is current.
    package struct Current: Sendable {
        /// The newest snapshot; revision 0 with `{}` where nothing is published yet.
        package var snapshot: ConfigSnapshot
        /// The namespace's state.
        package var freshness: Freshness
        /// Whether the remote source has given nothing yet: what is missing may still come.
        package var awaitsSource: Bool
        /// Whether the namespace left the settings; nothing follows then.
        package var hasEnded = false
        /// Whether it is about to: nobody new reads it.
        package var isWithdrawn = false
        /// Another one each time that anything of this changes.
        package fileprivate(set) var version = 0
    }

    private struct State {
        var current: Current
        var status: StatusRecord
        var history: RecentSnapshots
        var nextFollower = 0
        var followers: [Int: AsyncStream<Current>.Continuation] = [:]
        var observers: [Observer] = []
        var freshnessObservers: [@Sendable (Freshness) -> Void] = []
    }

    /// Somebody who is told that something else is current.
    package final class Observer: Sendable {
        fileprivate let tell: @Sendable () -> Void
        fileprivate init(_ tell: @escaping @Sendable () -> Void) { self.tell = tell }
    }

    /// The namespace's name.
    package let namespace: String
    /// The life of the state directory in which the revisions count.
    package let epoch: String
    private let state: Mutex<State>
    private let latestVersion = Atomic<Int>(0)

    init(namespace: String, epoch: String, snapshot: ConfigSnapshot, status: StatusRecord) {
        self.namespace = namespace
        self.epoch = epoch
        var history = RecentSnapshots()
        history.append(snapshot)
        state = Mutex(
            State(
                current: Current(snapshot: snapshot, freshness: status.freshness, awaitsSource: status.awaitsSource),
                status: status, history: history))
    }

    /// What is current.
    package var current: Current { state.withLock { $0.current } }

    /// The version of what is current: tells whether ``current`` is still what it was, for less than reading it.
    package var version: Int { latestVersion.load(ordering: .acquiring) }

    /// The whole status.
    package var status: ConfigStatusReport { state.withLock { $0.status }.report }

    /// A snapshot published not long ago, as the base of a patch; nil where it is no longer held.
    package func recent(revision: Int) -> ConfigSnapshot? { state.withLock { $0.history[revision] } }

    /// Everything current from now on, beginning with what is current: the newest only, for a reader that is slower
    /// than the changes. It ends with the namespace.
    package func follow() -> AsyncStream<Current> {
        let (stream, continuation) = AsyncStream.makeStream(of: Current.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            state.nextFollower += 1
            continuation.yield(state.current)
            if state.current.hasEnded {
                continuation.finish()
            } else {
                state.followers[state.nextFollower] = continuation
            }
            return state.nextFollower
        }
        // A strong reference, until the follower or the namespace ends: counting references to what has a weak one takes twice
        // the time, and each read of a snapshot counts some.
        continuation.onTermination = { _ in
            _ = self.state.withLock { $0.followers.removeValue(forKey: id) }
        }
        return stream
    }

    /// Has it told that another snapshot is current, or that the namespace ended; and once at the beginning. Costs less than
    /// ``follow()``, which is for whom can wait.
    /// - Parameter tell: called by whoever publishes, which it must not keep for more than some microseconds.
    /// - Returns: what ``remove(_:)`` takes.
    package func observe(_ tell: @escaping @Sendable () -> Void) -> Observer {
        let observer = Observer(tell)
        state.withLock { state in
            if !state.current.hasEnded { state.observers.append(observer) }
        }
        tell()
        return observer
    }

    /// Tells an observer nothing more.
    package func remove(_ observer: Observer) {
        state.withLock { state in state.observers.removeAll { $0 === observer } }
    }

    /// Reports the state of the namespace now, and each other state that it takes until it ends.
    /// - Parameter report: called by the thread that publishes, one call after the other; returns within microseconds
    package func observeFreshness(_ report: @escaping @Sendable (Freshness) -> Void) {
        let freshness = state.withLock { state in
            if !state.current.hasEnded { state.freshnessObservers.append(report) }
            return state.current.freshness
        }
        report(freshness)
    }

    /// Replaces the snapshot and tells the followers. Only the store calls it, and it publishes one after the other.
    func publish(_ snapshot: ConfigSnapshot, status: StatusRecord) {
        let (current, followers, observers, freshnessObservers) = state.withLock { state in
            let freshnessObservers = status.freshness == state.current.freshness ? [] : state.freshnessObservers
            state.current.snapshot = snapshot
            state.current.freshness = status.freshness
            state.current.awaitsSource = status.awaitsSource
            state.status = status
            state.history.append(snapshot)
            changed(&state)
            return (state.current, state.followers, state.observers, freshnessObservers)
        }
        // Outside the lock: a yield may wait for a task that is being cancelled, and the stream that ends with that task
        // waits for the lock.
        for observer in observers { observer.tell() }
        for follower in followers.values { follower.yield(current) }
        for report in freshnessObservers { report(status.freshness) }
    }

    /// Replaces the status; subscribers hear of snapshots only.
    func update(_ status: StatusRecord) {
        let observers = state.withLock { state -> [@Sendable (Freshness) -> Void] in
            let previous = state.current.freshness
            state.status = status
            if previous == status.freshness, state.current.awaitsSource == status.awaitsSource { return [] }
            state.current.freshness = status.freshness
            state.current.awaitsSource = status.awaitsSource
            changed(&state)
            return previous == status.freshness ? [] : state.freshnessObservers
        }
        for report in observers { report(status.freshness) }
    }

    private func changed(_ state: inout State) {
        state.current.version += 1
        latestVersion.store(state.current.version, ordering: .releasing)
    }

    /// Says that nobody new is to read it: what was remembered of it is no longer right.
    func withdraw() {
        state.withLock { state in
            state.current.isWithdrawn = true
            changed(&state)
        }
    }

    /// Says that nothing follows.
    func end() {
        let (current, followers, observers) = state.withLock { state in
            state.current.hasEnded = true
            changed(&state)
            defer { (state.followers, state.observers, state.freshnessObservers) = ([:], [], []) }
            return (state.current, state.followers, state.observers)
        }
        for observer in observers { observer.tell() }
        for follower in followers.values {
            follower.yield(current)
            follower.finish()
        }
    }
}

/// The last snapshots, from which patches are made; bounded by number and by bytes.
private struct RecentSnapshots {
    private static let maximumCount = 16
    private static let maximumBytes = 4 << 20
    private var snapshots = Deque<ConfigSnapshot>()
    private var bytes = 0

    mutating func append(_ snapshot: ConfigSnapshot) {
        snapshots.append(snapshot)
        bytes += snapshot.bytes
        while snapshots.count > 2, snapshots.count > Self.maximumCount || bytes > Self.maximumBytes {
            bytes -= snapshots.removeFirst().bytes
        }
    }

    subscript(revision: Int) -> ConfigSnapshot? { snapshots.last { $0.revision == revision } }
}
