import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Replacement of a source")
struct SourceExchangeTests {
    @Test("a running refresh is repeated with the new source, and its caller gets the response of the new source")
    func exchange() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            async let refresh = refresher.refreshIfNeeded()
            let old = await source.nextRequest()
            async let push = refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            let other = ScriptedSource()
            await refresher.use(other)
            #expect(source.cancelledCount == 1)
            // The response of the old source arrives too late.
            old.answer(["v": "old"])
            await other.nextRequest().answer(["v": "new"])
            #expect(try await refresh.commit.changed)
            #expect(try await push.commit.changed)
            #expect(store.value == ["v": "pushed"])
            #expect(source.requestCount == 1)
        }
    }

    @Test("a refresh whose callers have left is not repeated with the new source")
    func abandoned() async throws {
        try await StoreFixture().withFlow { (_, refresher, source) async throws in
            let refresh = Task { try await refresher.refreshIfNeeded() }
            _ = await source.nextRequest()
            refresh.cancel()
            await #expect(throws: ConfigError.self) { try await refresh.value }
            let other = ScriptedSource()
            await refresher.use(other)
            async let next = refresher.refreshIfNeeded()
            await other.nextRequest().answer(["v": 1])
            #expect(try await next.commit.changed)
            #expect(other.requestCount == 1)
        }
    }
}
