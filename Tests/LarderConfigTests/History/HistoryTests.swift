import Foundation
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("History of a namespace")
struct HistoryTests {
    private static let peer = Peer(pid: 4711, uid: 1000, command: "deploy")

    private func setTwenty(_ store: ConfigStore) async throws {
        for number in 1...20 {
            _ = try await store.set(JSONPath(["n"]), to: .int(number), timeToLive: nil, by: Self.peer)
        }
    }

    /// Expects the last 16 of 20 snapshots, each with its value and cause.
    private func checkTwenty(_ store: ConfigStore) async throws {
        let past = await store.pastSnapshots()
        #expect(past.map(\.revision) == (6...21).reversed())
        for (snapshot, number) in zip(past, (5...20).reversed()) {
            let value = try await store.value(ofRevision: snapshot.revision)
            #expect(value == ["n": .int(number)])
            #expect(snapshot.digest == SnapshotDigest.text(of: value))
            #expect(snapshot.bytes == value.textSize)
            #expect(snapshot.causes == [ChangeCause(.set, path: ["n"], peer: Self.peer)])
        }
    }

    @Test("the history has the newest 16 snapshots, each with its value and cause")
    func newest() async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        let store = try await fixture.open()
        #expect(await store.pastSnapshots().map(\.causes) == [[ChangeCause(.start)]])
        try await setTwenty(store)
        try await checkTwenty(store)
        let error = await #expect(throws: ConfigError.self) { try await store.value(ofRevision: 3) }
        #expect(error?.code == .notFound)
        #expect(error?.message.contains("6, 7, 8") ?? false)
        await store.stop()
    }

    @Test(
        "the history is the same after a restart, even if its changes came in quick succession",
        arguments: [Durability.full, .relaxed])
    func stop(durability: Durability) async throws {
        let fixture = StoreFixture.local(durability, clock: ManualClock())
        defer { fixture.remove() }
        let first = try await fixture.open()
        try await setTwenty(first)
        await first.stop()
        for _ in 0..<2 {
            let next = try await fixture.open()
            try await checkTwenty(next)
            await next.stop()
        }
    }

    @Test("after a crash, the history has every snapshot whose change was acknowledged")
    func crash() async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        let first = try await fixture.open()
        try await setTwenty(first)
        // The first store is not stopped. This simulates a crash.
        let next = try await fixture.open()
        try await checkTwenty(next)
        #expect(first.revision == next.revision)
        await next.stop()
    }

    @Test("after several crashes, the history has every snapshot whose change was acknowledged")
    func crashes() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        var expected: [Int] = []
        var keptAlive: [ConfigStore] = []
        for round in 1...9 {
            // Every third store writes a generation before it crashes.
            let clock = ManualClock()
            fixture.clock = clock
            let store = try await fixture.open()
            let known = await store.pastSnapshots().map(\.revision)
            #expect(known.starts(with: expected.reversed().prefix(16)))
            for number in 1...3 {
                let commit = try await store.set(JSONPath(["n"]), to: .int(round * 10 + number), timeToLive: nil)
                expected.append(commit.revision)
            }
            if round % 3 == 0 {
                await clock.waitForSleepers(1)
                clock.advance(by: .seconds(1))
                // The writer of generations sleeps again once it has written the generation.
                await clock.waitForSleepers(1)
            }
            keptAlive.append(store)
        }
    }

    @Test("after a crash, the history has no snapshot whose content is uncertain")
    func crashWithRemote() async throws {
        var fixture = StoreFixture()
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        // A document of a source is written in the background, but not while the clock stands still. Therefore the
        // crash loses it.
        _ = try await first.replaceRemote(
            SourceDocument(value: ["r": 1]), origin: "scripted:source", force: false, isPush: false)
        let last = try await first.set(JSONPath(["n"]), to: 2, timeToLive: nil).revision
        let next = try await fixture.open()
        #expect(next.revision > last)
        for snapshot in await next.pastSnapshots() {
            #expect(try await SnapshotDigest.text(of: next.value(ofRevision: snapshot.revision)) == snapshot.digest)
        }
        #expect(await next.pastSnapshots().map(\.revision) == [next.revision, 1])
        #expect(await next.pastSnapshots()[0].causes == [ChangeCause(.start)])
        await next.stop()
    }

    @Test("after a crash, the history has a `set` that followed a file change, and all earlier snapshots")
    func crashWithFiles() async throws {
        var fixture = StoreFixture.local()
        let clock = ManualClock()
        fixture.clock = clock
        defer { fixture.remove() }
        let first = try await fixture.open()
        _ = try await first.replaceFiles(.host, with: ["h": 1])
        _ = try await first.set(JSONPath(["a"]), to: 1, timeToLive: nil)
        // Waits until the writer has written a generation with both changes and sleeps again.
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        await clock.waitForSleepers(1)
        let known = try #require(await first.pastSnapshots().first).revision
        _ = try await first.replaceFiles(.host, with: ["h": 2])
        let last = try await first.set(JSONPath(["b"]), to: 1, timeToLive: nil, by: Self.peer).revision
        #expect(last == known + 2)
        fixture.host = ["h": 2]
        // The second of these starts reads the state that the first one wrote.
        for _ in 1...2 {
            let next = try await fixture.open()
            #expect(next.revision == last)
            let past = await next.pastSnapshots()
            #expect(past.map(\.revision).starts(with: [last, known]))
            #expect(past[0].causes == [ChangeCause(.set, path: ["b"], peer: Self.peer)])
            for snapshot in past {
                let value = try await next.value(ofRevision: snapshot.revision)
                #expect(SnapshotDigest.text(of: value) == snapshot.digest)
            }
            #expect(try await next.value(ofRevision: known) == ["h": 1, "a": 1])
            await next.stop()
        }
        withExtendedLifetime(first) {}
    }

    @Test("joined causes have no duplicates, at most 64 entries and no paths over 1024 bytes")
    func joined() {
        let set = ChangeCause(.set, path: ["a"], peer: Self.peer)
        let causes = [set, ChangeCause(.host), set, ChangeCause(.refresh, origin: "https://example.org/")]
        #expect(causes.joined() == [set, causes[1], causes[3]])
        let many = (0..<100).map { ChangeCause(.set, path: ["a\($0)"]) }
        #expect(many.joined() == Array(many.suffix(64)))
        #expect(ChangeCause(.set, path: [String(repeating: "x", count: 1025)]).path == nil)
    }

    @Test("a layer change that makes no new snapshot is stored with the current one")
    func sameValue() async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        let store = try await fixture.open()
        let revision = try await store.set(JSONPath(["a"]), to: ["b": 1], timeToLive: nil).revision
        #expect(try await store.set(JSONPath(["a", "b"]), to: 1, timeToLive: nil).revision == revision)
        #expect(await store.newest.current?.layers.override.entries.count == 2)
        await store.stop()
        let next = try await fixture.open()
        #expect(await next.newest.current?.layers.override.entries.count == 2)
        #expect(await next.pastSnapshots().first?.causes == [ChangeCause(.set, path: ["a"])])
        await next.stop()
    }

    @Test(
        "a snapshot keeps the layers with which it was published, across restarts and crashes",
        arguments: [false, true])
    func published(isCrash: Bool) async throws {
        let fixture = StoreFixture.local(clock: ManualClock())
        defer { fixture.remove() }
        let first = try await fixture.open()
        func push(_ value: Int, _ version: String) async throws {
            let document = SourceDocument(value: ["n": .int(value)], version: UpstreamVersion(version))
            _ = try await first.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
        }
        try await push(1, "1")
        _ = try await first.set(JSONPath(["n"]), to: 100, timeToLive: nil)
        let revision = try await first.set(JSONPath(["a"]), to: ["b": 1], timeToLive: nil).revision
        try await push(2, "2")
        _ = try await first.set(JSONPath(["a", "b"]), to: 1, timeToLive: nil)
        #expect(first.revision == revision)
        #expect(await first.pastSnapshots().first?.upstreamVersion == "1")
        if !isCrash { await first.stop() }
        let next = try await fixture.open()
        #expect(next.revision == revision)
        #expect(await next.pastSnapshots().first?.upstreamVersion == "1")
        #expect(await next.layers.remote?.version?.text == "2")
        #expect(await next.layers.override.entries.count == 3)
        _ = try await next.set(JSONPath(["a"]), to: 3, timeToLive: nil)
        _ = try await next.rollBack(toRevision: revision, by: nil)
        #expect(next.value == ["n": 100, "a": ["b": 1]])
        // The rollback removed the later override and shows the document of the first push.
        #expect(await next.layers.override.entries.map(\.path) == [["n"], ["a"]])
        #expect(await next.layers.shown.remote?.version?.text == "1")
        await next.stop()
        withExtendedLifetime(first) {}
    }

    @Test("after a crash, a snapshot has the experiments of its pushed document")
    func crashWithExperiments() async throws {
        var fixture = StoreFixture.local(clock: ManualClock())
        fixture.rules = LayerRules(experiments: ExperimentRules(member: "experiments"), unit: "here")
        defer { fixture.remove() }
        let first = try await fixture.open()
        let overlay: JSONValue = ["name": "arm", "units": ["here"], "values": ["n": 2]]
        let document = SourceDocument(value: ["n": 1, "experiments": [overlay]])
        _ = try await first.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
        #expect(first.value == ["n": 2])
        let plain = SourceDocument(value: ["n": 3])
        _ = try await first.replaceRemote(plain, origin: SourceOrigin.push, force: false, isPush: true)
        let rollback = try await first.rollBack(toRevision: first.revision - 1, by: nil)
        #expect(first.value == ["n": 2])
        // The first store is not stopped. This simulates a crash.
        let next = try await fixture.open()
        #expect(next.value == ["n": 2])
        let known = await next.pastSnapshots().map(\.revision)
        #expect(known.starts(with: [rollback.revision, rollback.revision - 1, rollback.revision - 2]))
        await next.stop()
    }

    @Test("a document that differs only in the order of members makes no snapshot, also at the next start")
    func otherOrder() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let first = try await fixture.open()
        for document: JSONValue in [["a": 1, "b": 2], ["b": 2, "a": 1]] {
            let document = SourceDocument(value: document)
            _ = try await first.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        }
        #expect(first.revision == 1)
        await first.stop()
        let next = try await fixture.open()
        #expect(next.revision == 1)
        await next.stop()
    }

    @Test("causes and holds are the same after encoding and decoding")
    func onDisk() throws {
        var layers = Layers()
        let remote = RemoteDocument(
            document: ["r": 1], version: UpstreamVersion("7"), validator: nil, origin: "o", updatedAt: 6)
        layers.remote = remote
        let refused = RollbackHold.Rejected(version: UpstreamVersion("8"), digest: "d8", source: "o")
        layers.hold = RollbackHold(revision: 3, since: 9, rejected: refused)
        layers.hold?.files[.host] = RollbackHold.Layer(content: nil)
        layers.hold?.remote = RollbackHold.Layer(content: remote)
        let causes = [
            ChangeCause(.rollback, revision: 3, peer: Self.peer), ChangeCause(.refresh, origin: "o"),
            ChangeCause(.unset, path: ["a", "b"]),
        ]
        let generation = Generation(
            revision: 4, digest: SnapshotDigest(known: "d"), publishedAt: 4, journalSequence: 2, released: 0, bytes: 7,
            causes: causes,
            layers: layers)
        let read = try GenerationFile.decode(GenerationFile.encode(generation, epoch: "e", namespace: "n"))
        #expect(read.causes == causes)
        #expect(read.bytes == 7)
        #expect(read.layers.hold?.revision == 3)
        #expect(read.layers.hold?.rejected == refused)
        #expect(read.layers.hold?.files[.host] != nil && read.layers.hold?.files[.host]?.content == nil)
        #expect(read.layers.hold?.remote?.content?.document == ["r": 1])
    }
}
