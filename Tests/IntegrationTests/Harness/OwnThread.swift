import Foundation
import Testing

/// Runs each test of a suite on a thread of its own. These tests wait for processes in plain blocking calls; on the
/// few threads that run tasks they would hold up every other test.
struct OwnThread: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    @concurrent
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor()) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// On a thread of its own, where it may wait.
    static var ownThread: Self { OwnThread() }
}

/// Runs every piece of work on a new thread.
private final class ThreadExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        let thread = Thread { job.runSynchronously(on: executor) }
        thread.stackSize = 8 << 20
        thread.start()
    }
}

/// The suite of all tests that run processes. They run one after the other: each brings a small machine to its limits.
@Suite("The agent as a process", .serialized, .ownThread)
struct Integration {}
