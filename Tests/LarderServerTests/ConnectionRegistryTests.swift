import Dispatch
import Foundation
import LarderProtocol
import Testing

@testable import LarderServer

@Suite("The registry of connections")
struct ConnectionRegistryTests {
    @Test("as many are admitted as may be, and again when one has ended")
    func limit() async {
        let registry = ConnectionRegistry()
        #expect((0..<4).map { _ in registry.admit(limit: 3) } == [1, 2, 3, nil])
        registry.connectionEnded()
        #expect(registry.admit(limit: 3) == 4)
        #expect(registry.admit(limit: 3) == nil)
        #expect(await registry.traffic().connectionsRefused == 2)
    }

    @Test("while somebody is connected it is not idle, and afterwards it has been only since then")
    func idleTime() throws {
        let registry = ConnectionRegistry()
        let before = try #require(registry.idleTime)
        #expect(try #require(registry.idleTime) >= before)
        _ = registry.admit(limit: 3)
        #expect(registry.idleTime == nil)
        #expect(registry.connections == 1)
        let connected = ContinuousClock.now
        registry.connectionEnded()
        let idle = try #require(registry.idleTime)
        #expect(idle <= .now - connected)
    }

    @Test("connections that are refused at the same moment keep nobody waiting for the last to end")
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
        // On a thread that runs no tasks: those that do may be needed, or be the ones that wait.
        let isEverybodyDone = await withCheckedContinuation { done in
            Thread.detachNewThread {
                // Long enough for a machine on which other tests keep all threads of tasks busy.
                let patience = DispatchTime.now() + 600
                done.resume(returning: (0..<2).allSatisfy { _ in ended.wait(timeout: patience) == .success })
            }
        }
        #expect(isEverybodyDone, "somebody waits for nothing")
    }
}
