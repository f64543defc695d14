import ConfigTestSupport
import Glibc
import LarderEncoding
import LarderJSON
import LarderPlatform
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

/// By how much the time of day was set back.
private final class SetBack: Sendable {
    let milliseconds = Atomic(0)
}

@Suite("Overrides that end by themselves")
struct OverrideExpiryTests {
    @Test("an override ends by itself at its time, and the next one after it")
    func expiry() async throws {
        let clock = ManualClock()
        var fixture = StoreFixture.local()
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            var changes = store.publication.follow().makeAsyncIterator()
            _ = await changes.next()
            _ = try await store.set(JSONPath(["late"]), to: 1, timeToLive: .seconds(20))
            _ = try await store.set(JSONPath(["early"]), to: 1, timeToLive: .seconds(10))
            while await changes.next()?.snapshot.value != ["late": 1, "early": 1] {}
            // One sleeps for the expiry, one for the write behind.
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(10))
            #expect(await changes.next()?.snapshot.value == ["late": 1])
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(10))
            #expect(await changes.next()?.snapshot.value == .emptyObject)
        }
    }

    @Test("a set reports when the override ends, and whether that differs from the override it replaces")
    func lifetimes() async throws {
        var fixture = StoreFixture.local()
        fixture.wallClock = WallClock { 1_000_000 }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            func set(_ path: [String], _ value: JSONValue, _ timeToLive: Duration?) async throws -> CommitOutcome {
                try await store.set(JSONPath(path), to: value, timeToLive: timeToLive)
            }
            let steps: [(seconds: Int?, expiresAt: Int?, lifetimeChanged: Bool)] = [
                (nil, nil, false), (10, 1_010_000, true), (20, 1_020_000, true), (20, 1_020_000, false),
                (nil, nil, true),
                (nil, nil, false),
            ]
            for (number, step) in steps.enumerated() {
                let commit = try await set(["a"], 1, step.seconds.map { .seconds($0) })
                #expect(commit.changed == (number == 0))
                #expect(commit.lifetime?.expiresAt == step.expiresAt)
                #expect(commit.lifetime?.changed == step.lifetimeChanged)
            }
            #expect(try await set(["o", "x"], 1, .seconds(10)).lifetime?.changed == false)
            #expect(try await set(["o"], ["x": 1], nil).lifetime?.changed == false)
            #expect(try await store.unset(JSONPath(["a"])).lifetime == nil)
        }
    }

    @Test("an override ends after its time also where the clock is set back a day meanwhile, and stays ended")
    func expiryWhileClockGoesBack() async throws {
        let clock = ManualClock()
        let day = 86_400_000
        let setBack = SetBack()
        var fixture = StoreFixture.local()
        fixture.clock = clock
        fixture.wallClock = WallClock {
            100 * day + clock.now.offset.milliseconds - setBack.milliseconds.load(ordering: .relaxed)
        }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            var changes = store.publication.follow().makeAsyncIterator()
            _ = await changes.next()
            _ = try await store.set(JSONPath(["before"]), to: 1, timeToLive: .seconds(20))
            setBack.milliseconds.store(day, ordering: .relaxed)
            _ = try await store.set(JSONPath(["after"]), to: 1, timeToLive: .seconds(10))
            while await changes.next()?.snapshot.value != ["before": 1, "after": 1] {}
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(10))
            #expect(await changes.next()?.snapshot.value == ["before": 1])
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(10))
            #expect(await changes.next()?.snapshot.value == .emptyObject)
        }
        try await fixture.withStore { (store) async throws in
            #expect(store.value == .emptyObject)
        }
    }

    @Test("an override that ended while the agent was down is gone at the next start")
    func expiryOverRestart() async throws {
        let clock = ManualClock()
        var fixture = StoreFixture.local()
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
        }
        clock.advance(by: .seconds(60))
        try await fixture.withStore { (store) async throws in
            var changes = store.publication.follow().makeAsyncIterator()
            await store.armExpiry()
            while let current = await changes.next(), current.snapshot.value != .emptyObject {}
            #expect(store.value == .emptyObject)
        }
    }

    @Test("an override that is set again before its end lasts as long as it was set for last, and others end beside it")
    func renewal() async throws {
        let clock = ManualClock()
        var fixture = StoreFixture.local()
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            var changes = store.publication.follow().makeAsyncIterator()
            _ = await changes.next()
            _ = try await store.set(JSONPath(["renewed"]), to: 1, timeToLive: .seconds(10))
            _ = try await store.set(JSONPath(["removed"]), to: 1, timeToLive: .seconds(15))
            _ = try await store.set(JSONPath(["renewed"]), to: 2, timeToLive: .seconds(30))
            _ = try await store.unset(JSONPath(["removed"]))
            while await changes.next()?.snapshot.value != ["renewed": 2] {}
            let revision = store.revision
            await clock.waitForSleepers(2)
            // Nobody has to end now: what was waited for was set again.
            clock.advance(by: .seconds(10))
            await clock.waitForSleepers(1)
            #expect(store.revision == revision)
            _ = try await store.set(JSONPath(["beside"]), to: 3, timeToLive: .seconds(10))
            while await changes.next()?.snapshot.value != ["renewed": 2, "beside": 3] {}
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(10))
            #expect(await changes.next()?.snapshot.value == ["renewed": 2])
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(10))
            #expect(await changes.next()?.snapshot.value == .emptyObject)
        }
    }

    @Test("an override that cannot be ended on a broken disk is queued once, and ends when the disk works again")
    func brokenDisk() async throws {
        let files = FaultyFileSystem()
        let setBack = SetBack()
        var fixture = StoreFixture.local()
        fixture.files = files
        // This clock stands still, so that the timer does not end the override itself.
        let clock = ManualClock()
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_000_000 - setBack.milliseconds.load(ordering: .relaxed) }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
            // The timer and the writer of generations.
            await clock.waitForSleepers(2)
            setBack.milliseconds.store(-20_000, ordering: .relaxed)
            files.failReplacements(with: EIO)
            for _ in 0..<10 {
                await #expect(throws: ConfigError.self) { try await store.expireOverrides() }
                #expect(await store.expiry.count == 1)
            }
            #expect(store.value == ["a": 1])
            files.failReplacements(with: nil)
            try await store.expireOverrides()
            #expect(store.value == .emptyObject)
        }
    }

    @Test("a failed removal of expired overrides is tried again after a minute, not at the next change")
    func oneRetry() async throws {
        let files = FaultyFileSystem()
        let clock = ManualClock()
        var fixture = StoreFixture.local()
        fixture.files = files
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            var changes = store.publication.follow().makeAsyncIterator()
            _ = await changes.next()
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
            while await changes.next()?.snapshot.value != ["a": 1] {}
            // The timer and the writer of generations.
            await clock.waitForSleepers(2)
            files.failReplacements(with: EIO)
            clock.advance(by: .seconds(10))
            while await store.expiry.retry == nil { await Task.yield() }
            let retry = ExpiryQueue.Moment(timeOfDay: 1_070_000, uptime: 70_000)
            // As every change of an override with a lifetime does.
            await store.armExpiry()
            #expect(await store.expiry.armedFor == retry)
            files.failReplacements(with: nil)
            clock.advance(by: .seconds(60))
            while await changes.next()?.snapshot.value != .emptyObject {}
        }
    }

    @Test("of an override that is set again and again no more is kept than of a few")
    func manyRenewals() async throws {
        let clock = ManualClock()
        var fixture = StoreFixture.local()
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        fixture.durability = .relaxed
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            for number in 1...500 {
                let time = Duration.milliseconds(3_600_000 + number)
                _ = try await store.set(JSONPath(["again"]), to: .int(number), timeToLive: time)
                let kept = await store.expiry.count
                #expect(kept <= 66)
            }
        }
    }
}
