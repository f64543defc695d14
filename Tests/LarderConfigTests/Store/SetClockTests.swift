import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderPlatform
import Synchronization
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Clock changes")
struct SetClockTests {
    private static let day = 86_400_000

    /// The offset of the time of day. A test sets it.
    private final class Offset: Sendable {
        let milliseconds = Atomic(0)
    }

    @Test(
        "values stay and revisions increase if the clock is set forward or back by a day, at run time or between starts",
        arguments: [-1, 1])
    func values(days: Int) async throws {
        let offset = Offset()
        var fixture = StoreFixture.local()
        fixture.wallClock = WallClock { 100 * Self.day + offset.milliseconds.load(ordering: .relaxed) }
        defer { fixture.remove() }
        var last = 0
        var number = 0

        func change(_ store: ConfigStore) async throws {
            for _ in 0..<3 {
                number += 1
                _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil)
                #expect(store.value == ["n": .int(number)])
                #expect(store.revision > last)
                last = store.revision
            }
            let history = await store.pastSnapshots().map(\.revision)
            #expect(history == history.sorted(by: >))
            #expect(Set(history).count == history.count)
        }

        func restart() async throws {
            try await fixture.withStore { (store) async throws in
                #expect(store.value == ["n": .int(number)])
                #expect(store.revision == last)
                try await change(store)
            }
        }

        try await fixture.withStore { (store) async throws in
            try await change(store)
            offset.milliseconds.store(days * Self.day, ordering: .relaxed)
            try await change(store)
        }
        try await restart()
        offset.milliseconds.store(0, ordering: .relaxed)
        try await restart()
        offset.milliseconds.store(days * Self.day, ordering: .relaxed)
        try await restart()
    }

    @Test("an override that is set after a clock change lasts for its lifetime", arguments: [-1, 1])
    func timeToLive(days: Int) async throws {
        let clock = ManualClock()
        let offset = Offset()
        var fixture = StoreFixture.local()
        fixture.clock = clock
        fixture.wallClock = WallClock {
            100 * Self.day + clock.now.offset.milliseconds + offset.milliseconds.load(ordering: .relaxed)
        }
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            var changes = store.publication.snapshots().makeAsyncIterator()
            _ = await changes.next()
            offset.milliseconds.store(days * Self.day, ordering: .relaxed)
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: .seconds(10))
            while await changes.next()?.value != ["a": 1] {}
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(9))
            #expect(store.value == ["a": 1])
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(1))
            #expect(await changes.next()?.value == .emptyObject)
        }
    }
}
