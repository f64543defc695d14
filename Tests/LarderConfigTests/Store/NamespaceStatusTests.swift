import LarderConfigSources
import LarderJSON
import LarderPlatform
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Status of a namespace")
struct NamespaceStatusTests {
    @Test("a namespace awaits its source until the first document, even if it has overrides")
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

    @Test("while the source fails, the namespace is stale for staleIfError, then failed, and its document stays")
    func staleIfError() async throws {
        let now = Mutex(1_000_000)
        var fixture = StoreFixture()
        fixture.staleIfError = .seconds(10)
        fixture.wallClock = WallClock { now.withLock { $0 } }
        try await fixture.withFlow { (store, refresher, source) async throws in
            func poll(after seconds: Int, _ answer: (ScriptedSource.Request) -> Void) async -> Freshness {
                now.withLock { $0 += seconds * 1000 }
                let refresh = Task { try await refresher.refreshIfNeeded() }
                await answer(source.nextRequest())
                _ = try? await refresh.value
                return store.publication.current.freshness
            }
            #expect(await poll(after: 0) { $0.answer(["v": 1]) } == .fresh)
            #expect(
                await poll(after: 60) { $0.answerNotModified() } == .fresh, "the time counts from the last confirmation"
            )
            #expect(await poll(after: 10) { $0.fail() } == .stale)
            #expect(await poll(after: 1) { $0.fail() } == .failed)
            #expect(store.value == ["v": 1])
            #expect(!store.publication.current.awaitsSource)
            #expect(await poll(after: 1) { $0.answerNotModified() } == .fresh)
            #expect(await poll(after: 1) { $0.fail() } == .stale)
        }
    }

    /// Runs `body` in a namespace that was restarted with a remote document.
    private func afterRestart(
        _ fixture: StoreFixture = StoreFixture(),
        _ body: (ConfigStore, ConfigRefreshService, ScriptedSource) async throws -> Void
    ) async throws {
        let first = try await fixture.open()
        _ = try await first.replaceRemote(
            SourceDocument(value: ["v": 1]), origin: "scripted:source", force: false, isPush: false)
        await first.stop()
        try await fixture.withFlow { (store, refresher, source) async throws in
            #expect(store.publication.current.freshness == .refreshing)
            #expect(!store.publication.current.awaitsSource)
            try await body(store, refresher, source)
        }
    }

    @Test("after a start with a document, a namespace is refreshing until the first attempt succeeds or fails")
    func due() async throws {
        for fails in [false, true] {
            try await afterRestart { (store, refresher, source) async throws in
                let since = store.publication.status.since
                let cancelled = Task { try await refresher.refreshIfNeeded() }
                _ = await source.nextRequest()
                cancelled.cancel()
                _ = try? await cancelled.value
                #expect(store.publication.current.freshness == .refreshing)
                let refresh = Task { try await refresher.refreshIfNeeded() }
                let request = await source.nextRequest()
                #expect(store.publication.status.since == since)
                if fails { request.fail() } else { request.answer(["v": 2]) }
                _ = try? await refresh.value
                #expect(store.publication.current.freshness == (fails ? .stale : .fresh))
            }
        }
    }

    @Test("after a start, a failed first attempt makes a document failed that is older than staleIfError")
    func dueStaleIfError() async throws {
        let now = Mutex(1_000_000)
        var fixture = StoreFixture()
        fixture.staleIfError = .seconds(10)
        fixture.wallClock = WallClock { now.withLock { $0 } }
        try await afterRestart(fixture) { (store, refresher, source) async throws in
            now.withLock { $0 += 11_000 }
            let refresh = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().fail()
            _ = try? await refresh.value
            #expect(store.publication.current.freshness == .failed)
        }
    }

    @Test("after a start, a push makes the namespace fresh, and files that cannot be read make it stale")
    func dueOtherChanges() async throws {
        try await afterRestart { (store, refresher, _) async throws in
            await store.filesFailed(.host, "it cannot be read")
            #expect(store.publication.current.freshness == .stale)
            _ = try await store.replaceFiles(.host, with: [:])
            #expect(store.publication.current.freshness == .refreshing)
            _ = try await refresher.applyPushedConfig(SourceDocument(value: ["v": 2]), force: false)
            #expect(store.publication.current.freshness == .fresh)
        }
    }

    @Test("a source that returns documents but cannot keep its connection leaves the namespace stale, with the reason")
    func unconnected() async throws {
        try await StoreFixture().withFlow(ScriptedSource(reconnects: true)) { (store, refresher, source) async throws in
            source.connection.withLock { $0 = .failing(ConfigError(.upstreamFailed, "the stream is down")) }
            async let first = refresher.refreshIfNeeded()
            await source.nextRequest().answer(["v": 1])
            #expect(try await first.freshness == .stale)
            #expect(store.value == ["v": 1])
            #expect(store.publication.status.lastError?.error.message == "the stream is down")
            source.connection.withLock { $0 = .working }
            async let second = refresher.refreshIfNeeded()
            await source.nextRequest().answerNotModified()
            #expect(try await second.freshness == .fresh)
            #expect(store.publication.status.lastError == nil)
        }
    }

    @Test("while the first connection of a source is being opened, its namespace is refreshing, also after a push")
    func connecting() async throws {
        try await StoreFixture().withFlow(ScriptedSource(reconnects: true)) { (store, refresher, source) async throws in
            source.connection.withLock { $0 = .connecting }
            async let first = refresher.refreshIfNeeded()
            await source.nextRequest().answer(["v": 1])
            #expect(try await first.freshness == .refreshing)
            #expect(store.value == ["v": 1])
            _ = try await refresher.applyPushedConfig(SourceDocument(value: ["v": 2]), force: false)
            #expect(store.publication.current.freshness == .refreshing)
            source.connection.withLock { $0 = .working }
            #expect(try await refresher.apply(SourceDelivery(.success(.notModified))).freshness == .fresh)
        }
    }

    @Test("a push does not make a namespace fresh whose source cannot keep its connection")
    func unconnectedPush() async throws {
        try await StoreFixture().withFlow(ScriptedSource(reconnects: true)) { (store, refresher, source) async throws in
            source.connection.withLock { $0 = .failing(ConfigError(.upstreamFailed, "the stream is down")) }
            _ = try? await refresher.apply(
                SourceDelivery(.failure(ConfigError(.upstreamFailed, "the stream is down"))))
            _ = try await refresher.applyPushedConfig(SourceDocument(value: ["v": 2]), force: false)
            #expect(store.publication.current.freshness == .stale)
        }
    }

    @Test("a poll that does not change the freshness does not change `since`")
    func since() async throws {
        let now = Mutex(0)
        var fixture = StoreFixture()
        fixture.wallClock = WallClock { now.withLock { $0 } }
        try await fixture.withFlow { (store, refresher, source) async throws in
            func attempt(at time: Int, _ answer: (ScriptedSource.Request) -> Void) async -> PublishedStatus {
                now.withLock { $0 = time }
                let refresh = Task { try await refresher.refreshIfNeeded() }
                let request = await source.nextRequest()
                #expect(store.publication.status.freshness == .refreshing)
                #expect(store.publication.status.since == time)
                answer(request)
                _ = try? await refresh.value
                return store.publication.status
            }
            #expect(await attempt(at: 1_000) { $0.answer(["v": 1]) }.since == 1_000)
            #expect(await attempt(at: 2_000) { $0.answerNotModified() }.since == 1_000)
            for time in [3_000, 4_000, 5_000] {
                let status = await attempt(at: time) { $0.fail() }
                #expect(status.freshness == .stale)
                #expect(status.since == 3_000)
                #expect(status.source?.lastSuccessAt == 2_000)
            }
            #expect(await attempt(at: 6_000) { $0.answerNotModified() }.since == 6_000)
        }
    }

    @Test("the status has the reason of rejected content, of the schema first, in at most 200 characters")
    func rejection() {
        func rejection(_ status: NamespaceStatus) -> String? { PublishedStatus(status, holding: Layers()).rejection }
        var status = NamespaceStatus(source: nil)
        #expect(rejection(status) == nil)
        status.rejected(nil, ConfigError(.rejected, "version 16 is older than 17"), now: 1)
        #expect(rejection(status) == "version 16 is older than 17")
        let problem = SchemaProblem(
            path: JSONPath(["limit"]), schemaLocation: "#", keyword: "type", message: "expected an integer",
            layer: .host)
        status.schema.rejection = RejectedChange(
            subject: .files(.host), change: .recheck, problems: [problem], at: 1)
        #expect(rejection(status) == "layer host: \(problem.text)")
        status.schema.rejection = nil
        status.rejected(nil, ConfigError(.rejected, String(repeating: "x", count: 999)), now: 1)
        #expect(rejection(status)?.count == 201)
    }

    @Test(
        "a failed connection for changes is reported from its first failure until it works, but not a rejected document"
    )
    func watchError() {
        var status = NamespaceStatus(source: .init("etcd", at: "http://origin"))
        func watchError() -> String? { PublishedStatus(status, holding: Layers()).source?.watchError }
        status.remoteAnswered(changed: true, now: 1_000)
        #expect(watchError() == nil)
        let denied = ConfigError(.upstreamFailed, "the watch was denied")
        status.follows(.failing(denied))
        status.failed(denied, documentSince: 1_000, now: 2_000)
        #expect(watchError() == "the watch was denied")
        status.follows(.failing(denied))
        status.remoteAnswered(changed: false, now: 3_000)
        #expect(watchError() == "the watch was denied")
        let rejected = ConfigError(.rejected, "no object")
        status.follows(.failing(rejected))
        status.failed(rejected, documentSince: 1_000, now: 4_000)
        #expect(watchError() == nil)
        status.follows(.working)
        status.remoteAnswered(changed: false, now: 5_000)
        #expect(watchError() == nil)
    }

    @Test("new settings keep the results of the same source, and of another source only the time of the last request")
    func continued() {
        typealias Source = NamespaceStatus.Source
        var status = NamespaceStatus(source: Source("http", at: "http://h/a", identity: "a"))
        status.refreshBegan(isLongPoll: false, now: 1)
        status.remoteAnswered(changed: true, now: 2)
        status.refreshBegan(isLongPoll: false, now: 3)
        status.follows(.failing(ConfigError(.upstreamFailed, "no stream")))
        status.nextAttempt(at: 9)
        status.failed(ConfigError(.upstreamFailed, "refused"), documentSince: 2, now: 4)
        func continued(_ source: Source?) -> PublishedStatus {
            let new = NamespaceStatus(source: source).continuing(status, layers: Layers(), now: 5)
            return PublishedStatus(new, holding: Layers())
        }
        let same = continued(Source("http", at: "http://h/b", identity: "a", staleIfError: .seconds(1)))
        #expect(same.freshness == .stale && same.since == 4)
        #expect(same.source?.location == "http://h/b" && same.source?.staleIfError == .seconds(1))
        #expect(same.source?.lastAttemptAt == 3 && same.source?.lastSuccessAt == 2 && same.confirmedAt == 1)
        #expect(same.source?.consecutiveFailures == 1 && same.source?.isHolding == true)
        #expect(same.source?.nextAttemptAt == nil && same.source?.following.failure?.message == "no stream")
        #expect(same.lastError?.error.message == "refused")
        let other = continued(Source("http", at: "http://h/a", identity: "b"))
        #expect(other.freshness == .initializing && other.since == 5)
        #expect(other.source?.lastAttemptAt == 3 && other.source?.lastSuccessAt == nil && other.confirmedAt == nil)
        #expect(other.source?.consecutiveFailures == 0 && other.lastError == nil)
        #expect(other.source?.following.failure == nil)
        let none = continued(nil)
        #expect(none.source == nil && none.freshness == .fresh && none.lastError == nil)
        #expect([same, other, none].allSatisfy { $0.counters.attempted == 2 && $0.counters.failed == 1 })
    }

    @Test("a change that does not concern the status publishes the same status with the new layers")
    func unchanged() async throws {
        try await StoreFixture().withFlow { (store, _, _) async throws in
            let before = store.publication.status
            _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
            let after = store.publication.status
            #expect(after.changes == before.changes)
            #expect(after.publishes == before.publishes + 1)
            #expect(!before.content(of: .override).isPresent && after.content(of: .override).isPresent)
            await store.nextAttempt(at: 7)
            let last = store.publication.status
            #expect(last.changes == before.changes + 1 && last.publishes == after.publishes)
            #expect(last.content(of: .override).isPresent && last.source?.nextAttemptAt == 7)
        }
    }

    @Test("a layer whose files are not watched reports the problem, and the freshness is unchanged")
    func watchProblem() async throws {
        try await StoreFixture().withFlow { (store, _, _) async throws in
            for layer in [ConfigLayer.defaults, .host, .remote] {
                await store.watching(layer, problem: "no watches left")
                let status = store.publication.status
                #expect(ConfigLayer.allCases.filter { status.problem(of: $0) == "no watches left" } == [layer])
                #expect(status.freshness == .initializing)
                await store.watching(layer, problem: nil)
                #expect(ConfigLayer.allCases.allSatisfy { store.publication.status.problem(of: $0) == nil })
            }
        }
    }

    @Test("the publication's version changes with the snapshot and at a refresh, but not with the next poll time")
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
