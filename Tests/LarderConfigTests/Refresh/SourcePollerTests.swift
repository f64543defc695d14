import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Source poller")
struct SourcePollerTests {
    /// The outcome of a poll.
    private enum Step {
        case answer
        case fail(retryAfter: Duration?)
        /// A refresh by a client succeeds between two failed polls. The second failure then counts as a first failure.
        case failAfterSuccess
    }

    @Test("a refresh by a client does not wait for the splay of the first fetch")
    func refreshBeforeFirstFetch() async throws {
        let clock = ManualClock()
        let wallClock = WallClock { 1_700_000_000_000 + clock.now.offset.milliseconds }
        let schedule = PollSchedule(interval: .seconds(60), seed: "a", firstFetchWindow: .seconds(60))
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let poller = SourcePoller(
                source: source, refresher: refresher, store: store, schedule: schedule, clock: clock,
                wallClock: wallClock, generator: SeededGenerator(seed: 1))
            let polling = Task { await poller.run(after: .started(holding: false)) }
            await clock.waitForSleepers(1)
            #expect(clock.nextDeadline == clock.now.advanced(by: schedule.splay(within: .seconds(60))))
            async let refresh = refresher.refreshIfNeeded()
            await source.nextRequest().answer(["v": 1])
            _ = try await refresh
            polling.cancel()
            await polling.value
        }
    }

    @Test("the poller waits as long as PollPlan computes, at the start, during an outage and after it")
    func followsThePlan() async throws {
        let seed = SeededGenerator.randomSeed
        let clock = ManualClock()
        let wallClock = WallClock { 1_700_000_000_000 + clock.now.offset.milliseconds }
        let schedule = PollSchedule(interval: .seconds(60), seed: "a")
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let poller = SourcePoller(
                source: source, refresher: refresher, store: store, schedule: schedule, clock: clock,
                wallClock: wallClock, generator: SeededGenerator(seed: seed))
            let polling = Task { await poller.run(after: .started(holding: false)) }
            var (plan, generator) = (PollPlan(schedule), SeededGenerator(seed: seed))
            #expect(plan.delay(after: .started(holding: false), at: .zero, using: &generator) == .zero)
            var isHolding = false
            let failures = [Step](repeating: .fail(retryAfter: nil), count: 3)
            let steps =
                failures + [.answer, .answer] + failures + [.fail(retryAfter: .seconds(90)), .failAfterSuccess]
                + failures
            for step in steps {
                let request = await source.nextRequest()
                let event: PollPlan.Event
                switch step {
                case .answer:
                    isHolding = true
                    request.answer(["v": 1])
                    event = .answered
                case .fail(let retryAfter):
                    request.fail(retryAfter: retryAfter)
                    event = .failed(holding: isHolding, retryAfter: retryAfter)
                case .failAfterSuccess:
                    request.fail()
                    event = .failed(holding: true, retryAfter: nil)
                    let delay = plan.delay(after: event, at: .milliseconds(wallClock.now), using: &generator)
                    await clock.waitForSleepers(1)
                    async let refresh = refresher.refreshIfNeeded()
                    await source.nextRequest().answer(["v": 2])
                    _ = try await refresh
                    clock.advance(by: delay)
                    await source.nextRequest().fail()
                    plan.forgetFailures()
                }
                let expected = plan.delay(after: event, at: .milliseconds(wallClock.now), using: &generator)
                await clock.waitForSleepers(1)
                #expect(clock.nextDeadline == clock.now.advanced(by: expected), "after \(step); seed \(seed)")
                #expect(store.publication.status.source?.nextAttemptAt == wallClock.now + expected.milliseconds)
                clock.advance(by: expected)
            }
            polling.cancel()
            await polling.value
        }
    }
}
