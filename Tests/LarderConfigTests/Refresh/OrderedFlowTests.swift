import ConfigTestSupport
import LarderConfigSources
import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Order of refreshes and pushes")
struct OrderedFlowTests {
    @Test("the request of a second refresh is sent only after the response to the first one is applied")
    func refreshesDoNotOverlap() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            async let first = refresher.forceRefresh()
            let firstRequest = await source.nextRequest()
            let second = Task.immediate { try await refresher.forceRefresh() }
            await refresher.waitForEarlierCalls()
            #expect(source.requestCount == 1, "the second request waits for the first response")
            firstRequest.answer(["v": 1], version: "1")
            #expect(try await first.commit.revision == 1)
            await source.nextRequest().answer(["v": 2], version: "2")
            #expect(try await second.value.commit.revision == 2)
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a push during a slow refresh is applied after the refresh")
    func pushDuringRefresh() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            async let refresh = refresher.refreshIfNeeded()
            let request = await source.nextRequest()
            let push = Task.immediate {
                try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            }
            await refresher.waitForEarlierCalls()
            #expect(store.revision == 0)
            request.answer(["v": "old answer"])
            #expect(try await refresh.commit.revision == 1)
            #expect(try await push.value.commit.revision == 2)
            #expect(store.value == ["v": "pushed"])
        }
    }

    @Test("without a queue, an actor lets the response of an earlier refresh overwrite a push")
    func bareActor() async throws {
        // The reason for the queue: an actor is reentrant at each await, so the push overtakes the refresh, and the
        // older response wins.
        let source = ScriptedSource()
        let bare = BareActor()
        async let refresh: Void = bare.refresh(source)
        let request = await source.nextRequest()
        await bare.push(["v": "pushed"])
        request.answer(["v": "old answer"])
        try await refresh
        #expect(await bare.value == ["v": "old answer"])
    }

    @Test("without a queue, a global actor loses the push, too")
    func globalActor() async throws {
        let source = ScriptedSource()
        let bare = GloballyIsolated()
        async let refresh: Void = bare.refresh(source)
        let request = await source.nextRequest()
        await bare.push(["v": "pushed"])
        request.answer(["v": "old answer"])
        try await refresh
        #expect(await bare.value == ["v": "old answer"])
    }

    @Test("refreshes that arrive during a request share the request and its result")
    func sharing() async throws {
        try await StoreFixture().withFlow { (_, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let others = (0..<20).map { _ in Task.immediate { try await refresher.refreshIfNeeded() } }
            await refresher.waitForEarlierCalls()
            request.answer(["v": 1])
            let outcome = try await first.value
            for other in others { #expect(try await other.value == outcome) }
            #expect(source.requestCount == 1)
        }
    }

    @Test("a refresh after a push does not share the request before the push")
    func noSharingAcrossAPush() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let push = Task.immediate {
                try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            }
            await refresher.waitForEarlierCalls()
            let second = Task.immediate { try await refresher.refreshIfNeeded() }
            await refresher.waitForEarlierCalls()
            request.answer(["v": 1])
            _ = try await first.value
            _ = try await push.value
            let later = await source.nextRequest()
            #expect(later.validator == nil, "a pushed document has no validator of the source")
            later.answer(["v": 2])
            #expect(try await second.value.commit.revision == 3)
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a push or a refresh cancels a long poll, and a late response to the long poll has no effect")
    func longPoll() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.awaitChange() }
            let request = await source.nextRequest()
            #expect(request.reason == .longPoll)
            let push = try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            #expect(push.commit.revision == 1)
            #expect(await #expect(throws: ConfigError.self) { try await first.value }?.code == .cancelled)
            request.answer(["v": "too late"])
            let second = Task { try await refresher.awaitChange() }
            _ = await source.nextRequest()
            let refresh = Task { try await refresher.refreshIfNeeded() }
            let polled = await source.nextRequest()
            #expect(polled.reason == .requested)
            let third = Task.immediate { try await refresher.awaitChange() }
            await refresher.waitForEarlierCalls()
            polled.answer(["v": "asked"])
            #expect(try await refresh.value.commit.revision == 2)
            _ = await #expect(throws: ConfigError.self) { try await second.value }
            await source.nextRequest().answer(["v": "awaited"])
            #expect(try await third.value.commit.revision == 3)
            #expect(source.cancelledCount == 2)
            #expect(store.publication.status.freshness == .fresh)
        }
    }
}

