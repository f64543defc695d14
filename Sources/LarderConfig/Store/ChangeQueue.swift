import DequeModule
import LarderConfigModel
import Synchronization

/// The changes of one namespace that wait for its committer. Any thread can add changes, without waiting for the store.
/// Only the committer takes them.
final class ChangeQueue: Sendable {
    /// Receives the outcome of a change. It must not block.
    ///
    /// A closure, because an async call takes a task for each change: measured, a set then takes 57,868 instructions
    /// instead of 50,984, and each of 50 writers 62,745 instead of 53,828.
    typealias Completion = @Sendable (Result<CommitOutcome, ConfigError>) -> Void

    /// A waiting change.
    final class Pending: Sendable {
        let id: Int
        let change: LayerChange
        let completion: Completion
        /// Whether the schema has rejected the change before.
        let isRetry: Bool

        init(id: Int, change: LayerChange, completion: @escaping Completion) {
            (self.id, self.change, self.completion, isRetry) = (id, change, completion, false)
        }

        /// A change that no caller waits for.
        init(_ change: LayerChange) { (id, self.change, completion, isRetry) = (0, change, { _ in }, false) }

        /// A change that the schema has rejected before, and that no caller waits for.
        init(retrying change: LayerChange) { (id, self.change, completion, isRetry) = (0, change, { _ in }, true) }
    }

    private struct State {
        var waiting = Deque<Pending>()
        var isCommitting = false
        var isStopping = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    /// Threads that serve clients add and cancel changes, and the committer, on the actor of the store, takes them.
    private let state = Mutex(State())
    private let lastID = Atomic(0)

    private static let cancelled = ConfigError(.cancelled, "the request was cancelled; nothing was changed")
    private static let stopped = ConfigError(.stopped, "the namespace is stopping; retry later")

    /// Returns an ID for a change that is about to be added.
    func newID() -> Int { lastID.wrappingAdd(1, ordering: .relaxed).newValue }

    /// Adds a change.
    /// - Parameter completion: called once, when the change is committed, rejected or cancelled; it must not block
    /// - Returns: whether the caller must start the committer
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

    /// Adds a change and waits for its outcome. The change is cancelled with the task, unless the committer has taken
    /// it.
    /// - Parameter start: starts the committer; called before the wait
    func add(
        _ change: LayerChange, isolation: isolated (any Actor)? = #isolation, starting start: () -> Void
    ) async throws(ConfigError) -> CommitOutcome {
        let id = newID()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                add(change, id: id, continuation, isolation: isolation, starting: start)
            }
        } onCancel: {
            cancel(id)
        }
        return try result.get()
    }

    /// The closures of ``add(_:isolation:starting:)`` pass `isolation` to this method, so that they run on the caller's
    /// actor: a closure is isolated to an actor parameter only if it captures the parameter.
    private func add(
        _ change: LayerChange, id: Int, _ continuation: CheckedContinuation<Result<CommitOutcome, ConfigError>, Never>,
        isolation: isolated (any Actor)?, starting start: () -> Void
    ) {
        isolation?.preconditionIsolated()
        if Task.isCancelled { return continuation.resume(returning: .failure(Self.cancelled)) }
        if add(change, id: id, { continuation.resume(returning: $0) }) { start() }
        // The cancellation handler may have run before the change was in the queue, and then it has cancelled nothing.
        if Task.isCancelled { cancel(id) }
    }

    /// Takes the changes that have waited longest.
    /// - Parameter count: the maximum number
    /// - Returns: nil if no change waits; the committer must end then
    func take(atMost count: Int) -> [Pending]? {
        let taken = state.withLock { state -> [Pending]? in
            guard let first = state.waiting.popFirst() else {
                state.isCommitting = false
                return nil
            }
            // Usually only one change waits. This path avoids a second array in that case.
            if state.waiting.isEmpty { return [first] }
            let others = Array(state.waiting.prefix(count - 1))
            state.waiting.removeFirst(others.count)
            return [first] + others
        }
        // If the next change came first, the end of its commit resumes the waiter.
        if taken == nil { state.withLock { $0.isCommitting ? nil : $0.waiter.take() }?.resume() }
        return taken
    }

    /// Cancels a change, unless the committer has taken it.
    func cancel(_ id: Int) {
        let pending = state.withLock { state in
            state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0) }
        }
        pending?.completion(.failure(Self.cancelled))
    }

    /// Whether changes wait or are being committed.
    var isAtWork: Bool { state.withLock { $0.isCommitting } }

    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Refuses further changes.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Returns once no change waits or is being committed.
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

/// A submitted change.
package struct ChangeHandle: Sendable {
    let queue: ChangeQueue
    let id: Int

    /// Cancels the change, unless it is being committed. Its completion is called either way.
    package func cancel() { queue.cancel(id) }
}
