public import NIOPosix

/// Where system calls that may wait for a disk are made: on a few threads of their own, never on the threads that run
/// tasks or event loops.
public struct BlockingWork: Sendable {
    private let pool: NIOThreadPool

    /// Uses a pool that the caller starts and stops.
    public init(_ pool: NIOThreadPool) { self.pool = pool }

    /// Runs a body there and hands back its result. Cancellation does not stop a body that has begun.
    public func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure>? = try? await pool.runIfActive {
            do throws(Failure) { return .success(try body()) } catch { return .failure(error) }
        }
        // The pool refuses work only after it was stopped or when the task is cancelled before the work began; what
        // must happen all the same (a last write at shutdown) then happens here.
        if let result { return try result.get() }
        return try body()
    }
}
