import Foundation
import LarderUpstream
import NIOPosix
import Testing

@Suite("Work that waits for the disk")
struct BlockingWorkTests {
    private struct Refusal: Error, Equatable {}

    @Test("the body of a cancelled task runs all the same: at its turn, on the pool's thread")
    func cancelled() async throws {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        let work = BlockingWork(pool)
        let thread = await work.run { UInt(pthread_self()) }
        let tasks = (0..<20).map { _ in
            Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await work.run { UInt(pthread_self()) }
            }
        }
        for task in tasks { #expect(await task.value == thread) }
        try await pool.shutdownGracefully()
    }

    @Test("its error is the body's, and a pool that was stopped leaves nothing undone")
    func stopped() async throws {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        let work = BlockingWork(pool)
        await #expect(throws: Refusal()) { try await work.run { () throws(Refusal) in throw Refusal() } }
        try await pool.shutdownGracefully()
        #expect(await work.run { 7 } == 7)
        await #expect(throws: Refusal()) { try await work.run { () throws(Refusal) in throw Refusal() } }
    }
}
