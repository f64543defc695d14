import LarderJSON
import Synchronization

/// The current snapshot of a provider, and the watchers that are notified of newer ones.
///
/// A watcher has room for one snapshot, the newest. So a slow watcher delays neither the provider nor other watchers.
final class SnapshotHub: Sendable {
    private typealias Continuations = [Int: AsyncStream<LarderProviderSnapshot>.Continuation]

    private struct State {
        var current: LarderProviderSnapshot
        /// The watchers of each key. The empty path is the whole document. The keys of the table are paths, because two
        /// strings that differ only in Unicode normalization are equal, and two names are not.
        var watchers: [JSONPath: Continuations] = [:]
        var lastID = 0
    }

    /// A registered watcher.
    struct Watcher {
        fileprivate let id: Int
        fileprivate let path: JSONPath
        /// The snapshot that was current when the watcher was registered.
        let initial: LarderProviderSnapshot
        /// The later snapshots in which the value at the key may differ.
        let later: AsyncStream<LarderProviderSnapshot>
    }

    private let state: Mutex<State>

    init(_ current: LarderProviderSnapshot) { state = Mutex(State(current: current)) }

    /// The current snapshot.
    var current: LarderProviderSnapshot { state.withLock { $0.current } }

    /// The number of watchers.
    var watcherCount: Int { state.withLock { $0.watchers.values.reduce(0) { $0 + $1.count } } }

    /// Replaces the current snapshot. Notifies the watchers of keys whose JSON text differs. Only one task may call
    /// this method.
    func publish(_ snapshot: LarderProviderSnapshot) {
        let (previous, watchers) = state.withLock { state in
            let previous = state.current
            state.current = snapshot
            return (previous, state.watchers)
        }
        guard !snapshot.hasSameText(as: previous, at: []) else { return }
        // The continuations are resumed outside the lock.
        for (path, continuations) in watchers where !snapshot.hasSameText(as: previous, at: path.segments) {
            for continuation in continuations.values { continuation.yield(snapshot) }
        }
    }

    /// Registers a watcher of a key. It must be removed with ``remove(_:)``.
    func watch(_ components: [String]) -> Watcher {
        let path = JSONPath(components)
        let (later, continuation) = AsyncStream<LarderProviderSnapshot>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return state.withLock { state in
            state.lastID += 1
            state.watchers[path, default: [:]][state.lastID] = continuation
            return Watcher(id: state.lastID, path: path, initial: state.current, later: later)
        }
    }

    /// Removes a watcher and ends its stream.
    func remove(_ watcher: Watcher) {
        let continuation = state.withLock { state in
            let continuation = state.watchers[watcher.path]?.removeValue(forKey: watcher.id)
            if state.watchers[watcher.path]?.isEmpty == true { state.watchers[watcher.path] = nil }
            return continuation
        }
        continuation?.finish()
    }
}
