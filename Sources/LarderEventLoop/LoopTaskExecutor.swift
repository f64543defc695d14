/// Runs the steps of tasks that prefer a loop on the loop's thread, so that a short task needs no thread switches. This
/// includes steps on actors without an executor of their own (SE-0417). A step blocks the loop while it runs.
package final class LoopTaskExecutor: TaskExecutor {
    private let loop: EpollLoop
    private let runsInPlace: (@Sendable () -> Bool)?

    /// - Parameter runsInPlace: returns whether a step that another task's step makes ready runs at once; nil for
    ///   never. Called on the loop, while no connection is being served further up the stack
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
