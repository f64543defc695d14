import Dispatch
import JSON
import Testing

@testable import LarderConfig

/// Runs what it is handed one after the other, once it is let.
private final class HeldExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "turns")

    init() { queue.suspend() }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    func letGo() { queue.resume() }
}

@Suite("Changes of one turn")
struct TurnTests {
    private func revisions(_ durability: ConfigStore.Durability) async throws -> (Set<Int>, ConfigStore, StoreFixture) {
        var fixture = StoreFixture()
        fixture.hasRemote = false
        fixture.durability = durability
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["n 3"]), to: 0, timeToLive: nil)
        let executor = HeldExecutor()
        let tasks = (0..<20).map { number in
            Task(executorPreference: executor) {
                try await store.set(JSONPath(["n \(number)"]), to: .int(number), timeToLive: nil, on: executor).revision
            }
        }
        executor.letGo()
        var revisions: Set<Int> = []
        for task in tasks { revisions.insert(try await task.value) }
        return (revisions, store, fixture)
    }

    @Test(
        "what is asked for in one turn of an event loop is one snapshot, and one write to the disk",
        arguments: [ConfigStore.Durability.relaxed, .full])
    func oneSnapshot(durability: ConfigStore.Durability) async throws {
        let (revisions, store, fixture) = try await revisions(durability)
        defer { fixture.remove() }
        #expect(revisions == [3])
        #expect(store.revision == 3)
        #expect(store.value.count == 20)
        #expect(store.value["n 19"] == 19)
        #expect(store.value["n 3"] == 3)
        await store.stop()
        let next = try await fixture.open()
        #expect(next.value["n 19"] == 19)
        #expect(next.revision == 3)
        await next.stop()
    }
}
