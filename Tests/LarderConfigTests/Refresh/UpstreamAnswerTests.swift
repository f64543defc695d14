import LarderHTTPSemantics
import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Responses of a source")
struct UpstreamAnswerTests {
    @Test("an older version is rejected and reported, and the newer document stays")
    func olderVersion() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 7], version: "7", etag: "\"7\"")
            _ = try await first.value
            let second = Task.immediate { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            #expect(request.validator == Validator(etag: "\"7\""))
            request.answer(["v": 6], version: "6", etag: "\"6\"")
            let error = await #expect(throws: ConfigError.self) { try await second.value }
            #expect(error?.code == .rejected)
            #expect(store.value == ["v": 7])
            let status = store.publication.status
            #expect(status.freshness == .stale)
            #expect(status.rejected?.version == "6")
            #expect(status.rejected?.reason.contains("older") ?? false)
            #expect(status.lastError != nil)
            // The validator of a rejected response is not stored. Otherwise later responses could be "not modified".
            let third = Task.immediate { try await refresher.refreshIfNeeded() }
            let next = await source.nextRequest()
            #expect(next.validator == Validator(etag: "\"7\""))
            next.answer(["v": 8], version: "8")
            _ = try await third.value
            #expect(store.publication.status.rejected == nil)
            #expect(store.publication.status.lastError == nil)
            #expect(store.publication.status.freshness == .fresh)
        }
    }

    @Test("a forced refresh sends no validator and accepts an older version, under a newer revision")
    func forced() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 7], version: "7", etag: "\"7\"")
            _ = try await first.value
            let second = Task.immediate { try await refresher.forceRefresh() }
            let request = await source.nextRequest()
            #expect(request.validator == nil)
            request.answer(["v": 6], version: "6")
            #expect(try await second.value.commit.revision == 2)
            #expect(store.value == ["v": 6])
        }
    }

    @Test("after a failure the last snapshot stays, and the namespace is stale, or failed if it never had a document")
    func failures() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            #expect(store.publication.status.freshness == .initializing)
            #expect(store.revision == 0)
            let first = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().fail()
            _ = await #expect(throws: ConfigError.self) { try await first.value }
            #expect(store.publication.status.freshness == .failed)
            #expect(store.revision == 0)
            let second = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 1])
            _ = try await second.value
            let third = Task.immediate { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            #expect(store.publication.status.freshness == .refreshing)
            request.fail()
            _ = await #expect(throws: ConfigError.self) { try await third.value }
            #expect(store.publication.status.freshness == .stale)
            #expect(store.publication.status.source?.consecutiveFailures == 1)
            #expect(store.value == ["v": 1])
        }
    }

    @Test("before the source responds, an empty host layer is not published, but an override is")
    func nothingYet() async throws {
        try await StoreFixture().withFlow { (store, _, _) async throws in
            _ = try await store.replaceFiles(.host, with: .emptyObject)
            #expect(store.revision == 0)
            #expect(try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil).revision == 1)
            #expect(store.value == ["a": 1])
        }
    }

    @Test("a \"not modified\" response confirms the document without a new revision")
    func notModified() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 1], etag: "\"a\"")
            _ = try await first.value
            let second = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answerNotModified()
            let outcome = try await second.value
            #expect(outcome.notModified)
            #expect(outcome.commit.revision == 1)
            #expect(store.publication.status.counters.notModified == 1)
        }
    }

    @Test("an equal document with a new validator keeps the revision, and the validator is stored")
    func sameDocument() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            for etag in ["\"a\"", "\"b\""] {
                let refresh = Task.immediate { try await refresher.refreshIfNeeded() }
                await source.nextRequest().answer(["v": 1], etag: etag)
                _ = try await refresh.value
            }
            #expect(store.revision == 1)
            let third = Task.immediate { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            #expect(request.validator == Validator(etag: "\"b\""))
            request.answerNotModified()
            _ = try await third.value
        }
    }

    @Test("a pushed document with an older version is rejected unless forced")
    func pushes() async throws {
        try await StoreFixture().withFlow { (store, refresher, _) async throws in
            func push(_ value: JSONValue, _ version: String, force: Bool = false) async throws {
                _ = try await refresher.applyPushedConfig(
                    SourceDocument(value: value, version: UpstreamVersion(version)), force: force)
            }
            try await push(["v": 2], "2.0")
            let error = await #expect(throws: ConfigError.self) { try await push(["v": 1], "1.9") }
            #expect(error?.code == .rejected)
            try await push(["v": 1], "1.9", force: true)
            #expect(store.value == ["v": 1])
            #expect(store.revision == 2)
        }
    }
}

@Suite("Upstream versions")
struct UpstreamVersionTests {
    @Test(
        "versions are compared part by part, as numbers",
        arguments: [
            ("1", "2"), ("9", "10"), ("1.9", "1.10"), ("v1.2.3", "v1.2.4"), ("1", "1.1"), ("2026-01-31", "2026-02-01"),
            ("99999999999999999999", "100000000000000000000"), ("007", "8"),
        ])
    func older(old: String, new: String) {
        #expect(UpstreamVersion(old).isOlder(than: UpstreamVersion(new)))
        #expect(!UpstreamVersion(new).isOlder(than: UpstreamVersion(old)))
    }

    @Test(
        "of two versions that are equal or have no order, neither is older",
        arguments: [("1", "1"), ("1.0", "1"), ("abc", "abd"), ("3f2a", "12"), ("", "1"), ("1..2", "1.3")])
    func notOlder(left: String, right: String) {
        #expect(!UpstreamVersion(left).isOlder(than: UpstreamVersion(right)))
        #expect(!UpstreamVersion(right).isOlder(than: UpstreamVersion(left)))
    }

    @Test("versions of different series have no order")
    func series() {
        let (old, new) = (UpstreamVersion("1", series: "a"), UpstreamVersion("2", series: "a"))
        #expect(old.isOlder(than: new))
        #expect(!UpstreamVersion("1", series: "b").isOlder(than: new))
        // A version without a series is compared with any other.
        #expect(UpstreamVersion("1").isOlder(than: new))
        #expect(old.isOlder(than: UpstreamVersion("2")))
    }
}
