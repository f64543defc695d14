import LarderJSON
import LarderPlatform
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources
@testable import LarderConfig

@Suite("File layer refresher")
struct FileLayerRefresherTests {
    /// File reads that wait until the test completes them.
    private final class ControlledReads: Sendable {
        typealias Completion = CheckedContinuation<Result<JSONValue, FileReadError>, Never>
        private let pending: AsyncStream<Completion>
        private let incoming: AsyncStream<Completion>.Continuation
        private let counter = Mutex(0)

        init() { (pending, incoming) = AsyncStream.makeStream(of: Completion.self) }

        /// The number of reads so far.
        var count: Int { counter.withLock { $0 } }

        func read() async -> Result<JSONValue, FileReadError> {
            await withCheckedContinuation { completion in
                counter.withLock { $0 += 1 }
                incoming.yield(completion)
            }
        }

        func next() async -> Completion {
            for await completion in pending { return completion }
            preconditionFailure("the stream of reads never ends")
        }
    }

    private func withRefresher(_ body: (ConfigStore, FileLayerRefresher, ControlledReads) async throws -> Void)
        async throws
    {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let reads = ControlledReads()
        let refresher = FileLayerRefresher(.host, store: store) { _ in await reads.read().map { ComposedPatch($0) } }
        try await body(store, refresher, reads)
        await store.stop()
    }

    @Test("a read begins only after the result of the previous one is applied, so the newest content wins")
    func order() async throws {
        try await withRefresher { (store, refresher, reads) async throws in
            async let first = refresher.refresh()
            let slow = await reads.next()
            async let second = refresher.refresh()
            slow.resume(returning: .success(["n": 1]))
            #expect(try await first.changed == true)
            let later = await reads.next()
            #expect(store.value == ["n": 1])
            later.resume(returning: .success(["n": 2]))
            #expect(try await second.changed == true)
            #expect(store.value == ["n": 2])
            #expect(reads.count == 2)
        }
    }

    @Test("callers that arrive during a read share the next read")
    func sharing() async throws {
        try await withRefresher { (store, refresher, reads) async throws in
            async let first = refresher.refresh()
            let slow = await reads.next()
            let others = (0..<20).map { _ in Task.immediate { try await refresher.refresh() } }
            await refresher.waitForEarlierCalls()
            slow.resume(returning: .success(["n": 1]))
            _ = try await first
            await reads.next().resume(returning: .success(["n": 2]))
            for other in others { #expect(try await other.value.changed == true) }
            #expect(reads.count == 2)
            #expect(store.value == ["n": 2])
        }
    }

    @Test("a replaced refresher refuses further calls, and its successor waits for the last read of the replaced one")
    func replacement() async throws {
        try await withRefresher { (store, previous, reads) async throws in
            async let old = previous.refresh()
            let slow = await reads.next()
            let newReads = ControlledReads()
            let refresher = FileLayerRefresher(.host, store: store, after: previous) { _ in
                await newReads.read().map { ComposedPatch($0) }
            }
            async let new = refresher.refresh()
            let finish = Task.immediate { await previous.finish() }
            await previous.waitForEarlierCalls()
            await #expect(throws: ConfigError.self) { try await previous.refresh() }
            slow.resume(returning: .success(["who": "old"]))
            await finish.value
            await newReads.next().resume(returning: .success(["who": "new"]))
            _ = try await (old, new)
            #expect(store.value == ["who": "new"])
            #expect(reads.count == 1)
        }
    }

    @Test("a refresher that is replaced or stopped abandons the parse of its files")
    func abandonedParse() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let (reads, begin) = AsyncStream.makeStream(of: Void.self)
        let refresher = FileLayerRefresher(.host, store: store) { isCancelled in
            begin.yield()
            while !isCancelled() { await Task.yield() }
            return .failure(FileReadError(.cancelled, "a.json", "it was not read"))
        }
        let refresh = Task { try await refresher.refresh() }
        for await _ in reads { break }
        await refresher.finish()
        let error = await #expect(throws: ConfigError.self) { _ = try await refresh.value }
        #expect(error?.code == .stopped)
        #expect(store.publication.status.lastError == nil)
        await store.stop()
    }

    @Test("a layer whose directory is removed from the settings becomes empty once a running read has ended")
    func withoutDirectory() async throws {
        try await withRefresher { (store, previous, reads) async throws in
            async let old = previous.refresh()
            let slow = await reads.next()
            let refresher = FileLayerRefresher(.host, store: store, after: previous) { _ in .success(.empty) }
            async let new = refresher.refresh()
            slow.resume(returning: .success(["who": "old"]))
            #expect(try await old.changed == true)
            #expect(try await new.changed)
            #expect(store.value == .emptyObject)
        }
    }

    @Test("an invalid file leaves the layer unchanged, and the namespace is stale until a read succeeds")
    func refusal() async throws {
        try await withRefresher { (store, refresher, reads) async throws in
            async let good = refresher.refresh()
            await reads.next().resume(returning: .success(["n": 1]))
            _ = try await good
            let since = store.publication.status.since
            let bad = Task { try await refresher.refresh() }
            await reads.next().resume(returning: .failure(FileReadError(.invalidJSON, "a.json", "is broken")))
            await #expect(throws: ConfigError.self) { _ = try await bad.value }
            #expect(store.value == ["n": 1])
            #expect(store.publication.current.freshness == .stale)
            #expect(store.publication.status.since >= since)
            async let repaired = refresher.refresh()
            await reads.next().resume(returning: .success(["n": 1]))
            _ = try await repaired
            #expect(store.publication.current.freshness == .fresh)
        }
    }
}

extension FileLayerRefresher {
    /// Returns after all earlier calls to this actor have begun.
    fileprivate func waitForEarlierCalls() {}
}
