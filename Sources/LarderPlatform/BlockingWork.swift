internal import Dispatch
package import NIOPosix

/// Runs system calls on a thread pool if they may wait for a disk, so that they do not block tasks or event loops.
package struct BlockingWork: Sendable {
    private let threads: NIOThreadPool

    /// - Parameter threads: the pool, which the caller starts and shuts down. If it is not running, each body runs on
    ///   the thread that submits it.
    package init(_ threads: NIOThreadPool) { self.threads = threads }

    /// Runs a body on the pool and returns its result.
    ///
    /// The body runs on the pool even if the task is canceled, because it may clean up or finish a write. A caller
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
}

extension NIOThreadPool {
    /// Shuts the pool down and returns once all submitted work has run.
    package func finish() async {
        // On this queue NIO runs the work that is still queued, and then the callback. The queue is serial, because on
        // a concurrent queue the callback could run before the work has ended.
        let queue = DispatchQueue(label: "larder.threads")
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            shutdownGracefully(queue: queue) { _ in done.resume() }
        }
    }
}
