import DequeModule
import LarderConfigModel
import Synchronization

/// The changes of one namespace that wait for its committer: added by anybody, without waiting for the store, and taken by
/// the committer alone.
final class ChangeQueue: Sendable {
    typealias Completion = @Sendable (Result<CommitOutcome, ConfigError>) -> Void

    /// A change that waits. A class, because a change has many members, and the committer looks at it often.
    final class Pending: Sendable {
        let id: Int
        let change: LayerChange
        let completion: Completion

        init(id: Int, change: LayerChange, completion: @escaping Completion) {
            (self.id, self.change, self.completion) = (id, change, completion)
        }
    }

    private struct State {
        var waiting = Deque<Pending>()
        var nextID = 0
        var isCommitting = false
        var isStopping = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    static let cancelled = ConfigError(.cancelled, "the request was cancelled; nothing was changed")
    private static let stopped = ConfigError(.stopped, "the agent is stopping; try again once it is back")

    /// The number of a change that is going to be added.
    func newID() -> Int {
        state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
    }

    /// Adds a change.
    /// - Parameter completion: called once, wherever it is committed, refused or cancelled; it must not wait.
    /// - Returns: whether the caller has to start the committer.
    func add(_ change: LayerChange, id: Int, _ completion: @escaping Completion) -> Bool {
        let pending = Pending(id: id, change: change, completion: completion)
        let (isStopped, mustStart) = state.withLock { state in
            if state.isStopping { return (true, false) }
            state.waiting.append(pending)
            defer { state.isCommitting = true }
            return (false, !state.isCommitting)
        }
        if isStopped { completion(.failure(Self.stopped)) }
        return mustStart
    }

    /// What waits longest; nil where nothing does: the committer is over then.
    /// - Parameter count: the most that it takes
    func take(atMost count: Int) -> [Pending]? {
        let (batch, waiter) = state.withLock { state -> ([Pending]?, CheckedContinuation<Void, Never>?) in
            if state.waiting.isEmpty {
                state.isCommitting = false
                return (nil, state.waiter.take())
            }
            let taken = min(count, state.waiting.count)
            defer { state.waiting.removeFirst(taken) }
            return (Array(state.waiting.prefix(taken)), nil)
        }
        waiter?.resume()
        return batch
    }

    /// Takes a change out; one that the committer took already goes on to its end.
    func cancel(_ id: Int) {
        let pending = state.withLock { state in
            state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0) }
        }
        pending?.completion(.failure(Self.cancelled))
    }

    /// Whether something waits or is being committed.
    var isAtWork: Bool { state.withLock { $0.isCommitting } }

    /// Whether no more changes are taken.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Takes no more changes.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Returns once nothing waits and nothing is being committed.
    func waitUntilIdle() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.isCommitting { state.waiter = continuation }
                return !state.isCommitting
            }
            if isOver { continuation.resume() }
        }
    }
}

/// A change that was handed over.
package struct ChangeHandle: Sendable {
    let queue: ChangeQueue
    let id: Int

    /// Gives it up, if it is not being committed yet; it is told so.
    package func cancel() { queue.cancel(id) }
}
