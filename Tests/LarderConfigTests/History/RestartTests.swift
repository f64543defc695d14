import ConfigTestSupport
import Foundation
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("Restart")
struct RestartTests {
    private func generations(_ fixture: StoreFixture) throws -> [String] {
        try LocalFileSystem().list(fixture.directory + "/generations").sorted()
    }

    @Test("after a clean stop and a restart, value and revision are the same", arguments: [Durability.full, .relaxed])
    func cleanStop(durability: Durability) async throws {
        let fixture = StoreFixture.local(durability)
        defer { fixture.remove() }
        let first = try await fixture.open()
        for number in 1...5 { _ = try await first.set(JSONPath(["n"]), to: .int(number), timeToLive: nil) }
        let revision = first.revision
        await first.stop()
        for _ in 0..<3 {
            let next = try await fixture.open()
            #expect(next.value == ["n": 5])
            #expect(next.revision == revision)
            await next.stop()
        }
    }

    @Test("the peers (clients) that made overrides and pushes are restored from the journal and from a generation")
    func peers() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let (anna, bert) = (Peer(pid: 7, uid: 1000, command: "vi"), Peer(pid: 8, uid: 0, command: "cron"))
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil, by: anna)
        let document = SourceDocument(value: ["r": 1], pushedBy: bert)
        _ = try await first.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
        // The first store is not stopped. This simulates a crash.
        for _ in 0..<2 {
            let next = try await fixture.open()
            let layers = await next.layers
            #expect(layers.override.entries.map(\.setBy) == [anna])
            #expect(layers.remote?.pushedBy == bert)
            await next.stop()
        }
        withExtendedLifetime(first) {}
    }

    @Test("after a crash, the last acknowledged change is present with its revision")
    func crash() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        var keptAlive: [ConfigStore] = []
        var revision = 1
        for round in 1...20 {
            // The previous store is not stopped. This simulates a crash.
            let store = try await fixture.open()
            #expect(store.revision == revision)
            if round > 1 { #expect(store.value == ["n": .int(round - 1)]) }
            revision = try await store.set(JSONPath(["n"]), to: .int(round), timeToLive: nil).revision
            keptAlive.append(store)
        }
    }

    @Test("after a crash, the document of a source gets a revision after the reserved ones")
    func crashAfterRefresh() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        var keptAlive: [ConfigStore] = []
        var last = 0
        for round in 1...3 {
            // The previous store is not stopped. This simulates a crash.
            let store = try await fixture.open()
            if round > 1 {
                #expect(store.value == ["n": .int(round - 1)])
                #expect(store.revision > last + 1000)
            }
            let document = SourceDocument(value: ["n": .int(round)])
            last = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
                .revision
            try await store.writeNow()
            keptAlive.append(store)
        }
    }

    @Test("after a crash, a relaxed namespace never assigns a published revision to different content")
    func relaxedCrash() async throws {
        var fixture = StoreFixture.local(.relaxed)
        // The test never advances this clock, so no generation is written in the background.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        var seen: [Int: JSONValue] = [:]
        var keptAlive: [ConfigStore] = []
        var last = 0
        for round in 1...5 {
            let store = try await fixture.open()
            for number in 1...3 {
                _ = try await store.set(JSONPath(["n"]), to: .int(round * 100 + number), timeToLive: nil)
                #expect(store.revision > last)
                #expect(seen[store.revision] == nil)
                seen[store.revision] = store.value
                last = store.revision
            }
            keptAlive.append(store)
        }
    }

    @Test("a damaged generation is set aside, and the previous one is used with a new revision")
    func damagedGeneration() async throws {
        let fixture = StoreFixture.local(.relaxed)
        defer { fixture.remove() }
        for number in 1...3 {
            let store = try await fixture.open()
            _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil)
            await store.stop()
        }
        let newest = try #require(try generations(fixture).last)
        let path = fixture.directory + "/generations/" + newest
        var bytes = try #require(try LocalFileSystem().read(path))
        bytes[bytes.count / 2] ^= 1
        try LocalFileSystem().replace(path, with: bytes)

        let store = try await fixture.open()
        #expect(store.value == ["n": 2])
        #expect(store.revision > 4)
        #expect(try generations(fixture).contains(newest + ".damaged"))
        await store.stop()
    }

    @Test("a generation that is truncated or has a flipped bit cannot be decoded")
    func everyDamage() throws {
        let layers = Layers(
            host: FileDocument(document: ["h": 1], updatedAt: 5),
            remote: RemoteDocument(document: ["r": [1, 2]], version: nil, validator: nil, origin: "o", updatedAt: 6),
            override: OverrideLayer(entries: [.init(path: ["a"], value: 1, setAt: 7, expiresAt: nil)]))
        let generation = Generation(
            revision: 3, digest: SnapshotDigest(known: "d"), publishedAt: 4, journalSequence: 2, released: 0,
            layers: layers)
        let bytes = GenerationFile.encode(generation, epoch: "e", namespace: "n")
        let read = try GenerationFile.decode(bytes)
        #expect(read.layers.resolved() == layers.resolved())
        for end in bytes.indices {
            #expect(throws: GenerationFile.Damage.self) { try GenerationFile.decode(Array(bytes[..<end])) }
        }
        for index in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[index] ^= 1 << bit
                #expect(throws: GenerationFile.Damage.self) { try GenerationFile.decode(damaged) }
            }
        }
    }

    @Test("after damage to the journal, intact records are used with a new revision, and a copy of the file is kept")
    func startOnDamagedJournal() async throws {
        var fixture = StoreFixture.local()
        // The test never advances this clock, so no generation is written in the background.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let first = try await fixture.open()
        for number in 1...6 { _ = try await first.set(JSONPath(["n\(number)"]), to: .int(number), timeToLive: nil) }
        let journal = URL(fileURLWithPath: fixture.directory + "/journal")
        var bytes = try Data(contentsOf: journal)
        bytes[400] ^= 4
        try bytes.write(to: journal)
        let next = try await fixture.open()
        #expect(next.value["n6"] == 6)
        #expect(next.value.count == 5)
        #expect(next.revision > first.revision)
        #expect(FileManager.default.fileExists(atPath: journal.path + ".damaged"))
    }

    @Test(
        "numbers out of range in the state directory neither prevent a start nor overflow",
        arguments: [
            ("reserved", "9223372036854775807\n"), ("reserved", "9007199254740992\n"),
            ("generations/9223372036854775807.json", "{}\n{}\n"),
        ])
    func impossibleNumbers(file: String, content: String) async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let first = try await fixture.open()
        let revision = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil).revision
        await first.stop()
        try Data(content.utf8).write(to: URL(fileURLWithPath: fixture.directory + "/" + file))
        let next = try await fixture.open()
        #expect(next.value == ["n": 1])
        let following = try await next.set(JSONPath(["n"]), to: 2, timeToLive: nil).revision
        #expect(following > revision && following < 1 << 53)
    }

    @Test("if a full disk prevents the reservation of revisions, the last state is served in a new epoch")
    func fullDisk() async throws {
        var fixture = StoreFixture.local(.relaxed)
        let files = FaultyFileSystem()
        fixture.files = files
        // The test never advances this clock, so no generation is written in the background.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        await first.stop()
        let second = try await fixture.open()
        _ = try await second.set(JSONPath(["n"]), to: 2, timeToLive: nil)
        // The second store is not stopped. This simulates a crash before its last change is written.
        files.failWrites(with: ENOSPC)
        let clock = ManualClock()
        fixture.clock = clock
        let third = try await fixture.open()
        #expect(third.value == ["n": 1])
        #expect(third.publication.epoch != first.publication.epoch)
        #expect(third.publication.status.writeError?.error.code == .storageFailed)
        #expect(try await third.set(JSONPath(["n"]), to: 3, timeToLive: nil).changed)
        #expect(third.publication.status.writeError != nil, "the disk is still full")
        #expect(third.value == ["n": 3])
        files.failWrites(with: nil)
        while third.publication.status.writeError != nil {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        await third.stop()
        let fourth = try await fixture.open()
        #expect(fourth.value == ["n": 3])
        #expect(fourth.publication.epoch == first.publication.epoch)
        #expect(fourth.publication.status.writeError == nil)
        await fourth.stop()
    }

    @Test("a failed reservation of revisions is repeated until it succeeds, and snapshots are saved meanwhile")
    func unwritableReservation() async throws {
        var fixture = StoreFixture.local()
        let clock = ManualClock()
        fixture.clock = clock
        defer { fixture.remove() }
        // The directory has the name of a temporary file, so each write of `reserved` fails, and no other write does.
        let obstacle = fixture.directory + "/reserved.tmp"
        try FileManager.default.createDirectory(atPath: obstacle, withIntermediateDirectories: true)
        let store = try await fixture.open()
        func problem() -> String? { store.publication.status.writeError?.error.message }
        #expect(problem()?.contains("reserved") == true)
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        let saved = GenerationDirectory.name(revision: store.revision)
        while try !generations(fixture).contains(saved) {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        for _ in 1...20 {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        #expect(problem()?.contains("reserved") == true)
        try FileManager.default.removeItem(atPath: obstacle)
        while problem() != nil {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        #expect(try String(contentsOfFile: fixture.directory + "/reserved", encoding: .utf8).hasPrefix("1025 "))
        await store.stop()
    }

    @Test("the newest 16 generations are kept, and no temporary files remain")
    func kept() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        for number in 1...20 {
            let store = try await fixture.open()
            _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil)
            await store.stop()
        }
        let names = try generations(fixture)
        #expect(names.count == 16)
        #expect(names.last == GenerationDirectory.name(revision: 21))
        #expect(names.allSatisfy { $0.hasSuffix(".json") })
    }

    @Test("a partly written file that a crash left is removed and not used")
    func temporaryFile() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        await store.stop()
        let half = fixture.directory + "/generations/" + GenerationDirectory.name(revision: 99) + ".tmp"
        try Data("{\"format\":1".utf8).write(to: URL(fileURLWithPath: half))
        let next = try await fixture.open()
        #expect(next.value == ["n": 1])
        #expect(!FileManager.default.fileExists(atPath: half))
        await next.stop()
    }

    @Test("a state directory is locked by one agent at a time, and the error names the PID of the holder")
    func locked() throws {
        let path = NSTemporaryDirectory() + "/larder-state-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: path) }
        let first = try StateDirectory(path: path, files: LocalFileSystem())
        let error = #expect(throws: StateDirectory.Locked.self) {
            try StateDirectory(path: path, files: LocalFileSystem())
        }
        #expect(error?.holder == String(getpid()))
        #expect(first.epoch.utf8.count == 16)
    }
}
