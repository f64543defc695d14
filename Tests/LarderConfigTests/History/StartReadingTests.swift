import ConfigTestSupport
import Foundation
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("Reading of generations at start and on demand")
struct StartReadingTests {
    /// Writes 16 generations to disk: revisions 6 to 21, with n = 5 to 20.
    private func leaveSixteen(_ fixture: StoreFixture) async throws {
        let store = try await fixture.open()
        for number in 1...20 { _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil) }
        await store.stop()
    }

    private func path(_ fixture: StoreFixture, _ revision: Int) -> String {
        fixture.directory + "/generations/" + GenerationDirectory.name(revision: revision)
    }

    private func damage(_ path: String) throws {
        var bytes = try #require(try LocalFileSystem().read(path))
        bytes[bytes.count / 2] ^= 1
        try LocalFileSystem().replace(path, with: bytes)
    }

    @Test("only the newest generation is read at start, and older ones are read on demand")
    func newestAlone() async throws {
        let files = FaultyFileSystem()
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        let before = files.generationReads
        let store = try await fixture.open()
        #expect(files.generationReads == before + 1)
        #expect(try await store.value(ofRevision: 21) == ["n": 20])
        #expect(files.generationReads == before + 1)
        for _ in 0..<3 { #expect(await store.pastSnapshots().map(\.revision) == (6...21).reversed()) }
        #expect(files.generationReads == before + 16)
        #expect(try await store.value(ofRevision: 6) == ["n": 5])
        #expect(files.generationReads == before + 17)
        await store.stop()
    }

    @Test("the backup of the current snapshot lists all revisions, and reads no older generation")
    func backup() async throws {
        let files = FaultyFileSystem()
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        let store = try await fixture.open()
        let before = files.generationReads
        let saved = try await store.history().saved(revision: nil)
        #expect(saved.revision == 21 && saved.revisions == (6...21).reversed())
        #expect(files.generationReads == before)
        await store.stop()
    }

    @Test("a list of snapshots reads no older generation if its limit is the number of snapshots in memory")
    func limit() async throws {
        let files = FaultyFileSystem()
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        let store = try await fixture.open()
        let before = files.generationReads
        #expect(await store.history().snapshots(limit: 1).map(\.revision) == [21])
        #expect(files.generationReads == before)
        for limit in [2, 16, 17] {
            let revisions = await store.history().snapshots(limit: limit).map(\.revision)
            #expect(revisions == (6...21).reversed().prefix(limit).map(\.self))
        }
        #expect(files.generationReads == before + 15)
        await store.stop()
    }

    @Test("a value, explanation or rollback right after a start can use the older generations")
    func firstNeed() async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        let first = try await fixture.open()
        #expect(try await first.value(ofRevision: 7) == ["n": 6])
        await first.stop()
        let second = try await fixture.open()
        #expect(await second.provenance(of: ["n"]).since(.override)?.revision == 21)
        await second.stop()
        let third = try await fixture.open()
        let error = await #expect(throws: ConfigError.self) { try await third.value(ofRevision: 3) }
        #expect(error?.message.contains("6, 7, 8") ?? false)
        await third.stop()
        let fourth = try await fixture.open()
        #expect(try await fourth.rollBack(toRevision: 8, by: nil).revision == 22)
        #expect(fourth.value == ["n": 7])
        #expect(await fourth.pastSnapshots().map(\.revision) == (7...22).reversed())
        await fourth.stop()
    }

    @Test(
        "changes made before the older generations are read come after these generations in the history",
        arguments: [1, 10, 20])
    func changesBefore(count: Int) async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        let store = try await fixture.open()
        for number in 1...count { _ = try await store.set(JSONPath(["m"]), to: .int(number), timeToLive: nil) }
        #expect(await store.pastSnapshots().map(\.revision) == ((6 + count)...(21 + count)).reversed())
        #expect(try await store.value(ofRevision: 21 + count)["m"] == .int(count))
        await store.stop()
        // The changes are on disk with the same revisions.
        let next = try await fixture.open()
        #expect(await next.pastSnapshots().map(\.revision) == ((6 + count)...(21 + count)).reversed())
        await next.stop()
    }

    @Test("a damaged older generation is set aside when it is read, and the history does not have it")
    func damagedOlder() async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        try damage(path(fixture, 10))
        let store = try await fixture.open()
        #expect(store.revision == 21)
        #expect(await store.pastSnapshots().map(\.revision) == (6...21).reversed().filter { $0 != 10 })
        #expect(FileManager.default.fileExists(atPath: path(fixture, 10) + ".damaged"))
        await store.stop()
    }

    @Test("if the newest generations are damaged, the one before them is served, and older ones are in the history")
    func damagedNewest() async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        try await leaveSixteen(fixture)
        for revision in [20, 21] { try damage(path(fixture, revision)) }
        // Removes the journal. Otherwise the start would replay the changes of the damaged generations from it.
        try LocalFileSystem().remove(fixture.directory + "/journal")
        let store = try await fixture.open()
        #expect(store.value == ["n": 18])
        #expect(store.revision > 21)
        #expect(await store.pastSnapshots().map(\.revision) == [store.revision] + (6...19).reversed())
        await store.stop()
    }

    @Test("reading a journal returns its bytes up to the trailing zeros, and the number of these zeros")
    func zeros() throws {
        let path = NSTemporaryDirectory() + "/larder-journal-" + UUID().uuidString
        defer { unlink(path) }
        let files = LocalFileSystem()
        #expect(try files.readJournal(path) == nil)
        for size in [0, 1, 4096, 65536, 65537, 262_144, 300_000] {
            for end in [0, 1, 15, 4095, 4096, 4097, 65535, 65536, 65537, 70_000, 262_144] where end <= size {
                var bytes = [UInt8](repeating: 0, count: size)
                // Most bytes before the last nonzero one are zeros, too.
                if end > 0 { bytes[end - 1] = 7 }
                if end > 20 { bytes[17] = 1 }
                try files.replace(path, with: bytes)
                let content = try #require(try files.readJournal(path))
                #expect(content == JournalContent(bytes: Array(bytes[..<end]), zeros: size - end))
            }
        }
    }

    @Test("the journal reader gives the same result whether trailing zeros are counted or part of the bytes")
    func countedZeros() {
        let whole = (1...4).flatMap { number in
            JournalRecord(
                sequence: number, revision: number, digest: "d", publishedAt: 0, released: 0,
                operations: [.set(.init(path: ["n"], value: .int(number), setAt: 0, expiresAt: nil))]
            ).encoded()
        }
        for end in 0...whole.count {
            for zeros in [0, 1, 64] {
                let bytes = Array(whole[..<end])
                let counted = JournalReader(bytes, zeros: zeros, after: 0)
                let there = JournalReader(bytes + [UInt8](repeating: 0, count: zeros), after: 0)
                #expect(counted.records.map(\.sequence) == there.records.map(\.sequence))
                #expect(counted.ending == there.ending)
                #expect(counted.end == there.end && counted.lost == there.lost)
            }
        }
    }
}
