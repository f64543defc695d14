internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// Work on the disk that is done in the very order in which it was handed in, one piece after the other.
///
/// An actor that changes its memory and hands in what the disk needs for it, in one step without a suspension, has both
/// change in the same order, although each waits for the disk for an unknown time.
final class SerialDiskQueue: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    private let blocking: BlockingWork

    init(_ blocking: BlockingWork) { self.blocking = blocking }

    /// Hands in work. It is done even if nobody waits for its result.
    @discardableResult
    func submit<Value: Sendable>(
        _ body: @escaping @Sendable () throws(ImageError) -> Value
    ) -> DiskFuture<Value> {
        let result = DiskFuture<Value>()
        let isFirst = state.withLock { state in
            state.jobs.append {
                do throws(ImageError) { result.give(.success(try body())) } catch { result.give(.failure(error)) }
            }
            defer { state.isRunning = true }
            return !state.isRunning
        }
        // Nobody cancels it: what was handed in has to be done.
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

/// What a piece of work will have come to. One task may wait for it.
final class DiskFuture<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, ImageError>

    private enum State {
        case pending
        case awaited(CheckedContinuation<Outcome, Never>)
        case done(Outcome)
    }
    private let state = Mutex(State.pending)

    fileprivate init() {}

    /// Waits for it, cancelled or not.
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

    fileprivate func give(_ outcome: Outcome) {
        let before = state.withLock { state in
            defer { state = .done(outcome) }
            return state
        }
        if case .awaited(let continuation) = before { continuation.resume(returning: outcome) }
    }
}
