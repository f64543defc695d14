/// Runs the steps of tasks that prefer a loop on its thread, those on actors without an executor of their own included
/// (SE-0417), so that a short task begins and ends without a change of threads. Everything else of the loop waits meanwhile.
package final class LoopTaskExecutor: TaskExecutor {
    private let loop: EpollLoop
    private let runsInPlace: (@Sendable () -> Bool)?

    /// - Parameter runsInPlace: whether a step runs at once if a step of another task makes it ready; nil for never. Called on
    ///   the loop, while no connection is being served further up the stack
    package init(_ loop: EpollLoop, runsInPlace: (@Sendable () -> Bool)? = nil) {
        self.loop = loop
        self.runsInPlace = runsInPlace
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        if let runsInPlace, loop.isRunningTask, runsInPlace() {
            UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
        } else {
            loop.enqueue(job, of: self)
        }
    }
}
