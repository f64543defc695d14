import Dispatch
import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

/// Queues jobs until ``resume()`` and then runs them in order.
private final class SuspendedExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "loop")

    init() { queue.suspend() }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    func resume() { queue.resume() }
}

@Suite("Changes of one loop iteration")
struct LoopIterationTests {
    private func revisions(_ durability: Durability) async throws -> (Set<Int>, ConfigStore, StoreFixture) {
        let fixture = StoreFixture.local(durability)
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["n 3"]), to: 0, timeToLive: nil)
        let executor = SuspendedExecutor()
        let (commits, completed) = AsyncStream.makeStream(of: Result<CommitOutcome, ConfigError>.self)
        for number in 0..<20 {
            _ = store.submit("n \(number)", .int(number), on: executor) { completed.yield($0) }
        }
        executor.resume()
        var revisions: Set<Int> = []
        for await commit in commits.prefix(20) { revisions.insert(try commit.get().revision) }
        return (revisions, store, fixture)
    }

    @Test(
        "all durable changes of one loop iteration share a snapshot; of the relaxed changes, every 16 share one",
        arguments: zip([Durability.relaxed, .full], [[3, 4], [3] as Set<Int>]))
    func oneIteration(durability: Durability, expected: Set<Int>) async throws {
        let (revisions, store, fixture) = try await revisions(durability)
        defer { fixture.remove() }
        #expect(revisions == expected)
        #expect(store.revision == expected.max())
        #expect(store.value.count == 20)
        #expect(store.value["n 19"] == 19)
        #expect(store.value["n 3"] == 3)
        await store.stop()
        let next = try await fixture.open()
        #expect(next.value["n 19"] == 19)
        #expect(next.revision == expected.max())
        await next.stop()
    }

    @Test("a change that is cancelled before the iteration ends fails with `cancelled` and has no effect")
    func cancelled() async throws {
        let fixture = StoreFixture.local()
        let store = try await fixture.open()
        defer { fixture.remove() }
        let executor = SuspendedExecutor()
        let (results, completed) = AsyncStream.makeStream(of: Result<CommitOutcome, ConfigError>.self)
        let changes = ["a", "b", "c"].map { name in
            store.submit(name, 1, on: executor) { completed.yield($0) }
        }
        changes[1].cancel()
        changes[1].cancel()
        executor.resume()
        var codes: [ConfigError.Code?] = []
        for await result in results.prefix(3) {
            switch result {
            case .success: codes.append(nil)
            case .failure(let error): codes.append(error.code)
            }
        }
        #expect(codes == [.cancelled, nil, nil])
        #expect(store.value == ["a": 1, "c": 1])
        changes[0].cancel()
        await store.stop()
        _ = store.submit("d", 1) { completed.yield($0) }
        for await result in results.prefix(1) {
            #expect(throws: ConfigError.self) { try result.get() }
        }
        #expect(store.value == ["a": 1, "c": 1])
    }
}
