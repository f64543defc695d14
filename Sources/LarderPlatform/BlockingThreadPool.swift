package import NIOPosix

/// Runs system calls on a thread pool if they may wait for a disk, so that they do not block tasks or event loops.
package struct BlockingThreadPool: Sendable {
    private let threads: NIOThreadPool

    /// - Parameter threads: the pool, which the caller starts and shuts down. If it is not running, each body runs on
    ///   the thread that submits it.
    package init(_ threads: NIOThreadPool) { self.threads = threads }

    /// Runs a body on the pool and returns its result.
    ///
    /// The body runs on the pool even if the task is cancelled, because it may clean up or finish a write. A caller
    /// whose body need not run after a cancellation checks for it before calling this method.
    package func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
            // A pool that has been shut down calls this closure immediately, with a state other than `.active`. The
            // body runs in any state, because it may contain a final write.
            threads.submit { _ in
                do throws(Failure) {
                    continuation.resume(returning: .success(try body()))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    /// Runs a body on the pool without waiting for it.
    package func submit(_ body: @escaping @Sendable () -> Void) { threads.submit { _ in body() } }

    /// Runs a body on the pool without waiting for it.
    ///
    /// - Parameter body: called with false if no thread of the pool runs it, because the pool has ended. The calling
    ///   thread then usually runs the body before this method returns
    package func submit(_ body: @escaping @Sendable (_ isOnPool: Bool) -> Void) {
        threads.submit { state in body(state == .active) }
    }
}

extension NIOThreadPool {
    /// Shuts the pool down and returns once all work that was submitted before this call has run.
    package func finish() async {
        // The threads start work in the order of submission, so when this body runs, all earlier work has started. The
        // shutdown waits for the threads, and thereby for the end of that work. If the shutdown came first, NIO would
        // run the waiting work elsewhere and would not wait for its end.
        await withCheckedContinuation { (earlierWorkHasStarted: CheckedContinuation<Void, Never>) in
            submit { _ in earlierWorkHasStarted.resume() }
        }
        // The only error is that the pool cannot be shut down, as the one that NIO shares.
        try? await shutdownGracefully()
    }
}
