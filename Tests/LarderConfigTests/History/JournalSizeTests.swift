import ConfigTestSupport
import Glibc
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("Journal size")
struct JournalSizeTests {
    private static let usualSize = 256 * 1024
    /// The maximum size of the journal, plus room for one record.
    private static let maxSize = 4 * 1024 * 1024 + 128 * 1024

    private let files = FaultyFileSystem()

    private func size(_ fixture: StoreFixture) throws -> Int {
        let bytes = try files.read(fixture.directory + "/journal")
        return try #require(bytes).count
    }

    private func value(_ number: Int) -> JSONValue {
        .string("\(number) " + String(repeating: "x", count: 100_000))
    }

    /// Sets a large value for each number.
    /// - Returns: the largest size of the journal after any of the changes
    private func set(_ numbers: ClosedRange<Int>, _ store: ConfigStore, _ fixture: StoreFixture) async throws -> Int {
        var largest = 0
        for number in numbers {
            _ = try await store.set(JSONPath(["n"]), to: value(number), timeToLive: nil)
            largest = max(largest, try size(fixture))
        }
        return largest
    }

    /// Expects the last 16 snapshots, each with its value.
    private func check(_ store: ConfigStore, last: Int) async throws {
        #expect(store.value == ["n": value(last)])
        #expect(store.revision == last + 1)
        let past = await store.pastSnapshots().map(\.revision)
        #expect(past == ((last - 14)...(last + 1)).reversed())
        for revision in past { #expect(try await store.value(ofRevision: revision) == ["n": value(revision - 1)]) }
    }

    @Test("continuous changes do not grow the journal beyond its limit, and a crash loses no change")
    func bound() async throws {
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        let first = try await fixture.open()
        let largest = try await set(1...43, first, fixture)
        #expect(largest > 4 * 1024 * 1024 && largest <= Self.maxSize)
        #expect(try size(fixture) < 1024 * 1024)
        // The first store is not stopped. This simulates a crash. Before the crash, a generation was written, and the
        // journal started over at the beginning of its file.
        let next = try await fixture.open()
        try await check(next, last: 43)
        #expect(try await set(44...86, next, fixture) <= Self.maxSize)
        try await check(next, last: 86)
        await next.stop()
        #expect(try size(fixture) == Self.usualSize)
        let last = try await fixture.open()
        try await check(last, last: 86)
        await last.stop()
        withExtendedLifetime(first) {}
    }

    @Test("the journal grows while no generation can be written, and is shortened afterwards")
    func failing() async throws {
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        let first = try await fixture.open()
        files.failReplacements(with: ENOSPC)
        let largest = try await set(1...60, first, fixture)
        #expect(largest > 5_900_000)
        let next = try await fixture.open()
        try await check(next, last: 60)
        files.failReplacements(with: nil)
        _ = try await set(61...61, next, fixture)
        #expect(try size(fixture) == Self.usualSize)
        try await check(next, last: 61)
        await next.stop()
        withExtendedLifetime(first) {}
    }

    private func archive(_ fixture: StoreFixture) -> ConfigArchive {
        ConfigArchive(
            namespace: "default", epoch: "00ff00ff00ff00ff", directory: fixture.directory, files: files,
            logger: .silent)
    }

    private func record(_ sequence: Int) -> JournalRecord {
        let layers = layers(sequence)
        return JournalRecord(
            sequence: sequence, revision: sequence, digest: SnapshotDigest.text(of: layers.resolved()),
            publishedAt: 0, released: 0, operations: [.set(layers.override.entries[0])])
    }

    private func layers(_ sequence: Int) -> Layers {
        var layers = Layers()
        layers.override.set(
            OverrideEntry(path: ["n"], value: value(sequence), setAt: 0, expiresAt: nil, setBy: nil))
        return layers
    }

    private func generation(_ sequence: Int) -> Generation {
        let record = record(sequence)
        return Generation(
            revision: sequence, digest: SnapshotDigest(known: record.digest), publishedAt: 0, journalSequence: sequence,
            released: 0,
            layers: layers(sequence))
    }

    @Test(
        "a crash at any step from writing a generation to shortening the journal loses no change",
        arguments: [false, true])
    func steps(isCut: Bool) throws {
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        let first = archive(fixture)
        _ = try first.restore()
        for sequence in 1...5 { try first.journal.append(record(sequence), afterGenerationWith: 0) }
        try first.generations.write(generation(5))
        // A crash after the generation is written and before the journal starts over.
        var restored = try archive(fixture).restore()
        #expect(restored.revision == 5 && restored.highestPossiblyPublished == 0)
        // A crash after the first new record and, if `isCut` is false, before the rest of the file is cut off.
        files.failTruncations(with: isCut ? nil : EIO)
        try first.journal.append(record(6), afterGenerationWith: 5)
        let size = try size(fixture)
        #expect(isCut ? size == Self.usualSize : size > 500_000)
        restored = try archive(fixture).restore()
        #expect(restored.revision == 6 && restored.highestPossiblyPublished == 0)
        #expect(restored.layers.resolved() == ["n": value(6)])
        files.failTruncations(with: nil)
        // The archive of the next start appends after record 6.
        let next = archive(fixture)
        _ = try next.restore()
        for sequence in 7...9 { try next.journal.append(record(sequence), afterGenerationWith: 5) }
        restored = try archive(fixture).restore()
        #expect(restored.revision == 9 && restored.highestPossiblyPublished == 0)
        // A clean stop empties the journal, but only if a generation contains all records.
        try next.journal.shorten(afterGenerationWith: 5)
        #expect(try archive(fixture).restore().revision == 9)
        try next.generations.write(generation(9))
        try next.journal.shorten(afterGenerationWith: 9)
        #expect(try self.size(fixture) == Self.usualSize)
        restored = try archive(fixture).restore()
        #expect(restored.revision == 9 && restored.highestPossiblyPublished == 0 && restored.unwritten.isEmpty)
    }
}
