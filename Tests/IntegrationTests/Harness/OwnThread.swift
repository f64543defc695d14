import Foundation
import Testing

/// Runs each test of a suite on a dedicated thread. These tests wait for processes with blocking calls, which would
/// block the few threads of the task pool and with them all other tests.
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
    /// Runs each test on a dedicated thread, which the test may block.
    static var ownThread: Self { OwnThread() }
}

/// Runs every job on a new thread.
private final class ThreadExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        let thread = Thread { job.runSynchronously(on: executor) }
        thread.stackSize = 8 << 20
        thread.start()
    }
}

/// Contains the tests that start processes. They run one at a time, because each of them can use the whole capacity of
/// a small machine.
@Suite("Agents and commands as processes", .serialized, .ownThread)
struct Integration {}
