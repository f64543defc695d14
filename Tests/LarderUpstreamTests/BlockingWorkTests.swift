import Dispatch
import Foundation
import LarderUpstream
import Synchronization
import Testing

@Suite("Work that waits for the disk")
struct BlockingWorkTests {
    private struct Refusal: Error, Equatable {}

    @Test("the body of a cancelled task runs all the same: at its turn, on a thread of its own")
    func cancelled() async throws {
        let threads = BlockingThreads(count: 1)
        let work = BlockingWork(threads)
        let thread = await work.run { UInt(pthread_self()) }
        let tasks = (0..<20).map { _ in
            Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await work.run { UInt(pthread_self()) }
            }
        }
        for task in tasks { #expect(await task.value == thread) }
        await threads.stop()
    }

    @Test("its error is the body's, and threads that were stopped leave nothing undone")
    func stopped() async throws {
        let threads = BlockingThreads(count: 1)
        let work = BlockingWork(threads)
        await #expect(throws: Refusal()) { try await work.run { () throws(Refusal) in throw Refusal() } }
        await threads.stop()
        #expect(await work.run { 7 } == 7)
        await #expect(throws: Refusal()) { try await work.run { () throws(Refusal) in throw Refusal() } }
    }

    @Test("everything that was asked for is done before the threads end, whoever lets go of them")
    func ends() async {
        let done = Mutex(0)
        for count in [0, 1, 4] {
            done.withLock { $0 = 0 }
            var threads: BlockingThreads? = BlockingThreads(count: count)
            for _ in 0..<1000 { threads?.submit { done.withLock { $0 += 1 } } }
            await threads?.stop()
            #expect(done.withLock { $0 } == 1000)
            threads?.submit { done.withLock { $0 += 1 } }
            #expect(done.withLock { $0 } == 1001)
            await threads?.stop()
            threads = nil
        }
        // Nobody stops these.
        await withCheckedContinuation { continuation in
            BlockingThreads(count: 1).submit { continuation.resume() }
        }
    }

    @Test("what is asked for is begun in its order, and what waits holds up nobody while a thread is free")
    func order() async {
        let threads = BlockingThreads(count: 2)
        let work = BlockingWork(threads)
        let gate = DispatchSemaphore(value: 0)
        let order = Mutex<[Int]>([])
        threads.submit { gate.wait() }
        for number in 0..<100 { threads.submit { order.withLock { $0.append(number) } } }
        await work.run { _ = gate.signal() }
        await threads.stop()
        #expect(order.withLock { $0 } == Array(0..<100))
    }
}
