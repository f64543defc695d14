internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// Runs disk work one item at a time, in the order of submission.
///
/// It is not an actor, because submitting must not suspend. An actor that changes its memory and submits the same
/// change for the disk in one step keeps the changes in memory and on disk in the same order.
final class SerialDiskQueue: Sendable {
    /// Waits for the work that was submitted last.
    private let last = Mutex<@Sendable () async -> Void>({})
    private let blocking: BlockingWork

    init(_ blocking: BlockingWork) { self.blocking = blocking }

    /// Submits work. It runs even if no task awaits the result.
    @discardableResult
    func submit<Value: Sendable>(
        _ body: @escaping @Sendable () throws(ImageError) -> Value
    ) -> DiskFuture<Value> {
        last.withLock { last in
            // The task is never cancelled, because submitted work must run.
            let task = Task { [blocking, previous = last] in
                await previous()
                return await blocking.run { Result<Value, ImageError>(catching: body) }
            }
            last = { _ = await task.value }
            return DiskFuture(task: task)
        }
    }
}

/// The future result of disk work.
struct DiskFuture<Value: Sendable>: Sendable {
    fileprivate let task: Task<Result<Value, ImageError>, Never>

    /// Waits for the result, even if the waiting task is cancelled.
    func value() async throws(ImageError) -> Value { try await task.value.get() }
}
