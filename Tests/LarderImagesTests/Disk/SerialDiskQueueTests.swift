import Dispatch
import LarderPlatform
import NIOPosix
import Synchronization
import Testing

@testable import LarderImages

@Suite("Serial disk queue")
struct SerialDiskQueueTests {
    private struct Fixture {
        let threads = NIOThreadPool(numberOfThreads: 2)
        let gate = DispatchSemaphore(value: 0)
        let queue: SerialDiskQueue

        init() {
            threads.start()
            queue = SerialDiskQueue(BlockingWork(threads))
        }

        /// Submits work that ends when ``gate`` is signaled.
        func block() { queue.submit { [gate] () throws(ImageError) in gate.wait() } }
    }

    @Test("100,000 items wait for a slow disk; a task of high priority that awaits the last one gets its result")
    func longQueue() async throws {
        let fixture = Fixture()
        fixture.block()
        let order = Mutex<[Int]>([])
        let last = await Task(priority: .low) {
            var last = fixture.queue.submit { () throws(ImageError) in -1 }
            for number in 0..<100_000 {
                last = fixture.queue.submit { () throws(ImageError) in
                    order.withLock { $0.append(number) }
                    return number
                }
            }
            return last
        }.value
        let waiter = Task(priority: .high) { try await last.value() }
        fixture.gate.signal()
        #expect(try await waiter.value == 99_999)
        #expect(order.withLock { $0 } == Array(0..<100_000))
        await fixture.threads.finish()
    }

    @Test("a producer waits once more than a thousand items wait, until these have run; few items do not delay it")
    func room() async throws {
        let fixture = Fixture()
        fixture.block()
        let done = Atomic(0)
        for _ in 0..<100 { fixture.queue.submit { () throws(ImageError) in done.add(1, ordering: .relaxed) } }
        await fixture.queue.waitForRoom()
        #expect(done.load(ordering: .relaxed) == 0)
        for _ in 0..<1_000 { fixture.queue.submit { () throws(ImageError) in done.add(1, ordering: .relaxed) } }
        let producer = Task {
            await fixture.queue.waitForRoom()
            return done.load(ordering: .relaxed)
        }
        // The producer submits an item, too.
        while fixture.queue.count < 1_102 { await Task.yield() }
        fixture.gate.signal()
        #expect(await producer.value == 1_100)
        await fixture.threads.finish()
    }

    @Test("the error of an item is thrown to each task that awaits it, also later, and later items run")
    func failure() async throws {
        let fixture = Fixture()
        let failing = fixture.queue.submit { () throws(ImageError) in throw ImageCache.shuttingDown }
        let next = fixture.queue.submit { () throws(ImageError) in 7 }
        #expect(try await next.value() == 7)
        for _ in 0..<2 {
            let error = await #expect(throws: ImageError.self) { try await failing.value() }
            #expect(error?.code == .shuttingDown)
        }
        await fixture.threads.finish()
    }
}