@Suite("Cancellation of refreshes")
struct CancellationTests {
    @Test("cancelling one caller does not affect the callers that share its request")
    func oneOfTwo() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let leader = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let other = Task.immediate { try await refresher.refreshIfNeeded() }
            await refresher.waitForEarlierCalls()
            leader.cancel()
            let error = await #expect(throws: ConfigError.self) { try await leader.value }
            #expect(error?.code == .cancelled)
            request.answer(["v": 1])
            #expect(try await other.value.commit.revision == 1)
            #expect(store.value == ["v": 1])
            #expect(source.cancelledCount == 0)
        }
    }

    @Test("cancelling the last caller cancels the request, and the next command runs")
    func last() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let only = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            only.cancel()
            _ = await #expect(throws: ConfigError.self) { try await only.value }
            request.answer(["v": "too late"])
            let next = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 2])
            #expect(try await next.value.commit.revision == 1)
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a command that is cancelled while it waits does not run")
    func waiting() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let push = Task.immediate {
                try await refresher.applyPushedConfig(SourceDocument(value: ["v": "cancelled"]), force: false)
            }
            await refresher.waitForEarlierCalls()
            push.cancel()
            _ = await #expect(throws: ConfigError.self) { try await push.value }
            request.answer(["v": 1])
            _ = try await first.value
            #expect(store.value == ["v": 1])
            #expect(store.revision == 1)
        }
    }

    @Test("a push that is cancelled during its disk write completes and returns its result")
    func tooLate() async throws {
        let (files, gate) = (FaultyFileSystem(), DispatchGate())
        var fixture = StoreFixture()
        fixture.files = files
        try await fixture.withFlow { (store, refresher, _) async throws in
            files.blockJournalWrites(at: gate)
            let push = Task { try await refresher.applyPushedConfig(SourceDocument(value: ["v": 1]), force: false) }
            await gate.waitForArrival()
            push.cancel()
            await refresher.waitForEarlierCalls()
            gate.open()
            #expect(try await push.value.commit.revision == 1)
            #expect(store.value == ["v": 1])
        }
    }

    @Test("requests are counted by their duration, but long polls are not")
    func durations() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let (source, durations) = (ScriptedSource(longPollWait: .seconds(60)), RequestDurations())
        let refresher = ConfigRefreshService(
            store: store, source: source, clock: fixture.clock, durations: durations)
        let flow = Task { await refresher.run() }
        async let refresh = refresher.refreshIfNeeded()
        await source.nextRequest().answer(["v": 1])
        _ = try await refresh
        #expect(durations.counts.reduce(0, +) == 1)
        async let failure: ConfigRefreshService.Outcome? = try? refresher.refreshIfNeeded()
        await source.nextRequest().fail()
        #expect(await failure == nil)
        #expect(durations.counts.reduce(0, +) == 2)
        async let wait = refresher.awaitChange()
        await source.nextRequest().answerNotModified()
        _ = try await wait
        #expect(durations.counts.reduce(0, +) == 2)
        flow.cancel()
        await flow.value
        await store.stop()
    }

    @Test("a duration is in the first class whose bound it does not exceed")
    func classes() {
        let durations = RequestDurations()
        for milliseconds in [0, 10, 11, 30_000, 30_001] { durations.add(.milliseconds(milliseconds)) }
        #expect(durations.counts == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
        #expect(durations.counts.count == RequestDurations.boundsMilliseconds.count + 1)
        #expect(durations.totalMilliseconds == 60_022)
    }

    @Test("all waiting callers get `stopped` when the service stops")
    func stop() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let source = ScriptedSource()
        let refresher = ConfigRefreshService(store: store, source: source, clock: fixture.clock)
        let flow = Task { await refresher.run() }
        let running = Task { try await refresher.refreshIfNeeded() }
        _ = await source.nextRequest()
        let waiting = Task.immediate { try await refresher.forceRefresh() }
        await refresher.waitForEarlierCalls()
        flow.cancel()
        await flow.value
        for task in [running, waiting] {
            let error = await #expect(throws: ConfigError.self) { try await task.value }
            #expect(error?.code == .stopped)
        }
        let late = await #expect(throws: ConfigError.self) { try await refresher.refreshIfNeeded() }
        #expect(late?.code == .stopped)
        await store.stop()
    }
}

extension ConfigRefreshService {
    /// Returns after all calls that were made before this one. An actor runs calls of equal priority in order, and
    /// `Task.immediate` returns only after its task has made its call.
    func waitForEarlierCalls() {}
}

/// A refresher that wrongly assumes that an actor is exclusive across an await.
private actor BareActor {
    var value: JSONValue = .emptyObject

    func refresh(_ source: ScriptedSource) async throws {
        guard case .document(let document) = try await source.fetch(ifChangedFrom: nil, reason: .requested) else {
            return
        }
        value = document.value
    }

    func push(_ value: JSONValue) { self.value = value }
}

@globalActor
private actor RefreshActor {
    static let shared = RefreshActor()
}

@RefreshActor
private final class GloballyIsolated {
    var value: JSONValue = .emptyObject

    func refresh(_ source: ScriptedSource) async throws {
        guard case .document(let document) = try await source.fetch(ifChangedFrom: nil, reason: .requested) else {
            return
        }
        value = document.value
    }

    func push(_ value: JSONValue) { self.value = value }
}
