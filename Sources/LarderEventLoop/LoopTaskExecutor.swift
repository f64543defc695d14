/// Runs the steps of tasks that prefer a loop on its thread, those on actors without an executor of their own included
/// (SE-0417), so that a short task begins and ends without a change of threads. Everything else of the loop waits meanwhile.
package final class LoopTaskExecutor: TaskExecutor {
    private let loop: EpollLoop

    package init(_ loop: EpollLoop) { self.loop = loop }

    package func enqueue(_ job: consuming ExecutorJob) { loop.enqueue(job, of: self) }
}
