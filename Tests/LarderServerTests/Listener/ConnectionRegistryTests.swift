import Dispatch
import Foundation
import LarderProtocol
import Testing

@testable import LarderServer

@Suite("Connection registry")
struct ConnectionRegistryTests {
    @Test("connections are admitted up to the limit, and again when one ends")
    func limit() async {
        let registry = ConnectionRegistry()
        #expect((0..<4).map { _ in registry.admit(limit: 3) } == [1, 2, 3, nil])
        registry.connectionEnded()
        #expect(registry.admit(limit: 3) == 4)
        #expect(registry.admit(limit: 3) == nil)
        #expect(await registry.traffic().connectionsRefused == 2)
    }

    @Test("the idle time is nil while a connection is open, and starts when the last one ends")
    func idleTime() async throws {
        let registry = ConnectionRegistry()
        let before = try #require(await registry.idleTime())
        #expect(try #require(await registry.idleTime()) >= before)
        _ = registry.admit(limit: 3)
        #expect(await registry.idleTime() == nil)
        #expect(registry.connections == 1)
        let connected = ContinuousClock.now
        registry.connectionEnded()
        let idle = try #require(await registry.idleTime())
        #expect(idle <= .now - connected)
    }

    @Test("a connection that only monitored the agent does not restart the idle time when it ends")
    func monitoring() async throws {
        let registry = ConnectionRegistry()
        let start = ContinuousClock.now
        _ = registry.admit(limit: 3)
        registry.connectionEnded()
        let used = ContinuousClock.now
        _ = registry.admit(limit: 3)
        registry.connectionEnded(isMonitoring: true)
        let reached = ContinuousClock.now
        let idle = try #require(await registry.idleTime())
        #expect(idle >= reached - used)
        #expect(idle <= .now - start)
    }

    @Test("a task that waits for an empty registry returns despite concurrent refusals")
    func refusedWhileWaiting() async {
        let registry = ConnectionRegistry()
        let ended = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            for _ in 0..<60_000 { _ = registry.admit(limit: 0) }
            ended.signal()
        }
        Task {
            for _ in 0..<20_000 { await registry.waitUntilEmpty() }
            ended.signal()
        }
        // Waits on a separate thread, because blocking a thread of the task pool could block the tasks under test.
        let isDone = await withCheckedContinuation { done in
            Thread.detachNewThread {
                // Ten minutes are enough even if other tests keep all threads of the task pool busy.
                let deadline = DispatchTime.now() + 600
                done.resume(returning: (0..<2).allSatisfy { _ in ended.wait(timeout: deadline) == .success })
            }
        }
        #expect(isDone, "a task waits although the registry is empty")
    }
}
