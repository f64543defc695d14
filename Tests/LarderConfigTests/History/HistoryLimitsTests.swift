import Foundation
import LarderEncoding
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("History limits")
struct HistoryLimitsTests {
    private static let hour = 3_600_000
    private static let day = 24 * hour
    /// A midnight in UTC.
    private static let start = 1_700_006_400_000

    private struct Past {
        var files: [HistoryLimits.File] = []
        var limits = HistoryLimits()

        /// Adds a snapshot and removes the snapshots that the limits do not keep.
        mutating func publish(at time: Int, bytes: Int = 1) {
            let revision = (files.first?.revision ?? 0) + 1
            files.insert(HistoryLimits.File(revision: revision, publishedAt: time, bytes: bytes), at: 0)
            let kept = limits.kept(of: files)
            files.removeAll { !kept.contains($0.revision) }
        }
    }

    @Test("after many quick changes, the last snapshot of each earlier hour and day is still kept")
    func quickChanges() {
        var past = Past()
        for hour in 0..<72 { past.publish(at: Self.start + hour * Self.hour) }
        for second in 0..<40 { past.publish(at: Self.start + 72 * Self.hour + second * 1000) }
        let older = past.files.dropFirst(16).map { ($0.publishedAt - Self.start) / Self.hour }
        // Besides the newest 16 snapshots, the last one of each of the last 24 hours and the last one of each earlier
        // day are kept.
        #expect(older == Array((49...71).reversed()) + [47, 23])
    }

    @Test("`days` is the number of days of which the last snapshot is kept, and 0 keeps no daily snapshots")
    func days() {
        var past = Past()
        past.limits.days = 3
        for day in 0..<10 { past.publish(at: Self.start + day * Self.day) }
        for second in 1...40 { past.publish(at: Self.start + 9 * Self.day + second * 1000) }
        #expect(past.files.dropFirst(16).map { ($0.publishedAt - Self.start) / Self.day } == [8, 7])
        past.limits.days = 0
        past.publish(at: Self.start + 9 * Self.day + 60_000)
        #expect(past.files.count == 16)
    }

    @Test("`count` limits the snapshots that are not pinned, and the current snapshot is always kept")
    func count() {
        var past = Past()
        past.limits.count = 20
        for hour in 0..<72 { past.publish(at: Self.start + hour * Self.hour) }
        #expect(past.files.count == 20)
        past.files[19].isPinned = true
        past.files[10].isPinned = true
        let pinned = past.files.filter(\.isPinned).map(\.revision)
        for hour in 72..<200 { past.publish(at: Self.start + hour * Self.hour) }
        #expect(past.files.count == 22)
        #expect(past.files.filter(\.isPinned).map(\.revision) == pinned)
        past.limits.count = 1
        past.publish(at: Self.start + 200 * Self.hour)
        #expect(past.files.map(\.revision) == [201] + pinned)
    }

    @Test("within the size limit, newer snapshots take precedence, and a snapshot that does not fit is skipped")
    func bytes() {
        var past = Past()
        past.limits.maximumBytes = 100
        for second in 0..<10 { past.publish(at: Self.start + second, bytes: 10) }
        #expect(past.files.count == 10)
        past.publish(at: Self.start + 10, bytes: 75)
        #expect(past.files.map(\.revision) == [11, 10, 9])
        past.publish(at: Self.start + 11, bytes: 5)
        #expect(past.files.map(\.revision) == [12, 11, 10, 9])
        past.publish(at: Self.start + 12, bytes: 30)
        #expect(past.files.map(\.revision) == [13, 12, 10, 9])
        past.publish(at: Self.start + 13, bytes: 1000)
        #expect(past.files.map(\.revision) == [14])
    }

    @Test("a random history stays within the limits, and keeps the newest 16 snapshots if they fit")
    func random() {
        var generator = SeededGenerator()
        for _ in 0..<50 {
            var past = Past()
            past.limits = HistoryLimits(
                count: .random(in: 1...40, using: &generator), days: .random(in: 0...10, using: &generator),
                maximumBytes: .random(in: 1000...20_000, using: &generator))
            var time = Self.start
            for revision in 1...300 {
                time += Int.random(in: -1000...3 * Self.hour, using: &generator)
                past.publish(at: time, bytes: .random(in: 1...100, using: &generator))
                #expect(past.files.count <= past.limits.count)
                #expect(past.files.reduce(0) { $0 + $1.bytes } <= past.limits.maximumBytes)
                let newest = past.files.prefix(min(16, past.limits.count, revision)).map(\.revision)
                if past.limits.maximumBytes > 1600 {
                    #expect(newest == Array((revision - newest.count + 1...revision).reversed()))
                }
            }
        }
    }
}

@Suite("Archived snapshots")
struct ArchivedSnapshotsTests {
    private final class Time: Sendable {
        let clock = ManualClock()
        var wallClock: WallClock { WallClock { 1_700_006_400_000 + self.clock.now.offset.milliseconds } }
    }

