import LarderEncoding
import LarderJSON
import LarderPlatform
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Age of the last confirmation")
struct AnswerAgeTests {
    @Test("a refresh with a maximum age shares a running request that is recent enough, but not an older one")
    func sharing() async throws {
        var fixture = StoreFixture()
        let clock = ManualClock()
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        try await fixture.withFlow { (store, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            clock.advance(by: .seconds(5))
            let tolerant = (0..<20).map { _ in
                Task.immediate { try await refresher.refresh(begunWithin: .milliseconds(5000)) }
            }
            let strict = (0..<20).map { _ in
                Task.immediate { try await refresher.refresh(begunWithin: .milliseconds(4999)) }
            }
            await refresher.waitForEarlierCalls()
            request.answer(["v": 1])
            for task in tolerant { #expect(try await task.value.commit.revision == 1) }
            _ = try await first.value
            // A response confirms the document as of the time of its request.
            #expect(store.publication.status.confirmedAt == 1_000_000)
            #expect(store.publication.status.source?.lastSuccessAt == 1_005_000)
            await source.nextRequest().answer(["v": 2])
            for task in strict { #expect(try await task.value.commit.revision == 2) }
            #expect(source.requestCount == 2)
            #expect(store.publication.status.confirmedAt == 1_005_000)
        }
    }

    @Test("a call that is late causes no request if the one that ended before was recent enough")
    func late() async throws {
        let fixture = StoreFixture()
        try await fixture.withFlow { (_, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 1])
            _ = try await first.value
            #expect(try await refresher.refresh(begunWithin: .seconds(5)) { true }.commit.revision == 1)
            #expect(source.requestCount == 1)
        }
    }

    @Test("a running request is shared by its age, even if the clock was set back since it began")
    func clockSetBack() async throws {
        var fixture = StoreFixture()
        let clock = ManualClock()
        let timeOfDay = Mutex(10_000_000)
        fixture.clock = clock
        fixture.wallClock = WallClock { timeOfDay.withLock { $0 } }
        try await fixture.withFlow { (_, refresher, source) async throws in
            let first = Task { try await refresher.refreshIfNeeded() }
            let request = await source.nextRequest()
            clock.advance(by: .seconds(60))
            timeOfDay.withLock { $0 = 1_000_000 }
            let later = Task.immediate { try await refresher.refresh(begunWithin: .seconds(5)) }
            await refresher.waitForEarlierCalls()
            request.answer(["v": 1])
            #expect(try await first.value.commit.revision == 1)
            await source.nextRequest().answer(["v": 2])
            #expect(try await later.value.commit.revision == 2)
        }
    }

    @Test("the response to a long poll confirms the document as of the arrival of the response")
    func longPoll() async throws {
        var fixture = StoreFixture()
        let clock = ManualClock()
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        try await fixture.withFlow { (store, refresher, source) async throws in
            let poll = Task { try await refresher.awaitChange() }
            let request = await source.nextRequest()
            clock.advance(by: .seconds(30))
            request.answer(["v": 1])
            _ = try await poll.value
            #expect(store.publication.status.confirmedAt == 1_030_000)
        }
    }

    @Test("confirmedAt does not change at a failure, and after a restart is the time of the document's last change")
    func restart() async throws {
        var fixture = StoreFixture()
        let clock = ManualClock()
        fixture.clock = ManualClock()
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        defer { fixture.remove() }
        let first = try await fixture.open()
        #expect(first.publication.status.confirmedAt == nil)
        await first.refreshBegan(isLongPoll: false)
        let document = SourceDocument(value: ["v": 1])
        _ = try await first.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        clock.advance(by: .seconds(60))
        await first.refreshBegan(isLongPoll: false)
        await first.refreshConfirmed()
        #expect(first.publication.status.confirmedAt == 1_060_000)
        clock.advance(by: .seconds(60))
        await first.refreshBegan(isLongPoll: false)
        await first.refreshFailed(ConfigError(.upstreamFailed, "down"))
        #expect(first.publication.status.confirmedAt == 1_060_000)
        await first.stop()
        let second = try await fixture.open()
        #expect(second.publication.status.confirmedAt == 1_000_000)
        await second.stop()
    }
}
