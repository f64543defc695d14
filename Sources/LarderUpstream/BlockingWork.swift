/// Where system calls that may wait for a disk are made: on a few threads of their own, never on the threads that run
/// tasks or event loops.
public struct BlockingWork: Sendable {
    private let threads: BlockingThreads

    /// Uses threads that the caller stops.
    public init(_ threads: BlockingThreads) { self.threads = threads }

    /// Runs a body there and hands back its result.
    ///
    /// A task that is cancelled waits all the same, and its body runs at its turn: callers clean up and write last things in
    /// bodies, so that none may be left out, and a crowd that is cancelled must not run all of them at once on the threads
    /// of tasks. A body that is not worth beginning any more looks at the task before it is handed in.
    public func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
            // It is called whatever happens. Once the threads were stopped that is here and now: what must happen all the
            // same, such as a last write at shutdown, does.
            threads.submit {
                do throws(Failure) {
                    continuation.resume(returning: .success(try body()))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }
}
