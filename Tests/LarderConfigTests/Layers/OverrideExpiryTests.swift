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

@Suite("Expiry of overrides")
struct OverrideExpiryTests {
    private let fixture = ExpiryFixture()

    @Test("overrides expire in order, each at its time")
    func expiry() async throws {
        try await fixture.withStore { (store, values) async throws in
            _ = try await store.set(JSONPath(["late"]), to: 1, timeToLive: .seconds(20))
            _ = try await store.set(JSONPath(["early"]), to: 1, timeToLive: .seconds(10))
            await values.wait(for: ["late": 1, "early": 1])
            await fixture.advance(by: .seconds(10), whenTasksSleep: 2)
            #expect(await values.next() == ["late": 1])
            await fixture.advance(by: .seconds(10), whenTasksSleep: 1)
            #expect(await values.next() == .emptyObject)
        }
    }

    @Test("`set` reports when the override expires, and whether the replaced override had another expiry")
    func lifetimes() async throws {
        try await fixture.withStore { (store, _) async throws in
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

    @Test("overrides expire after their lifetime even if the clock is set back a day, and stay expired")
    func timeOfDaySetBack() async throws {
        let day = 86_400_000
        fixture.setTimeOfDay(forward: 100 * day)
        try await fixture.withStore { (store, values) async throws in
            _ = try await store.set(JSONPath(["before"]), to: 1, timeToLive: .seconds(20))
            fixture.setTimeOfDay(forward: -day)
            _ = try await store.set(JSONPath(["after"]), to: 1, timeToLive: .seconds(10))
            await values.wait(for: ["before": 1, "after": 1])
            await fixture.advance(by: .seconds(10), whenTasksSleep: 2)
            #expect(await values.next() == ["before": 1])
            await fixture.advance(by: .seconds(10), whenTasksSleep: 1)
            #expect(await values.next() == .emptyObject)
        }
        try await fixture.withStore { (store, _) async throws in
            #expect(store.value == .emptyObject)
        }
    }

    @Test("an override that expires while the agent is down is removed at the next start")
    func expiryOverRestart() async throws {
        try await fixture.withStore { (store, _) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
        }
        await fixture.advance(by: .seconds(60), whenTasksSleep: 0)
        try await fixture.withStore { (store, values) async throws in
            await store.armExpiry()
            if store.value != .emptyObject { await values.wait(for: .emptyObject) }
            #expect(store.value == .emptyObject)
        }
    }

    @Test("an override that is set again gets the new lifetime, and does not delay the expiry of others")
    func renewal() async throws {
        try await fixture.withStore { (store, values) async throws in
            _ = try await store.set(JSONPath(["renewed"]), to: 1, timeToLive: .seconds(10))
            _ = try await store.set(JSONPath(["removed"]), to: 1, timeToLive: .seconds(15))
            _ = try await store.set(JSONPath(["renewed"]), to: 2, timeToLive: .seconds(30))
            _ = try await store.unset(JSONPath(["removed"]))
            await values.wait(for: ["renewed": 2])
            let revision = store.revision
            // The end of the first lifetime of "renewed" has no effect.
            await fixture.advance(by: .seconds(10), whenTasksSleep: 2)
            await fixture.clock.waitForSleepers(1)
            #expect(store.revision == revision)
            _ = try await store.set(JSONPath(["beside"]), to: 3, timeToLive: .seconds(10))
            await values.wait(for: ["renewed": 2, "beside": 3])
            await fixture.advance(by: .seconds(10), whenTasksSleep: 2)
            #expect(await values.next() == ["renewed": 2])
            await fixture.advance(by: .seconds(10), whenTasksSleep: 1)
            #expect(await values.next() == .emptyObject)
        }
    }

    @Test("while the disk fails, an expired override stays queued exactly once, and it is removed afterwards")
    func brokenDisk() async throws {
        try await fixture.withStore { (store, _) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
            await fixture.clock.waitForSleepers(2)
            // Only the time of day advances. The timer does not fire, so the override is not removed yet.
            fixture.setTimeOfDay(forward: 20_000)
            fixture.files.failReplacements(with: EIO)
            for _ in 0..<10 {
                await #expect(throws: ConfigError.self) { try await store.expireOverrides() }
                #expect(await store.expiry.count == 1)
            }
            #expect(store.value == ["a": 1])
            fixture.files.failReplacements(with: nil)
            try await store.expireOverrides()
            #expect(store.value == .emptyObject)
        }
    }

    @Test("a failed removal of expired overrides is retried after a minute, not at the next change")
    func oneRetry() async throws {
        try await fixture.withStore { (store, values) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
            await values.wait(for: ["a": 1])
            await fixture.clock.waitForSleepers(2)
            fixture.files.failReplacements(with: EIO)
            fixture.clock.advance(by: .seconds(10))
            while await store.expiry.retry == nil { await Task.yield() }
            let retry = ExpiryQueue.Moment(timeOfDay: 1_070_000, uptime: 70_000)
            // The store calls `armExpiry()` after every change of an override that expires.
            await store.armExpiry()
            #expect(await store.expiry.armedFor == retry)
            fixture.files.failReplacements(with: nil)
            fixture.clock.advance(by: .seconds(60))
            await values.wait(for: .emptyObject)
        }
    }

    @Test("an override does not wait for the retry of another one, whose removal then is tried again, too")
    func expiryBeforeRetry() async throws {
        try await fixture.withStore { (store, values) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
            await fixture.clock.waitForSleepers(2)
            fixture.files.failReplacements(with: EIO)
            fixture.clock.advance(by: .seconds(10))
            while await store.expiry.retry == nil { await Task.yield() }
            fixture.files.failReplacements(with: nil)
            _ = try await store.set(JSONPath(["b"]), to: 1, timeToLive: .seconds(1))
            await values.wait(for: ["a": 1, "b": 1])
            await store.armExpiry()
            #expect(await store.expiry.armedFor == ExpiryQueue.Moment(timeOfDay: 1_011_000, uptime: 11_000))
            fixture.clock.advance(by: .seconds(1))
            await values.wait(for: .emptyObject)
            #expect(await store.expiry.count == 0)
        }
    }

    @Test(
        "the next expiry is the earliest of the overrides that still exist, including those that could not be removed")
    func nextExpiry() {
        var layer = OverrideLayer()
        layer.set(OverrideEntry(path: ["first"], value: 1, setAt: 0, expiresAt: 2_000_000))
        layer.set(OverrideEntry(path: ["second"], value: 1, setAt: 0, expiresAt: 3_000_000))
        layer.set(OverrideEntry(path: ["lasting"], value: 1, setAt: 0))
        var expiry = OverrideExpiry(
            layer, StoreClocks(wallClock: WallClock { 1_000_000 }, clock: ManualClock()))
        var next = expiry.nextExpiry(in: layer)
        #expect(next == 2_000_000)
        _ = layer.unset(["first"])
        next = expiry.nextExpiry(in: layer)
        #expect(next == 3_000_000)
        let later = ExpiryQueue.Moment(timeOfDay: 4_000_000, uptime: 3_000_000)
        let expired = expiry.popExpired(at: later)
        next = expiry.nextExpiry(in: layer)
        #expect(next == nil)
        expiry.keep(expired)
        next = expiry.nextExpiry(in: layer)
        #expect(next == 3_000_000)
        _ = layer.unset(["second"])
        next = expiry.nextExpiry(in: layer)
        #expect(next == nil)
    }

    @Test("the expiry queue stays short even if one override is set repeatedly")
    func manyRenewals() async throws {
        try await fixture.withStore(durability: .relaxed) { (store, _) async throws in
            for number in 1...500 {
                let time = Duration.milliseconds(3_600_000 + number)
                _ = try await store.set(JSONPath(["again"]), to: .int(number), timeToLive: time)
                #expect(await store.expiry.count <= 66)
            }
        }
    }
}

/// A store whose clocks the test controls. The time of day begins at 1,000,000 ms since 1970.
private final class ExpiryFixture: Sendable {
    let clock = ManualClock()
    let files = FaultyFileSystem()
    private let timeOfDay = TimeOfDay()
    private let fixture = StoreFixture.local()

    private final class TimeOfDay: Sendable {
        let atClockStart = Atomic(1_000_000)
    }

    deinit { fixture.remove() }

    /// Calls `body` with the store and then stops the store.
    func withStore(
        durability: Durability = .full, _ body: (ConfigStore, inout PublishedValues) async throws -> Void
    ) async throws {
        var fixture = fixture
        fixture.durability = durability
        fixture.files = files
        fixture.clock = clock
        fixture.wallClock = WallClock { [clock, timeOfDay] in
            timeOfDay.atClockStart.load(ordering: .relaxed) + clock.now.offset.milliseconds
        }
        try await fixture.withStore { (store) async throws in
            var values = await PublishedValues(of: store)
            try await body(store, &values)
        }
    }

    /// Moves the time of day forward, or back if `milliseconds` is negative. The clock of the timers does not change.
    func setTimeOfDay(forward milliseconds: Int) {
        timeOfDay.atClockStart.add(milliseconds, ordering: .relaxed)
    }

    /// Advances the clock once `count` tasks sleep on it: the expiry timer and, after a change, the writer of
    /// generations.
    func advance(by duration: Duration, whenTasksSleep count: Int) async {
        await clock.waitForSleepers(count)
        clock.advance(by: duration)
    }
}

/// The values that a store publishes after ``init(of:)`` has returned.
private struct PublishedValues {
    private var publications: AsyncStream<ConfigSnapshot>.AsyncIterator

    init(of store: ConfigStore) async {
        publications = store.publication.snapshots().makeAsyncIterator()
        _ = await publications.next(isolation: #isolation)
    }

    mutating func next() async -> JSONValue? { await publications.next(isolation: #isolation)?.value }

    /// Waits until the value is published.
    mutating func wait(for value: JSONValue) async {
        while let published = await next(), published != value {}
    }
}