    /// Calls `body` with a store that has published n = 1 to `hours`, one per hour, and then twenty quick changes.
    private func withOldSnapshots(
        hours: Int = 5, _ body: (ConfigStore, StoreFixture) async throws -> Void
    ) async throws {
        let time = Time()
        var fixture = StoreFixture.local()
        fixture.wallClock = time.wallClock
        defer { fixture.remove() }
        let store = try await fixture.open()
        for number in 1...hours {
            _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil)
            try await store.writeNow()
            time.clock.advance(by: .seconds(3600))
        }
        for number in 1...20 { _ = try await store.set(JSONPath(["n"]), to: .int(100 + number), timeToLive: nil) }
        try await store.writeNow()
        try await body(store, fixture)
    }

    @Test("the last snapshot of an hour can be listed, read and restored after many quick changes")
    func survives() async throws {
        try await withOldSnapshots { (store, fixture) async throws in
            #expect(await store.pastSnapshots().map(\.revision) == Array((11...26).reversed()) + [6, 5, 4, 3, 2])
            #expect(try await store.value(ofRevision: 4) == ["n": 3])
            let past = try #require(await store.pastSnapshots().last)
            #expect(past.bytes == 7 && past.causes == [ChangeCause(.set, path: ["n"])])
            #expect(try await store.rollBack(toRevision: 4, by: nil).changed)
            #expect(store.value == ["n": 3])
            await store.stop()
            let next = try await fixture.open()
            #expect(await next.pastSnapshots().map(\.revision) == Array((12...27).reversed()) + [6, 5, 4, 3, 2])
            #expect(try await next.value(ofRevision: 2) == ["n": 1])
            await #expect(throws: ConfigError.self) { try await next.value(ofRevision: 8) }
            await next.stop()
        }
    }

    @Test("a pinned snapshot is kept until it is unpinned, also across restarts")
    func pinned() async throws {
        let time = Time()
        var fixture = StoreFixture.local()
        fixture.wallClock = time.wallClock
        defer { fixture.remove() }
        let store = try await fixture.open()
        let good = try await store.set(JSONPath(["n"]), to: "good", timeToLive: nil).revision
        #expect(try await store.pin(true, revision: good))
        #expect(try await !store.pin(true, revision: good))
        func changeOften(_ store: ConfigStore) async throws {
            for number in 1...20 { _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil) }
            try await store.writeNow()
        }
        try await changeOften(store)
        await store.stop()
        let second = try await fixture.open()
        try await changeOften(second)
        let past = await second.pastSnapshots()
        #expect(past.last?.revision == good && past.filter(\.isPinned).map(\.revision) == [good])
        #expect(try await second.value(ofRevision: good) == ["n": "good"])
        #expect(try await second.pin(false, revision: good))
        try await changeOften(second)
        #expect(await second.pastSnapshots().count == 16)
        let error = await #expect(throws: ConfigError.self) { try await second.pin(true, revision: good) }
        #expect(error?.code == .notFound)
        await second.stop()
    }

    @Test("a pin is refused if the pinned snapshots would exceed half of the size limit")
    func pinnedBytes() async throws {
        var fixture = StoreFixture.local()
        fixture.history.maximumBytes = 100_000
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            var revisions: [Int] = []
            for letter in ["a", "b", "c"] {
                let text = String(repeating: letter, count: 20_000)
                revisions.append(try await store.set(JSONPath(["n"]), to: .string(text), timeToLive: nil).revision)
            }
            #expect(try await store.pin(true, revision: revisions[0]))
            #expect(try await store.pin(true, revision: revisions[1]))
            let error = await #expect(throws: ConfigError.self) { try await store.pin(true, revision: revisions[2]) }
            #expect(error?.code == .rejected)
            #expect(error?.message.contains("50000") ?? false)
            #expect(await store.pastSnapshots().map(\.isPinned) == [false, true, true, false])
            #expect(try await store.pin(false, revision: revisions[0]))
            #expect(try await store.pin(true, revision: revisions[2]))
        }
    }

    @Test("a revision that the limits no longer keep is unknown, even if it is still in memory")
    func onlyInMemory() async throws {
        var fixture = StoreFixture.local()
        fixture.history.count = 3
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            for number in 1...6 { _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil) }
            try await store.writeNow()
            #expect(await store.pastSnapshots().map(\.revision) == [7, 6, 5])
            var error = await #expect(throws: ConfigError.self) { try await store.rollBack(toRevision: 4, by: nil) }
            #expect(error?.code == .notFound)
            #expect(error?.message.contains("known revisions: 5, 6, 7") ?? false)
            error = await #expect(throws: ConfigError.self) { try await store.pin(true, revision: 4) }
            #expect(error?.code == .notFound)
            #expect(try await store.rollBack(toRevision: 5, by: nil).changed)
        }
    }

    @Test("overlapping calls for different snapshots each get the snapshots they requested")
    func overlapping() async throws {
        try await withOldSnapshots { (store, _) async throws in
            let archived = await store.history().archived
            for _ in 0..<200 {
                async let newer = archived.snapshots(ofRevisions: [6, 5])
                async let older = archived.snapshots(ofRevisions: [3, 2])
                let found = await (newer.map(\.revision), older.map(\.revision))
                #expect(found.0 == [6, 5] && found.1 == [3, 2])
            }
            await store.stop()
        }
    }

    @Test("a damaged list of pins counts as empty")
    func damagedPins() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.pin(true, revision: 1)
        await store.stop()
        #expect(try LocalFileSystem().read(fixture.directory + "/pinned") == Array("[1]\n".utf8))
        try LocalFileSystem().replace(fixture.directory + "/pinned", with: Array("[1".utf8))
        let next = try await fixture.open()
        #expect(await next.pastSnapshots().map(\.isPinned) == [false])
        #expect(try await next.pin(true, revision: 1))
        await next.stop()
    }
}
