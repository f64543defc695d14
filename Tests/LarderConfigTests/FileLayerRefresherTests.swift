import LarderJSON
import LarderUpstream
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources
@testable import LarderConfig

@Suite("The flow of the administrator's files")
struct FileLayerRefresherTests {
    /// Readings whose results the test gives, when it says so.
    private final class Readings: Sendable {
        typealias Answer = CheckedContinuation<Result<JSONValue, FileReadError>, Never>
        private let asked: AsyncStream<Answer>
        private let ask: AsyncStream<Answer>.Continuation
        private let counter = Mutex(0)

        init() { (asked, ask) = AsyncStream.makeStream(of: Answer.self) }

        /// How many readings were begun.
        var begun: Int { counter.withLock { $0 } }

        func read() async -> Result<JSONValue, FileReadError> {
            await withCheckedContinuation { answer in
                counter.withLock { $0 += 1 }
                ask.yield(answer)
            }
        }

        func next() async -> Answer {
            for await answer in asked { return answer }
            preconditionFailure("the stream of readings never ends")
        }
    }

    private func withFlow(_ body: (ConfigStore, FileLayerRefresher, Readings) async throws -> Void) async throws {
        var fixture = StoreFixture()
        fixture.hasRemote = false
        defer { fixture.remove() }
        let store = try await fixture.open()
        let readings = Readings()
        let flow = FileLayerRefresher(.host, store: store) { await readings.read().map { ComposedPatch($0) } }
        try await body(store, flow, readings)
        await store.stop()
    }

    @Test("a reading begins only after the one before it is applied, so that the newest content wins")
    func order() async throws {
        try await withFlow { (store, flow, readings) async throws in
            async let first = flow.refresh()
            let slow = await readings.next()
            async let second = flow.refresh()
            slow.resume(returning: .success(["n": 1]))
            #expect(try await first.changed == true)
            let later = await readings.next()
            #expect(store.value == ["n": 1])
            later.resume(returning: .success(["n": 2]))
            #expect(try await second.changed == true)
            #expect(store.value == ["n": 2])
            #expect(readings.begun == 2)
        }
    }

    @Test("whoever asks while a reading runs shares the next one")
    func sharing() async throws {
        try await withFlow { (store, flow, readings) async throws in
            async let first = flow.refresh()
            let slow = await readings.next()
            let others = (0..<20).map { _ in Task.immediate { try await flow.refresh() } }
            await flow.takeTurn()
            slow.resume(returning: .success(["n": 1]))
            _ = try await first
            await readings.next().resume(returning: .success(["n": 2]))
            for other in others { #expect(try await other.value.changed == true) }
            #expect(readings.begun == 2)
            #expect(store.value == ["n": 2])
        }
    }

    @Test("a flow that takes over begins when the former one has ended, and that one takes no more questions")
    func takingOver() async throws {
        try await withFlow { (store, former, readings) async throws in
            async let old = former.refresh()
            let slow = await readings.next()
            let newReadings = Readings()
            let flow = FileLayerRefresher(.host, store: store, after: former) {
                await newReadings.read().map { ComposedPatch($0) }
            }
            async let new = flow.refresh()
            let finish = Task.immediate { await former.finish() }
            await former.takeTurn()
            await #expect(throws: ConfigError.self) { try await former.refresh() }
            slow.resume(returning: .success(["who": "old"]))
            await finish.value
            await newReadings.next().resume(returning: .success(["who": "new"]))
            _ = try await (old, new)
            #expect(store.value == ["who": "new"])
            #expect(readings.begun == 1)
        }
    }

    @Test("a layer whose directory leaves the settings is emptied after the last reading of it")
    func withoutDirectory() async throws {
        try await withFlow { (store, former, readings) async throws in
            async let old = former.refresh()
            let slow = await readings.next()
            let flow = FileLayerRefresher(.host, store: store, after: former) { .success(.empty) }
            async let new = flow.refresh()
            slow.resume(returning: .success(["who": "old"]))
            #expect(try await old.changed == true)
            #expect(try await new.changed)
            #expect(store.value == .emptyObject)
        }
    }

    @Test("a file that cannot be used is refused by name, the layer stays, and the next good reading heals the state")
    func refusal() async throws {
        try await withFlow { (store, flow, readings) async throws in
            async let good = flow.refresh()
            await readings.next().resume(returning: .success(["n": 1]))
            _ = try await good
            let since = store.publication.status.since
            let bad = Task { try await flow.refresh() }
            await readings.next().resume(returning: .failure(FileReadError(.invalidJSON, "a.json", "is broken")))
            await #expect(throws: ConfigError.self) { _ = try await bad.value }
            #expect(store.value == ["n": 1])
            #expect(store.publication.current.freshness == .stale)
            #expect(store.publication.status.since >= since)
            async let healed = flow.refresh()
            await readings.next().resume(returning: .success(["n": 1]))
            _ = try await healed
            #expect(store.publication.current.freshness == .fresh)
        }
    }
}

extension FileLayerRefresher {
    /// Comes after everything that was asked of the actor before.
    fileprivate func takeTurn() {}
}
