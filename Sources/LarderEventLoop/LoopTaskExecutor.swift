/// Runs tasks that prefer a loop on the loop's thread, including their steps on actors without an executor of their own
/// (SE-0417). So a short task needs no thread switches. A step is the part of a task between two suspensions. It blocks
/// the loop while it runs.
package final class LoopTaskExecutor: TaskExecutor {
    private let loop: EpollLoop
    private let runsInPlace: (@Sendable () -> Bool)?

    /// - Parameter runsInPlace: returns whether a step runs immediately, within the step of another task that made it
    ///   ready. Otherwise the step runs after work that was submitted earlier. Nil if no step runs immediately. Called
    ///   on the loop, but never while a connection is being served further up the call stack
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
