import LarderConfigModel
import Testing

@testable import LarderConfig

@Suite("Change queue")
struct ChangeQueueTests {
    /// Runs each job on the thread that enqueues it. A task that is resumed under a lock therefore continues under that
    /// lock.
    private final class InlineExecutor: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) { job.runSynchronously(on: asUnownedTaskExecutor()) }
    }

    @Test("a task that waits until the queue is idle is resumed without the lock of the queue")
    func idle() async {
        let queue = ChangeQueue()
        #expect(queue.add(.recheck, id: queue.newID()) { _ in })
        let waiting = Task(executorPreference: InlineExecutor()) {
            await queue.waitUntilIdle()
            return queue.isAtWork
        }
        #expect(queue.take(atMost: 1)?.count == 1)
        #expect(queue.isAtWork)
        #expect(queue.take(atMost: 1) == nil)
        #expect(await !waiting.value)
    }
}
