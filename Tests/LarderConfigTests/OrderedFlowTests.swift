import ConfigTestSupport
import LarderConfigSources
import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("The ordered flow of a namespace")
struct OrderedFlowTests {
    @Test("a second refresh is not sent before the first one is answered and applied")
    func refreshesDoNotOverlap() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            async let first = refresher.forceRefresh()
            let firstRequest = await source.nextRequest()
            let second = Task.immediate { try await refresher.forceRefresh() }
            await refresher.takeTurn()
            #expect(source.asked == 1, "the second request waits for the first answer")
            firstRequest.answer(["v": 1], version: "1")
            #expect(try await first.commit.revision == 1)
            await source.nextRequest().answer(["v": 2], version: "2")
            #expect(try await second.value.commit.revision == 2)
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a push that lands during a slow refresh is applied after it and stays")
    func pushDuringRefresh() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            async let refresh = refresher.refreshIfNeeded()
            let request = await source.nextRequest()
            let push = Task.immediate {
                try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            }
            await refresher.takeTurn()
            #expect(store.revision == 0)
            request.answer(["v": "old answer"])
            #expect(try await refresh.commit.revision == 1)
            #expect(try await push.value.commit.revision == 2)
            #expect(store.value == ["v": "pushed"])
        }
    }

    @Test("the same push is lost to a late answer where only an actor keeps the flows apart")
    func bareActor() async throws {
        // What the queue is there for: an actor is re-entrant at each await, so that the push overtakes the refresh,
        // whose older answer then wins.
        let source = ScriptedSource()
        let bare = BareActor()
        async let refresh: Void = bare.refresh(source)
        let request = await source.nextRequest()
        await bare.push(["v": "pushed"])
        request.answer(["v": "old answer"])
        try await refresh
        #expect(await bare.value == ["v": "old answer"])
    }

    @Test("the same push is lost under a global actor as well")
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

    @Test("plain refreshes that wait for the same answer share one request and its result")
    func sharing() async throws {
        try await StoreFixture().withFlow { (_, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let others = (0..<20).map { _ in Task.immediate { try await refresher.refreshIfNeeded() } }
            await refresher.takeTurn()
            request.answer(["v": 1])
            let outcome = try await first.value
            for other in others { #expect(try await other.value == outcome) }
            #expect(source.asked == 1)
        }
    }

    @Test("a refresh asked for after a push does not share the answer of the one before it")
    func noSharingAcrossAPush() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let push = Task.immediate {
                try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            }
            await refresher.takeTurn()
            let second = Task.immediate { try await refresher.refreshIfNeeded() }
            await refresher.takeTurn()
            request.answer(["v": 1])
            _ = try await first.value
            _ = try await push.value
            let later = await source.nextRequest()
            #expect(later.validator == nil, "a pushed document has no validator of the source's")
            later.answer(["v": 2])
            #expect(try await second.value.commit.revision == 3)
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a refresh after a change signal does not settle for an answer that was under way")
    func changeSignal() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let second = Task.immediate { try await refresher.refreshAfterChange() }
            await refresher.takeTurn()
            request.answer(["v": 1])
            _ = try await first.value
            let later = await source.nextRequest()
            #expect(request.occasion == .asked)
            #expect(later.occasion == .signalled)
            later.answer(["v": 2])
            _ = try await second.value
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a long poll gives way to a push and to a refresh, and leaves no trace")
    func longPoll() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.awaitChange() }
            let request = await source.nextRequest()
            #expect(request.occasion == .awaiting)
            let push = try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            #expect(push.commit.revision == 1)
            #expect(await #expect(throws: ConfigError.self) { try await first.value }?.code == .cancelled)
            request.answer(["v": "too late"])
            let second = Task { try await refresher.awaitChange() }
            _ = await source.nextRequest()
            let refresh = Task { try await refresher.refreshIfNeeded() }
            let asked = await source.nextRequest()
            #expect(asked.occasion == .asked)
            let third = Task.immediate { try await refresher.awaitChange() }
            await refresher.takeTurn()
            asked.answer(["v": "asked"])
            #expect(try await refresh.value.commit.revision == 2)
            _ = await #expect(throws: ConfigError.self) { try await second.value }
            await source.nextRequest().answer(["v": "awaited"])
            #expect(try await third.value.commit.revision == 3)
            #expect(source.cancelled == 2)
            #expect(store.publication.status.freshness == .fresh)
        }
    }

    @Test("a refresh behind a signalled change asks the source itself")
    func refreshBehindSignal() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let signalled = Task { try await refresher.refreshAfterChange() }
            let request = await source.nextRequest()
            let next = Task.immediate { try await refresher.refreshAfterChange() }
            await refresher.takeTurn()
            let refresh = Task.immediate { try await refresher.refreshIfNeeded() }
            await refresher.takeTurn()
            request.answer(["v": 1])
            _ = try await signalled.value
            await source.nextRequest().answer(["v": 2])
            _ = try await next.value
            let asked = await source.nextRequest()
            #expect(asked.occasion == .asked)
            asked.answer(["v": 3])
            _ = try await refresh.value
            #expect(store.value == ["v": 3])
        }
    }
}

