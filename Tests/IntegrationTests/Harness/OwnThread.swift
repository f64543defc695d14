import Foundation
import Synchronization
import Testing

/// Runs each test of a suite on a dedicated thread, and only a few of them at the same time.
///
/// These tests wait for processes with blocking calls, which would block the few threads of the task pool and with them
/// all other tests. Swift Testing starts all tests at once; without a limit, hundreds of agents would run.
struct OwnThread: TestTrait, SuiteTrait, TestScoping {
    /// Most tests wait for their processes most of the time, so four tests per core keep the cores busy.
    private static let slots = TestSlots(4 * ProcessInfo.processInfo.activeProcessorCount)

    var isRecursive: Bool { true }

    @concurrent
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
    ) async throws {
        await Self.slots.take()
        defer { Self.slots.release() }
        try await withTaskExecutorPreference(ThreadExecutor()) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// Runs each test on a dedicated thread, which the test may block.
    static var ownThread: Self { OwnThread() }
}

/// Limits the number of tests that run at the same time. Waiting tests run in the order of their calls.
private final class TestSlots: Sendable {
    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    func take() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.free == 0 {
                    state.waiting.append(continuation)
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    func release() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.waiting.isEmpty {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.resume()
    }
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

/// Contains the tests that start processes.
///
/// Several of them run at the same time. Therefore a test uses only its own directory (``AgentHome``) and ports of
/// ``LoopbackPort``, and does not depend on how long other processes take.
@Suite("Agents and commands as processes", .ownThread)
struct Integration {}
