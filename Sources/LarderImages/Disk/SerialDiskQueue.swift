internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// Runs work on the disk one piece after the other, in the order in which it was submitted.
///
/// It is not an actor, because submitting must not suspend: an actor that changes its memory and submits the same change for
/// the disk in one step has both change in the same order.
final class SerialDiskQueue: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    private let blocking: BlockingWork

    init(_ blocking: BlockingWork) { self.blocking = blocking }

    /// Submits work. It runs even if no task waits for its result.
    @discardableResult
    func submit<Value: Sendable>(
        _ body: @escaping @Sendable () throws(ImageError) -> Value
    ) -> DiskFuture<Value> {
        let result = DiskFuture<Value>()
        let isFirst = state.withLock { state in
            state.jobs.append {
                do throws(ImageError) { result.complete(with: .success(try body())) } catch {
                    result.complete(with: .failure(error))
                }
            }
            defer { state.isRunning = true }
            return !state.isRunning
        }
        // The task is never cancelled: submitted work has to run.
        if isFirst { Task { await blocking.run { self.drain() } } }
        return result
    }

    private func drain() {
        while true {
            let jobs = state.withLock { state in
                defer { state.jobs = [] }
                state.isRunning = !state.jobs.isEmpty
                return state.jobs
            }
            if jobs.isEmpty { return }
            for job in jobs { job() }
        }
    }
}

/// The future result of work on the disk. One task may wait for it.
final class DiskFuture<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, ImageError>

    private enum State {
        case pending
        case awaited(CheckedContinuation<Outcome, Never>)
        case done(Outcome)
    }
    private let state = Mutex(State.pending)

    fileprivate init() {}

    /// Waits for the result, even if the task is cancelled.
    func value() async throws(ImageError) -> Value {
        let outcome = await withCheckedContinuation { continuation in
            let outcome: Outcome? = state.withLock { state in
                if case .done(let outcome) = state { return outcome }
                state = .awaited(continuation)
                return nil
            }
            if let outcome { continuation.resume(returning: outcome) }
        }
        return try outcome.get()
    }

    fileprivate func complete(with outcome: Outcome) {
        let before = state.withLock { state in
            defer { state = .done(outcome) }
            return state
        }
        if case .awaited(let continuation) = before { continuation.resume(returning: outcome) }
    }
}
