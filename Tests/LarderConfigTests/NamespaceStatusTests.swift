import JSON
import Testing

@testable import LarderConfig

@Suite("The status of a namespace")
struct NamespaceStatusTests {
    @Test("a namespace awaits its source until the first answer, whatever its overrides say")
    func awaitsSource() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            #expect(store.publication.current.awaitsSource)
            _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
            #expect(store.publication.current.awaitsSource)
            async let refresh = refresher.refreshIfNeeded()
            let request = await source.nextRequest()
            #expect(store.publication.current.freshness == .refreshing)
            #expect(store.publication.current.awaitsSource)
            request.answer(["v": 1])
            #expect(try await refresh.freshness == .fresh)
            #expect(!store.publication.current.awaitsSource)
        }
    }

    @Test("what is current gets another version with each change of it, and with nothing else")
    func version() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = store.publication.version
            _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
            let second = store.publication.version
            #expect(second != first)
            #expect(store.publication.current.version == second)
            _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
            await store.nextAttempt(at: 7)
            #expect(store.publication.version == second)
            async let refresh = refresher.refreshIfNeeded()
            let request = await source.nextRequest()
            #expect(store.publication.version != second)
            request.answer(["n": 1])
            _ = try await refresh
        }
    }
}
