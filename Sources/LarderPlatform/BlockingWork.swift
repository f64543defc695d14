internal import Dispatch
package import NIOPosix

/// Runs system calls that may wait for a disk on a thread pool, so that they do not block tasks or event loops.
package struct BlockingWork: Sendable {
    private let threads: NIOThreadPool

    /// - Parameter threads: started and shut down by the caller. A pool that is not running executes each body on the
    ///   caller's thread.
    package init(_ threads: NIOThreadPool) { self.threads = threads }

    /// Runs a body on the pool and returns its result.
    ///
    /// The body also runs if the task is canceled: callers clean up and finish writing in bodies, and a burst of
    /// canceled tasks must not run them on the threads of tasks. A caller whose body is then unnecessary checks for
    /// cancellation before it calls this method.
    package func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
            // A pool that has been shut down calls this immediately, with another state. The body runs in either case,
            // because it may contain a final write.
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
        // NIO runs the queued work on this queue and then the callback. A concurrent queue would not keep that order.
        // NIO's method requires a DispatchQueue.
        let queue = DispatchQueue(label: "larder.threads")
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            shutdownGracefully(queue: queue) { _ in done.resume() }
        }
    }
}
