import LarderClientCore
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

/// Reports the interruptions of a provider and their ends. The provider has several streams one after the other, and its
/// user sees them as one.
final class OutageReport: Sendable {
    private let onInterruption: (@Sendable (ConfigInterruption) -> Void)?
    private let onResumption: (@Sendable () -> Void)?
    /// The error of the last attempt; nil if it has succeeded.
    private let last = Mutex<LarderClientError?>(nil)

    init(
        _ onInterruption: (@Sendable (ConfigInterruption) -> Void)?, _ onResumption: (@Sendable () -> Void)?
    ) {
        (self.onInterruption, self.onResumption) = (onInterruption, onResumption)
    }

    var hasHandler: Bool { onInterruption != nil || onResumption != nil }

    func interrupted(_ interruption: ConfigInterruption) {
        let error = interruption.error
        let isRepeated = last.withLock { last in
            defer { last = error }
            return last == error
        }
        onInterruption?(
            ConfigInterruption(
                error: error, attempt: interruption.attempt, delay: interruption.delay, isRepeated: isRepeated))
    }

    /// Notes that an attempt has succeeded.
    func resumed() {
        let wasInterrupted = last.withLock { last in
            defer { last = nil }
            return last != nil
        }
        if wasInterrupted { onResumption?() }
    }
}

/// Gets the first snapshot of a provider.
struct SnapshotStart: Sendable {
    let client: LarderClient
    let namespace: String
    let outages: OutageReport

    /// Why there is no snapshot.
    enum Failure: Error {
        /// The limit has passed. The last error is nil if no attempt has failed.
        case timeout(last: LarderClientError?)
        /// Retries cannot succeed, or are not wanted.
        case failed(LarderClientError)
    }

    /// Waits for the current snapshot.
    /// - Parameters:
    ///   - limit: the maximum time
    ///   - retrying: whether to try again after errors that a retry may resolve
    func snapshot(within limit: Duration, retrying: Bool) async throws(Failure) -> MappedSnapshot {
        let lastError = LastError()
        let result = await withTaskGroup(of: Result<MappedSnapshot, LarderClientError>?.self) { group in
            group.addTask { await open(retrying: retrying, lastError) }
            group.addTask {
                try? await client.configuration.clock.sleep(for: limit)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        if result == nil, Task.isCancelled { throw .failed(LarderClientError(.cancelled, "the task was cancelled")) }
        switch result {
        case .success(let snapshot):
            outages.resumed()
            return snapshot
        case .failure(let error): throw .failed(error)
        case nil: throw .timeout(last: lastError.value.withLock { $0 })
        }
    }

    /// Returns nil once the task is cancelled.
    private func open(
        retrying: Bool, _ lastError: LastError
    ) async -> Result<MappedSnapshot, LarderClientError>? {
        do throws(LarderClientError) {
            if !retrying { return .success(try await client.config[namespace].mappedSnapshot()) }
            let snapshots = client.config[namespace].mappedSnapshots().failOnRefusal().onInterruption {
                interruption in
                lastError.value.withLock { $0 = interruption.error }
                outages.interrupted(interruption)
            }
            var iterator = snapshots.makeAsyncIterator()
            return try await iterator.next().map { .success($0) }
        } catch {
            return .failure(error)
        }
    }

    private final class LastError: Sendable {
        let value = Mutex<LarderClientError?>(nil)
    }
}

/// The values that a watcher derives from snapshots: the current one first, then each one that differs from the one
/// before it.
///
/// A slow consumer skips snapshots. If a value changes and changes back in the skipped ones, the consumer gets nothing.
struct SnapshotUpdates<Value: Sendable>: AsyncSequence, Sendable {
    typealias Element = Value
    typealias Failure = Never

    let initial: LarderProviderSnapshot
    let later: AsyncStream<LarderProviderSnapshot>
    /// Derives the value.
    let value: @Sendable (LarderProviderSnapshot) -> Value
    let isSame: @Sendable (Value, Value) -> Bool

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(updates: self, initial: initial, later: later.makeAsyncIterator())
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let updates: SnapshotUpdates
        fileprivate var initial: LarderProviderSnapshot?
        fileprivate var later: AsyncStream<LarderProviderSnapshot>.AsyncIterator
        private var last: Value?

        fileprivate init(
            updates: SnapshotUpdates, initial: LarderProviderSnapshot,
            later: AsyncStream<LarderProviderSnapshot>.AsyncIterator
        ) {
            (self.updates, self.initial, self.later) = (updates, initial, later)
        }

        mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Value? {
            if let initial {
                self.initial = nil
                let value = updates.value(initial)
                last = value
                return value
            }
            while let snapshot = await later.next(isolation: actor) {
                let value = updates.value(snapshot)
                if let last, updates.isSame(last, value) { continue }
                last = value
                return value
            }
            return nil
        }
    }
}
