import ConfigTestSupport
import Foundation
import LarderDigest
import LarderEncoding
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("Start with a damaged state directory")
struct BrokenStateTests {
    /// Creates the state of a stopped store: `n` is 2 in the newest generation and 1 in the previous one. With
    /// ``Durability/relaxed``, the journal contains neither value.
    /// - Returns: the path and the revision of the newest generation
    private func twoGenerations(_ fixture: StoreFixture) async throws -> (newest: String, revision: Int) {
        var revision = 0
        for number in 1...2 {
            let store = try await fixture.open()
            revision = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil).revision
            await store.stop()
        }
        return (fixture.directory + "/generations/" + GenerationDirectory.name(revision: revision), revision)
    }

    private func contents(_ path: String) throws -> [UInt8] { try #require(try LocalFileSystem().read(path)) }

    private func write(_ bytes: [UInt8], _ path: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    // MARK: Generations

    @Test(
        "if a generation temporarily cannot be read, the start fails and the file stays in place",
        arguments: [EMFILE, ENFILE, ENOMEM, EACCES])
    func unreadable(errno: CInt) async throws {
        var fixture = StoreFixture.local(.relaxed)
        defer { fixture.remove() }
        let (newest, revision) = try await twoGenerations(fixture)
        let files = FaultyFileSystem()
        fixture.files = files
        files.failGenerationReads(with: errno, times: 1)
        await #expect(throws: FileError.self) { try await fixture.open() }
        #expect(FileManager.default.fileExists(atPath: newest))
        let store = try await fixture.open()
        #expect(store.value == ["n": 2])
        #expect(store.revision == revision)
        await store.stop()
    }

    @Test("a generation whose read fails with an I/O error is read again, and is set aside if that fails, too")
    func badSector() async throws {
        var fixture = StoreFixture.local(.relaxed)
        defer { fixture.remove() }
        let (newest, revision) = try await twoGenerations(fixture)
        let files = FaultyFileSystem()
        fixture.files = files
        files.failGenerationReads(with: EIO, times: 1)
        let same = try await fixture.open()
        #expect(same.value == ["n": 2])
        #expect(same.revision == revision)
        await same.stop()
        files.failGenerationReads(with: EIO, times: 2)
        let older = try await fixture.open()
        #expect(older.value == ["n": 1])
        #expect(older.revision > revision)
        #expect(FileManager.default.fileExists(atPath: newest + ".damaged"))
        await older.stop()
    }

    @Test("if a generation has an unknown format, the start fails instead of using an older generation")
    func otherVersion() async throws {
        let fixture = StoreFixture.local(.relaxed)
        defer { fixture.remove() }
        let (newest, _) = try await twoGenerations(fixture)
        let lines = try contents(newest).split(separator: UInt8(ascii: "\n")).map {
            String(decoding: $0, as: UTF8.self)
        }
        let body = lines[1].replacing(#""format":1"#, with: #""format":2"#, maxReplacements: 1)
        let digest = SHA256.hash(body.utf8).hex
        let file = #"{"format":2,"sha256":"\#(digest)"}"# + "\n" + body + "\n"
        try write(Array(file.utf8), newest)
        let failure = await #expect(throws: FileError.self) { try await fixture.open() }
        #expect(failure?.description.contains("in format 2, and this version reads format 1; run that version") == true)
        #expect(try contents(newest) == Array(file.utf8))

        // A file whose header and body have different formats is damaged, so the previous generation is used.
        let header = lines[0].replacing(#""format":1"#, with: #""format":3"#)
        try write(Array((header + "\n" + lines[1] + "\n").utf8), newest)
        let store = try await fixture.open()
        #expect(store.value == ["n": 1])
        await store.stop()
    }

    // MARK: The journal

    @Test("if a journal record has an unknown kind of change, the start fails")
    func unknownChange() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        await first.stop()
        let content =
            #"{"sequence":2,"revision":3,"digest":"d","publishedAt":0,"released":0,"operations":[{"transmogrify":1}],"causes":[]}"#
        let line = SHA256.hash(content.utf8).hex.prefix(16) + " " + content + "\n\0"
        try write(Array(line.utf8), fixture.directory + "/journal")
        let failure = await #expect(throws: FileError.self) { try await fixture.open() }
        #expect(failure?.description.contains("does not know; run the version that wrote it") == true)
    }

    @Test(
        "if the journal is missing, empty or all zeros, the revisions of its records are not assigned again",
        arguments: 0..<3)
    func lostJournal(kind: Int) async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        await first.stop()
        // The test never advances this clock, so no generation is written in the background.
        fixture.clock = ManualClock()
        let second = try await fixture.open()
        for number in 2...9 { _ = try await second.set(JSONPath(["n"]), to: .int(number), timeToLive: nil) }
        let seen = second.revision
        let path = fixture.directory + "/journal"
        switch kind {
        case 0: try LocalFileSystem().remove(path)
        case 1: try write([], path)
        default: try write([UInt8](repeating: 0, count: 4096), path)
        }
        let third = try await fixture.open()
        #expect(third.revision > seen)
        await third.stop()
        withExtendedLifetime(second) {}
    }

    @Test(
        "a last record counts as torn if only its first byte is zero, and as a refused change if its first two are"
    )
    func firstByte() {
        func record(_ sequence: Int) -> [UInt8] {
            JournalRecord(
                sequence: sequence, revision: sequence, digest: "d", publishedAt: 0, released: 0,
                operations: [.dropRemote]
            ).encoded()
        }
        let lost = JournalReader(record(1) + [0] + record(2).dropFirst() + [0], after: 0)
        #expect(lost.ending == .torn)
        #expect(lost.lost >= 1)
        #expect(JournalReader(record(1) + [0, 0] + record(2).dropFirst(2) + [0], after: 0).ending == .clean)
        // Record 1 is damaged, but the generation already contains its change.
        #expect(JournalReader(record(2) + [0] + record(1).dropFirst() + [0], after: 1).ending == .clean)
    }

    @Test("a last record that begins with a sector of zeros counts as torn, and not as the end of the journal")
    func lostSector() {
        let encoded = (1...2).map { number in
            JournalRecord(
                sequence: number, revision: number, digest: "d", publishedAt: 0, released: 0,
                operations: [
                    .set(
                        .init(path: ["n"], value: .string(String(repeating: "x", count: 600)), setAt: 0, expiresAt: nil)
                    )
                ]
            ).encoded()
        }
        var journal = encoded[0] + encoded[1] + [UInt8](repeating: 0, count: 4096)
        for index in encoded[0].count..<encoded[0].count + 512 { journal[index] = 0 }
        let reading = JournalReader(journal, after: 0)
        #expect(reading.records.map(\.sequence) == [1])
        #expect(reading.ending == .torn)
    }

    // MARK: Reserved revisions

    @Test("if a bit in the file of reserved revisions flips, published revisions are not assigned again")
    func reserved() async throws {
        var fixture = StoreFixture.local(.relaxed)
        // The test never advances this clock, so no generation is written in the background. Only the reservation
        // covers the published revisions.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let first = try await fixture.open()
        for number in 1...5 { _ = try await first.set(JSONPath(["n"]), to: .int(number), timeToLive: nil) }
        let seen = first.revision
        let path = fixture.directory + "/reserved"
        let bytes = try contents(path)
        for index in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[index] ^= 1 << bit
                try write(damaged, path)
                let archive = ConfigArchive(
                    namespace: "default", epoch: "00ff00ff00ff00ff", directory: fixture.directory,
                    files: LocalFileSystem(), logger: .silent)
                #expect(try archive.restore().highestSeen >= seen, "byte \(index), bit \(bit)")
            }
        }
        withExtendedLifetime(first) {}
    }

    @Test("a file of reserved revisions without a checksum, from an earlier version, is valid")
    func reservedWithoutChecksum() async throws {
        let fixture = StoreFixture.local(.relaxed)
        defer { fixture.remove() }
        try LocalFileSystem().createDirectory(fixture.directory)
        try write(Array("3074\n".utf8), fixture.directory + "/reserved")
        let store = try await fixture.open()
        #expect(store.revision == 3075)
        await store.stop()
    }

    // MARK: No generation

    @Test("a store that crashed before it wrote a generation awaits its source and uses a new revision")
    func placeholder() async throws {
        var fixture = StoreFixture()
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let document = SourceDocument(value: ["r": 1])
        let first = try await fixture.open()
        let seen = try await first.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
            .revision
        // The first store is not stopped and has not written a generation. This simulates a crash.
        let second = try await fixture.open()
        #expect(second.revision == 0)
        let next = try await second.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        #expect(next.revision > seen)
        #expect(second.value == ["r": 1])
        withExtendedLifetime(first) {}
    }
}
