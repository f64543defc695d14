import Synchronization

/// Runs the jobs of an actor on the threads of ``BlockingThreadPool``, one at a time, in the order of their submission.
///
/// The order is that of submission whatever the priorities of the tasks. A caller that changes its memory and, in the same
/// step, calls the actor therefore keeps the changes in memory and on disk in the same order.
package final class DiskExecutor: SerialExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        /// The number of jobs that have not ended.
        var unfinished = 0
        /// Whether a thread runs jobs or is about to.
        var isRunning = false
    }

    // A mutex, because any thread submits jobs, and the runtime calls ``enqueue(_:)`` synchronously.
    private let state = Mutex(State())
    private let blocking: BlockingThreadPool

    package init(_ blocking: BlockingThreadPool) { self.blocking = blocking }

    /// The number of jobs that have not ended.
    package var count: Int { state.withLock { $0.unfinished } }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let mustStart = state.withLock { state in
            state.jobs.append(job)
            state.unfinished += 1
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { blocking.submit { self.run(isOnPool: $0) } }
    }

    /// Runs the jobs that were submitted before this call. Later ones run after other work of the threads.
    ///
    /// - Parameter isOnPool: false if the pool has ended. This thread then runs the later jobs, too, in a loop, because
    ///   submitting them would call this method recursively
    private func run(isOnPool: Bool) {
        while runBatch() {
            if isOnPool { return blocking.submit { self.run(isOnPool: $0) } }
        }
    }

    /// - Returns: whether other jobs were submitted in the meantime
    private func runBatch() -> Bool {
        let jobs = state.withLock { state in
            defer { state.jobs = [] }
            return state.jobs
        }
        for job in jobs { job.runSynchronously(on: asUnownedSerialExecutor()) }
        return state.withLock { state in
            state.unfinished -= jobs.count
            state.isRunning = !state.jobs.isEmpty
            return state.isRunning
        }
    }
}
