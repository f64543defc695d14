internal import Dispatch
package import NIOPosix

/// Runs system calls that may wait for a disk on a thread pool, never on the threads of tasks or event loops.
package struct BlockingWork: Sendable {
    private let threads: NIOThreadPool

    /// - Parameter threads: started and shut down by the caller; a pool that is not running runs bodies on the caller's thread.
    package init(_ threads: NIOThreadPool) { self.threads = threads }

    /// Runs a body on the pool and returns its result.
    ///
    /// The body also runs, in its turn, if the task is canceled: callers clean up and write last things in bodies, and a burst
    /// of canceled tasks must not run them on the threads of tasks. A body that need not run any more checks the task before
    /// it is submitted.
    package func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
            // A pool that has been shut down calls this at once, with another state. The body runs in either case, since it may
            // be a last write.
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

    /// Runs a body on the pool. The caller does not wait for it.
    package func submit(_ body: @escaping @Sendable () -> Void) { threads.submit { _ in body() } }
}

extension NIOThreadPool {
    /// Shuts the pool down and returns once all submitted work is done.
    package func finish() async {
        // NIO runs the queued work on this queue and then calls back on it, so a concurrent queue would lose the order. NIO
        // takes nothing else than a DispatchQueue here.
        let queue = DispatchQueue(label: "larder.threads")
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            shutdownGracefully(queue: queue) { _ in done.resume() }
        }
    }
}
