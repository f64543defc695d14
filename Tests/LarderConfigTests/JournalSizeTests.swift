import ConfigTestSupport
import Glibc
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("The length of the journal")
struct JournalSizeTests {
    private static let usual = 256 * 1024
    /// The longest one, and one record more.
    private static let longest = 4 * 1024 * 1024 + 128 * 1024

    private let files = FaultyFileSystem()

    private func local() -> StoreFixture {
        var fixture = StoreFixture()
        fixture.hasRemote = false
        fixture.files = files
        // Nothing is written behind while this clock stands still.
        fixture.clock = ManualClock()
        return fixture
    }

    private func size(_ fixture: StoreFixture) throws -> Int {
        let bytes = try files.read(fixture.directory + "/journal")
        return try #require(bytes).count
    }

    private func value(_ number: Int) -> JSONValue {
        .string("\(number) " + String(repeating: "x", count: 100_000))
    }

    /// Sets a large value again and again.
    /// - Returns: the greatest length of the journal on the way.
    private func set(_ numbers: ClosedRange<Int>, _ store: ConfigStore, _ fixture: StoreFixture) async throws -> Int {
        var greatest = 0
        for number in numbers {
            _ = try await store.set(JSONPath(["n"]), to: value(number), timeToLive: nil)
            greatest = max(greatest, try size(fixture))
        }
        return greatest
    }

    /// Whether a store knows the last sixteen of snapshots that were made one after the other.
    private func check(_ store: ConfigStore, last: Int) async throws {
        #expect(store.value == ["n": value(last)])
        #expect(store.revision == last + 1)
        let past = await store.pastSnapshots().map(\.revision)
        #expect(past == ((last - 14)...(last + 1)).reversed())
        for revision in past { #expect(try await store.value(ofRevision: revision) == ["n": value(revision - 1)]) }
    }

    @Test("changes without a pause do not let it grow for ever, and a crash after them loses nothing")
    func bound() async throws {
        let fixture = local()
        defer { fixture.remove() }
        let first = try await fixture.open()
        let greatest = try await set(1...43, first, fixture)
        #expect(greatest > 4 * 1024 * 1024 && greatest <= Self.longest)
        #expect(try size(fixture) < 1024 * 1024)
        // Left as a crash leaves it, with records behind a generation in a journal that began again.
        let next = try await fixture.open()
        try await check(next, last: 43)
        #expect(try await set(44...86, next, fixture) <= Self.longest)
        try await check(next, last: 86)
        await next.stop()
        #expect(try size(fixture) == Self.usual)
        let last = try await fixture.open()
        try await check(last, last: 86)
        await last.stop()
        withExtendedLifetime(first) {}
    }

    @Test("where no generation can be written it grows on, and it is shortened once one can")
    func failing() async throws {
        let fixture = local()
        defer { fixture.remove() }
        let first = try await fixture.open()
        files.failReplacements(with: ENOSPC)
        let greatest = try await set(1...60, first, fixture)
        #expect(greatest > 5_900_000)
        let next = try await fixture.open()
        try await check(next, last: 60)
        files.failReplacements(with: nil)
        _ = try await set(61...61, next, fixture)
        #expect(try size(fixture) == Self.usual)
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

    @Test("a crash at any step between a generation and a shorter journal loses nothing", arguments: [false, true])
    func steps(isCut: Bool) throws {
        let fixture = local()
        defer { fixture.remove() }
        let first = archive(fixture)
        _ = try first.restore()
        for sequence in 1...5 { try first.journal.append(record(sequence), afterGenerationWith: 0) }
        try first.generations.write(generation(5))
        // Behind the generation, before the journal begins again.
        var restored = try archive(fixture).restore()
        #expect(restored.revision == 5 && restored.highestPossiblyPublished == 0)
        // Behind the first record, before what is of no use is cut off.
        files.failTruncations(with: isCut ? nil : EIO)
        try first.journal.append(record(6), afterGenerationWith: 5)
        let size = try size(fixture)
        #expect(isCut ? size == Self.usual : size > 500_000)
        restored = try archive(fixture).restore()
        #expect(restored.revision == 6 && restored.highestPossiblyPublished == 0)
        #expect(restored.layers.resolved() == ["n": value(6)])
        files.failTruncations(with: nil)
        // The next one finds its place behind it.
        let next = archive(fixture)
        _ = try next.restore()
        for sequence in 7...9 { try next.journal.append(record(sequence), afterGenerationWith: 5) }
        restored = try archive(fixture).restore()
        #expect(restored.revision == 9 && restored.highestPossiblyPublished == 0)
        // A clean stop without a generation leaves it alone; with one it is empty and short.
        try next.journal.shorten(afterGenerationWith: 5)
        #expect(try archive(fixture).restore().revision == 9)
        try next.generations.write(generation(9))
        try next.journal.shorten(afterGenerationWith: 9)
        #expect(try self.size(fixture) == Self.usual)
        restored = try archive(fixture).restore()
        #expect(restored.revision == 9 && restored.highestPossiblyPublished == 0 && restored.unwritten.isEmpty)
    }
}