@Suite("Cancelling a refresh")
struct CancellationTests {
    @Test("one waiter's cancellation does not fail the others")
    func oneOfTwo() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let leader = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let other = Task.immediate { try await refresher.refreshIfNeeded() }
            await refresher.takeTurn()
            leader.cancel()
            let error = await #expect(throws: ConfigError.self) { try await leader.value }
            #expect(error?.code == .cancelled)
            request.answer(["v": 1])
            #expect(try await other.value.commit.revision == 1)
            #expect(store.value == ["v": 1])
            #expect(source.cancelled == 0)
        }
    }

    @Test("when the last waiter leaves, the request is given up, nothing is written, and the next command runs")
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

    @Test("a command that is cancelled while it waits is never sent")
    func waiting() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            let push = Task.immediate {
                try await refresher.applyPushedConfig(SourceDocument(value: ["v": "cancelled"]), force: false)
            }
            await refresher.takeTurn()
            push.cancel()
            _ = await #expect(throws: ConfigError.self) { try await push.value }
            request.answer(["v": 1])
            _ = try await first.value
            #expect(store.value == ["v": 1])
            #expect(store.revision == 1)
        }
    }

    @Test("a push that is cancelled when it is too late is answered with what it did")
    func tooLate() async throws {
        let (files, gate) = (FaultyFileSystem(), DispatchGate())
        var fixture = StoreFixture()
        fixture.files = files
        try await fixture.withFlow { (store, refresher, _) async throws in
            files.blockJournalWrites(at: gate)
            let push = Task { try await refresher.applyPushedConfig(SourceDocument(value: ["v": 1]), force: false) }
            await gate.waitForArrival()
            push.cancel()
            await refresher.takeTurn()
            gate.open()
            #expect(try await push.value.commit.revision == 1)
            #expect(store.value == ["v": 1])
        }
    }

    @Test("when the flow stops, everybody who waits is told")
    func stop() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let source = ScriptedSource()
        let refresher = ConfigRefreshService(store: store, source: source, wallClock: fixture.wallClock)
        let flow = Task { await refresher.run() }
        let running = Task { try await refresher.refreshIfNeeded() }
        _ = await source.nextRequest()
        let waiting = Task.immediate { try await refresher.forceRefresh() }
        await refresher.takeTurn()
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
    /// Returns after all that was said to this actor before: an actor takes what has the same priority in the order in
    /// which it came, and a task that was started at once has said it when it gives way for the first time.
    func takeTurn() {}
}

/// A refresher as one would write it who believes that an actor is exclusive across an await.
private actor BareActor {
    var value: JSONValue = .emptyObject

    func refresh(_ source: ScriptedSource) async throws {
        guard case .document(let document) = try await source.fetch(ifChangedFrom: nil, on: .asked) else { return }
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
        guard case .document(let document) = try await source.fetch(ifChangedFrom: nil, on: .asked) else { return }
        value = document.value
    }

    func push(_ value: JSONValue) { self.value = value }
}
