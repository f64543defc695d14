import LarderHTTPSemantics
import LarderJSON
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources
@testable import LarderConfig

@Suite("Deliveries of a source")
struct DeliveryTests {
    private func document(_ value: JSONValue, version: String? = nil, etag: String? = nil) -> SourceDelivery {
        let document = SourceDocument(
            value: value, version: version.map(UpstreamVersion.init), validator: Validator(etag: etag))
        return SourceDelivery(.success(.document(document)))
    }

    /// Refreshes once, and returns after the response `{"v":0}` was applied.
    private func refresh(_ refresher: ConfigRefreshService, _ source: ScriptedSource) async throws {
        async let refresh = refresher.refreshIfNeeded()
        await source.nextRequest().answer(["v": 0], etag: "0")
        _ = try await refresh
    }

    @Test("a delivery is applied without a request, and neither it nor a confirmation makes the namespace refreshing")
    func state() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            try await refresh(refresher, source)
            // Each snapshot and each change of the freshness increments the version, and then cached replies are invalid.
            let version = store.publication.version
            let outcome = try await refresher.apply(document(["v": 1]))
            #expect(outcome.commit.revision == 2 && outcome.commit.changed && !outcome.notModified)
            #expect(store.value == ["v": 1])
            #expect(store.publication.version == version + 1)
            #expect(try await refresher.apply(SourceDelivery(.success(.notModified))).notModified)
            #expect(try await !refresher.apply(document(["v": 1])).commit.changed)
            #expect(store.publication.version == version + 1)
            #expect(store.publication.current.freshness == .fresh)
            #expect(source.requestCount == 1)
            let counters = store.publication.status.counters
            #expect(counters.attempted == 4 && counters.changed == 2 && counters.notModified == 2)
        }
    }

    @Test("a confirmation of a document that another one has replaced since causes a request")
    func replacedDocument() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            try await refresh(refresher, source)
            async let forced = refresher.forceRefresh()
            await source.nextRequest().answer(["v": 1], etag: "1")
            _ = try await forced
            let confirmation = SourceDelivery(.success(.notModified), validator: Validator(etag: "0"))
            async let confirmed = refresher.apply(confirmation)
            while source.requestCount == 2, store.publication.status.counters.notModified == 0 { await Task.yield() }
            try #require(source.requestCount == 3, "the earlier document is taken for the current one")
            let request = await source.nextRequest()
            #expect(request.validator?.etag == "1")
            request.answer(["v": 0], etag: "0")
            #expect(try await confirmed.commit.changed)
            #expect(store.value == ["v": 0])
            // A document that is still the current one is confirmed without a request.
            #expect(try await refresher.apply(confirmation).notModified)
            #expect(source.requestCount == 3)
        }
    }

    @Test("a delivered failure makes the namespace stale with the reason, and the next delivery makes it fresh")
    func failure() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            try await refresh(refresher, source)
            let error = ConfigError(.rejected, "the event is not JSON")
            await #expect(throws: error) { try await refresher.apply(SourceDelivery(.failure(error))) }
            #expect(store.publication.current.freshness == .stale)
            #expect(store.publication.status.lastError?.error == error)
            #expect(store.publication.status.rejected?.reason == "the event is not JSON")
            _ = try await refresher.apply(SourceDelivery(.success(.notModified)))
            #expect(store.publication.current.freshness == .fresh)
            #expect(store.publication.status.lastError == nil)
        }
    }

    /// A delivery that arrives during a request, and its expected effect.
    struct Race: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var isForced = false
        let response: String?
        let delivered: String?
        /// The published values.
        let values: [JSONValue]
    }

    private static let races = [
        Race(
            testDescription: "a newer version follows the response", response: "1", delivered: "2",
            values: ["response", "delivery"]),
        Race(testDescription: "an older version is dropped", response: "2", delivered: "1", values: ["response"]),
        Race(
            testDescription: "a response of unknown age is discarded and requested again", response: nil,
            delivered: nil, values: ["delivery", "second response"]),
        Race(
            testDescription: "a forced response is not discarded", isForced: true, response: nil, delivered: nil,
            values: ["response", "delivery"]),
        Race(
            testDescription: "a forced response may have an older version", isForced: true, response: "1",
            delivered: "2", values: ["response", "delivery"]),
    ]

    @Test("a delivery waits for the request that is running, and the newer document counts", arguments: races)
    func duringFetch(_ race: Race) async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let fetch = Task {
                try await race.isForced ? refresher.forceRefresh() : refresher.refreshIfNeeded()
            }
            let request = await source.nextRequest()
            let delivery = Task.immediate {
                try await refresher.apply(document(["v": "delivery"], version: race.delivered, etag: "d"))
            }
            await refresher.waitForEarlierCalls()
            #expect(store.revision == 0)
            request.answer(["v": "response"], version: race.response)
            if race.values.last == "second response" {
                let second = await source.nextRequest()
                #expect(second.validator?.etag == "d", "the delivery is applied before the second request")
                second.answer(["v": "second response"])
            }
            let fetched = try await fetch.value
            let delivered = try await delivery.value
            #expect(store.value == ["v": race.values.last ?? .null])
            #expect(store.revision == race.values.count)
            #expect(max(fetched.commit.revision, delivered.commit.revision) == store.revision)
            #expect(store.publication.status.rejected == nil, "a dropped delivery is not refused")
            #expect(store.publication.current.freshness == .fresh)
            for (index, value) in race.values.enumerated() {
                #expect(store.publication.recent(revision: index + 1)?.value == ["v": value])
            }
        }
    }

    @Test("a refresh that arrives before a delivery is applied is requested afterwards")
    func fetchDuringDelivery() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let source = ScriptedSource()
        let refresher = ConfigRefreshService(store: store, source: source, clock: fixture.clock)
        let delivery = Task.immediate { try await refresher.apply(document(["v": 1], etag: "1")) }
        let refresh = Task.immediate { try await refresher.refreshIfNeeded() }
        await refresher.waitForEarlierCalls()
        let flow = Task { await refresher.run() }
        let request = await source.nextRequest()
        #expect(request.validator?.etag == "1")
        #expect(store.value == ["v": 1])
        request.answer(["v": 2])
        #expect(try await delivery.value.commit.revision == 1)
        #expect(try await refresh.value.commit.revision == 2)
        flow.cancel()
        await flow.value
        await store.stop()
    }

    @Test("a delivery whose consumer is cancelled while it waits is not applied, nor one of a source that is replaced")
    func cancellation() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let refresh = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let first = Task.immediate { try await refresher.apply(document(["v": "cancelled"])) }
            await refresher.waitForEarlierCalls()
            first.cancel()
            await #expect(throws: ConfigError.self) { try await first.value }
            let second = Task.immediate { try await refresher.apply(document(["v": "replaced"])) }
            await refresher.waitForEarlierCalls()
            let other = ScriptedSource()
            await refresher.use(other)
            await #expect(throws: ConfigError.self) { try await second.value }
            request.answer(["v": "old"])
            await other.nextRequest().answer(["v": "new"])
            #expect(try await refresh.value.commit.revision == 1)
            #expect(store.value == ["v": "new"])
        }
    }

    @Test("a delivery interrupts a long poll, and is applied")
    func longPoll() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let poll = Task { try await refresher.awaitChange() }
            let request = await source.nextRequest()
            #expect(try await refresher.apply(document(["v": 1])).commit.revision == 1)
            #expect(await #expect(throws: ConfigError.self) { try await poll.value }?.code == .cancelled)
            request.answer(["v": "too late"])
            #expect(store.value == ["v": 1])
        }
    }

    @Test("a source that delivers faster than its documents are applied keeps one document, and the newest one counts")
    func bounded() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let newest = Mutex(0)
            let taken = Mutex(0)
            let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let documents = SourceDocuments(after: signals) {
                taken.withLock { $0 += 1 }
                let version = newest.withLock { $0 }
                return document(["v": .int(version)], version: "\(version)")
            }
            let refresh = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let following = Task { await refresher.follow(documents) }
            for version in 1...1000 {
                newest.withLock { $0 = version }
                signal.yield()
            }
            request.answer(["v": 0], version: "0")
            _ = try await refresh.value
            for await snapshot in store.publication.snapshots() where snapshot.value == ["v": 1000] { break }
            #expect(taken.withLock { $0 } <= 2, "one delivery waits, and the source keeps only the newest document")
            #expect(store.revision <= 3)
            following.cancel()
            await following.value
        }
    }
}
