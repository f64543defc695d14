internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// Runs disk work one item at a time, in the order of submission.
///
/// It is not an actor, because submitting must not suspend. An actor that changes its memory and submits the same
/// change for the disk in one step keeps the changes in memory and on disk in the same order.
///
/// The order is that of an array. A chain of tasks that each await the one before would do the same, but the runtime
/// raises the priority of such a chain recursively (`swift_task_escalate`), and 30,000 waiting items overflow the stack.
final class SerialDiskQueue: Sendable {
    /// The number of unfinished items from which ``waitForRoom()`` waits.
    private static let room = 1024

    private struct State {
        var waiting: [@Sendable () -> Void] = []
        var unfinished = 0
    }

    private let state = Mutex(State())
    private let blocking: BlockingWork

    init(_ blocking: BlockingWork) { self.blocking = blocking }

    /// The number of items that have not ended.
    var count: Int { state.withLock { $0.unfinished } }

    /// Submits work. It runs even if no task awaits the result.
    @discardableResult
    func submit<Value: Sendable>(
        _ body: @escaping @Sendable () throws(ImageError) -> Value
    ) -> DiskFuture<Value> {
        let future = DiskFuture<Value>()
        let isFirst = state.withLock { state in
            state.waiting.append { future.complete(Result(catching: body)) }
            state.unfinished += 1
            return state.unfinished == 1
        }
        if isFirst { blocking.submit { self.run() } }
        return future
    }

    /// Waits for the work that was submitted before this call if there is much of it. Without that, producers that are
    /// faster than the disk would fill the memory.
    func waitForRoom() async {
        guard count >= Self.room else { return }
        try? await submit { () throws(ImageError) in }.value()
    }

    /// Runs all work, on a thread of ``BlockingWork``.
    private func run() {
        var ended = 0
        while true {
            let next = state.withLock { [ended] state in
                state.unfinished -= ended
                defer { state.waiting = [] }
                return state.waiting
            }
            if next.isEmpty { return }
            for body in next { body() }
            ended = next.count
        }
    }
}

/// The future result of disk work.
final class DiskFuture<Value: Sendable>: Sendable {
    private typealias Outcome = Result<Value, ImageError>

    private enum State {
        case pending([CheckedContinuation<Outcome, Never>])
        case complete(Outcome)
    }

    private let state = Mutex(State.pending([]))

    fileprivate func complete(_ outcome: Result<Value, ImageError>) {
        let waiters = state.withLock { state -> [CheckedContinuation<Outcome, Never>] in
            guard case .pending(let waiters) = state else { return [] }
            state = .complete(outcome)
            return waiters
        }
        for waiter in waiters { waiter.resume(returning: outcome) }
    }

    /// Waits for the result, even if the waiting task is cancelled.
    func value() async throws(ImageError) -> Value {
        let outcome = await withCheckedContinuation { (continuation: CheckedContinuation<Outcome, Never>) in
            let known = state.withLock { state -> Outcome? in
                switch state {
                case .complete(let outcome): return outcome
                case .pending(let waiters):
                    state = .pending(waiters + [continuation])
                    return nil
                }
            }
            if let known { continuation.resume(returning: known) }
        }
        return try outcome.get()
    }
}
