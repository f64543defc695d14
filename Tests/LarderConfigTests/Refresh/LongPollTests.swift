import LarderConfigSources
import LarderJSON
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Long polls", .timeLimit(.minutes(15)))
struct LongPollTests {
    /// Runs a poller for a source with long polls of 60 s.
    private func withPoller(
        _ body: (ConfigStore, ConfigRefreshService, ScriptedSource, ManualClock) async throws -> Void
    ) async throws {
        let (source, clock) = (ScriptedSource(longPollWait: .seconds(60)), ManualClock())
        try await StoreFixture().withFlow(source) { (store, refresher, source) async throws in
            let poller = SourcePoller(
                source: source, refresher: refresher, store: store,
                schedule: Self.schedule, clock: clock,
                wallClock: WallClock { 0 }, generator: SeededGenerator(seed: 1))
            let task = Task { await poller.run(after: .started(holding: false)) }
            try await body(store, refresher, source, clock)
            task.cancel()
            await task.value
        }
    }

    @Test("the next long poll begins without a pause if the source waited before it responded")
    func longPolls() async throws {
        try await withPoller { (store, _, source, clock) async throws in
            let first = await source.nextRequest()
            #expect(first.reason == .requested)
            first.answer(["v": 0])
            for number in 1...3 {
                let request = await source.nextRequest()
                #expect(request.reason == .longPoll)
                #expect(
                    store.publication.current.freshness == .fresh,
                    "a long poll in progress does not change the freshness")
                clock.advance(by: .seconds(31))
                if number == 2 { request.answer(["v": 2]) } else { request.answerNotModified() }
            }
            _ = await source.nextRequest()
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a source that responds to long polls immediately is polled on schedule")
    func impatient() async throws {
        try await withPoller { (_, _, source, clock) async throws in
            await source.nextRequest().answer(["v": 0])
            await source.nextRequest().answerNotModified()
            await clock.waitForSleepers(1)
            #expect(source.requestCount == 2)
            clock.advance(by: .seconds(20))
            #expect(source.requestCount == 2, "the next poll is at least a quarter of the interval away")
            clock.advance(by: .seconds(180))
            #expect(await source.nextRequest().reason == .longPoll)
        }
    }

    @Test("a source that always has a new document is polled with pauses")
    func restless() async throws {
        try await withPoller { (_, _, source, clock) async throws in
            await source.nextRequest().answer(["v": 0])
            await source.nextRequest().answer(["v": 1])
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(1))
            #expect(await source.nextRequest().reason == .longPoll)
        }
    }

    private static let schedule = PollSchedule(interval: .seconds(100), seed: "test")
    /// The time in which an ordinary poll follows a long poll without a response.
    private static let confirmation = schedule.splay(within: .seconds(10))

    @Test("a long poll without a response is no failure; an ordinary poll and the next long poll follow")
    func waitEnded() async throws {
        try await withPoller { (store, _, source, clock) async throws in
            await source.nextRequest().answer(["v": 0])
            for _ in 0..<3 {
                let wait = await source.nextRequest()
                #expect(wait.reason == .longPoll)
                clock.advance(by: .seconds(31))
                wait.endWait()
                await clock.waitForSleepers(1)
                #expect(clock.nextDeadline == clock.now.advanced(by: Self.confirmation))
                let status = store.publication.status
                #expect(status.freshness == .fresh)
                #expect(status.lastError == nil && status.source?.consecutiveFailures == 0)
                clock.advance(by: Self.confirmation)
                let poll = await source.nextRequest()
                #expect(poll.reason == .requested)
                poll.answerNotModified()
            }
            #expect(await source.nextRequest().reason == .longPoll)
            #expect(store.publication.current.freshness == .fresh)
        }
    }

    @Test("if the poll after a long poll without a response fails, the namespace is stale")
    func failureAfterWait() async throws {
        try await withPoller { (store, _, source, clock) async throws in
            await source.nextRequest().answer(["v": 0])
            await source.nextRequest().endWait()
            await clock.waitForSleepers(1)
            clock.advance(by: Self.confirmation)
            await source.nextRequest().fail()
            await clock.waitForSleepers(1)
            #expect(store.publication.current.freshness == .stale)
            #expect(store.publication.status.source?.consecutiveFailures == 1)
        }
    }

    @Test("if long polls end at once without a response, the next one is sent on schedule")
    func waitEndedAtOnce() async throws {
        try await withPoller { (_, _, source, clock) async throws in
            await source.nextRequest().answer(["v": 0])
            await source.nextRequest().endWait()
            await clock.waitForSleepers(1)
            clock.advance(by: Self.confirmation)
            await source.nextRequest().answerNotModified()
            await clock.waitForSleepers(1)
            let next = try #require(clock.nextDeadline)
            #expect(clock.now.duration(to: next) >= .seconds(25), "a quarter of the interval")
            clock.advance(by: clock.now.duration(to: next))
            #expect(await source.nextRequest().reason == .longPoll)
        }
    }

    @Test("after a failure, an ordinary poll with backoff precedes the next long poll")
    func failure() async throws {
        try await withPoller { (store, _, source, clock) async throws in
            await source.nextRequest().answer(["v": 0])
            await source.nextRequest().fail()
            await clock.waitForSleepers(1)
            #expect(store.publication.current.freshness == .stale)
            clock.advance(by: .seconds(50))
            let request = await source.nextRequest()
            #expect(request.reason == .requested)
            request.answer(["v": 0])
            #expect(await source.nextRequest().reason == .longPoll)
        }
    }

    @Test("a push or a refresh interrupts a long poll, which begins again afterwards")
    func interruption() async throws {
        try await withPoller { (store, refresher, source, _) async throws in
            await source.nextRequest().answer(["v": 0])
            #expect(await source.nextRequest().reason == .longPoll)
            _ = try await refresher.applyPushedConfig(SourceDocument(value: ["v": "pushed"]), force: false)
            #expect(store.value == ["v": "pushed"])
            #expect(await source.nextRequest().reason == .longPoll)
            async let refresh = refresher.refreshIfNeeded()
            let request = await source.nextRequest()
            #expect(request.reason == .requested)
            request.answer(["v": 1])
            #expect(try await refresh.commit.changed)
            #expect(await source.nextRequest().reason == .longPoll)
            #expect(store.publication.status.source?.consecutiveFailures == 0)
        }
    }
}
