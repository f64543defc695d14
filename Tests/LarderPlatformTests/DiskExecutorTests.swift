import Dispatch
import LarderPlatform
import NIOPosix
import Testing

@Suite("Executor of disk work")
struct DiskExecutorTests {
    /// An actor whose calls run on the executor.
    private actor Disk {
        nonisolated let executor: DiskExecutor
        private(set) var order: [Int] = []

        nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

        init(_ executor: DiskExecutor) { self.executor = executor }

        func note(_ number: Int) { order.append(number) }

        func wait(for gate: DispatchSemaphore) { gate.wait() }

        /// Submits a call from each of `count` calls, then resumes the continuation.
        func submitChain(_ count: Int, then end: CheckedContinuation<Void, Never>) {
            if count == 0 { end.resume() } else { Task { self.submitChain(count - 1, then: end) } }
        }
    }

    @Test("after the thread pool has ended, calls run on the calling thread, and any number of them needs little stack")
    func endedPool() async {
        let threads = NIOThreadPool(numberOfThreads: 1)
        threads.start()
        await threads.finish()
        let disk = Disk(DiskExecutor(BlockingThreadPool(threads)))
        await withCheckedContinuation { end in
            Task { await disk.submitChain(200_000, then: end) }
        }
        await disk.note(1)
        #expect(await disk.order == [1])
    }

    @Test("100,000 calls wait for a slow disk in their order; a task of high priority that awaits the last one gets on")
    func longQueue() async {
        let threads = NIOThreadPool(numberOfThreads: 2)
        threads.start()
        let disk = Disk(DiskExecutor(BlockingThreadPool(threads)))
        let gate = DispatchSemaphore(value: 0)
        let blocked = Task.immediate { await disk.wait(for: gate) }
        let last = await Task(priority: .low) {
            var last = Task {}
            for number in 0..<100_000 { last = Task.immediate { await disk.note(number) } }
            return last
        }.value
        #expect(disk.executor.count == 100_001)
        let waiter = Task(priority: .high) { await last.value }
        gate.signal()
        await waiter.value
        await blocked.value
        #expect(await disk.order == Array(0..<100_000))
        await threads.finish()
        #expect(disk.executor.count == 0)
    }
}
