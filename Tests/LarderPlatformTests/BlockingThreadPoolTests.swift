import Dispatch
import Foundation
import LarderPlatform
import NIOPosix
import Synchronization
import Testing

@Suite("Blocking work")
struct BlockingThreadPoolTests {
    private struct Refusal: Error, Equatable {}

    private func start(_ count: Int) -> NIOThreadPool {
        let threads = NIOThreadPool(numberOfThreads: count)
        threads.start()
        return threads
    }

    @Test("a body runs on a thread of the pool even if its task is cancelled")
    func cancelled() async throws {
        let threads = start(1)
        let work = BlockingThreadPool(threads)
        let thread = await work.run { UInt(pthread_self()) }
        let tasks = (0..<20).map { _ in
            Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await work.run { UInt(pthread_self()) }
            }
        }
        for task in tasks { #expect(await task.value == thread) }
        await threads.finish()
    }

    @Test("a body runs and its error is thrown, even after the threads of the pool have ended")
    func stopped() async throws {
        let threads = start(1)
        let work = BlockingThreadPool(threads)
        await #expect(throws: Refusal()) { try await work.run { () throws(Refusal) in throw Refusal() } }
        await threads.finish()
        #expect(await work.run { 7 } == 7)
        await #expect(throws: Refusal()) { try await work.run { () throws(Refusal) in throw Refusal() } }
    }

    @Test("a body runs even if the pool was never started")
    func notStarted() async {
        #expect(await BlockingThreadPool(NIOThreadPool(numberOfThreads: 1)).run { 7 } == 7)
    }

    @Test("all submitted work is done when finish returns", arguments: [1, 4])
    func finish(_ count: Int) async {
        let threads = start(count)
        let gate = DispatchSemaphore(value: 0)
        let begun = Mutex(0)
        let done = Mutex(0)
        await withCheckedContinuation { (allHaveBegun: CheckedContinuation<Void, Never>) in
            for _ in 0..<count {
                threads.submit { _ in
                    let isLast = begun.withLock { begun in
                        begun += 1
                        return begun == count
                    }
                    if isLast { allHaveBegun.resume() }
                    gate.wait()
                    done.withLock { $0 += 1 }
                }
            }
        }
        // All threads are blocked, so these bodies are still queued when the pool is shut down.
        for _ in 0..<1000 { threads.submit { _ in done.withLock { $0 += 1 } } }
        async let finished: Void = threads.finish()
        for _ in 0..<count { gate.signal() }
        await finished
        #expect(done.withLock { $0 } == 1000 + count)
    }

    @Test("work starts in the order of its submission, and a blocked thread does not delay work on other threads")
    func order() async {
        let threads = start(2)
        let work = BlockingThreadPool(threads)
        let gate = DispatchSemaphore(value: 0)
        let order = Mutex<[Int]>([])
        threads.submit { _ in gate.wait() }
        for number in 0..<100 { threads.submit { _ in order.withLock { $0.append(number) } } }
        await work.run { _ = gate.signal() }
        await threads.finish()
        #expect(order.withLock { $0 } == Array(0..<100))
    }
}
