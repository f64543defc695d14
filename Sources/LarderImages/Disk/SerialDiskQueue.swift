internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// Runs disk work one item at a time, in the order of submission.
///
/// It is not an actor, because submitting must not suspend. An actor that changes its memory and submits the same
/// change for the disk in one step keeps the changes in memory and on disk in the same order.
final class SerialDiskQueue: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    private let blocking: BlockingWork

    init(_ blocking: BlockingWork) { self.blocking = blocking }

    /// Submits work. It runs even if no task awaits the result.
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
        // The task is never cancelled, because submitted work must run.
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

/// The future result of disk work. At most one task may await it.
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
