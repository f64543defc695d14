import ConfigTestSupport
import LarderJSON
import Testing

import Glibc

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Configuration store")
struct ConfigStoreTests {
    @Test("a namespace without a remote source has a snapshot at start")
    func empty() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            #expect(store.revision == 1)
            #expect(store.value == .emptyObject)
            #expect(store.publication.current.freshness == .fresh)
        }
    }

    @Test("a durable change is published only after it is on disk")
    func durableFirst() async throws {
        let files = FaultyFileSystem()
        let gate = DispatchGate()
        files.blockJournalWrites(at: gate)
        var fixture = StoreFixture.local()
        fixture.files = files
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            async let commit = store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
            await gate.waitForArrival()
            #expect(store.value == .emptyObject)
            #expect(store.revision == 1)
            gate.open()
            #expect(try await commit.revision == 2)
            #expect(store.value == ["a": 1])
            files.blockJournalWrites(at: nil)
        }
    }

    @Test("changes that wait at the same time share one disk write and one revision")
    func groupCommit() async throws {
        let files = FaultyFileSystem()
        let gate = DispatchGate()
        files.blockJournalWrites(at: gate)
        var fixture = StoreFixture.local()
        fixture.files = files
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            let first = Task { try await store.set(JSONPath(["first"]), to: 0, timeToLive: nil) }
            await gate.waitForArrival()
            let others = (0..<50).map { number in
                Task.immediate { try await store.set(JSONPath(["n\(number)"]), to: 1, timeToLive: nil) }
            }
            // The calls of `probe()` return only after the store has queued all changes.
            for _ in 0..<100 { await store.probe() }
            gate.open()
            gate.open()
            #expect(try await first.value.revision == 2)
            for other in others { #expect(try await other.value.revision == 3) }
            #expect(files.journalWrites == 2)
            #expect(store.value.count == 51)
            files.blockJournalWrites(at: nil)
        }
    }

    @Test(
        "if a disk write fails, the change is refused, nothing is published, and the next change works",
        arguments: [EIO, ENOSPC])
    func brokenDisk(errno: CInt) async throws {
        let files = FaultyFileSystem()
        var fixture = StoreFixture.local()
        fixture.files = files
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
            files.failWrites(with: errno)
            let error = await #expect(throws: ConfigError.self) {
                try await store.set(JSONPath(["a"]), to: 2, timeToLive: nil)
            }
            #expect(error?.code == .storageFailed)
            #expect(store.value == ["a": 1])
            #expect(store.revision == 2)
            #expect(store.publication.status.lastError?.error.code == .storageFailed)
            files.failWrites(with: nil)
            #expect(try await store.set(JSONPath(["a"]), to: 3, timeToLive: nil).revision == 3)
        }
        try await fixture.withStore { (store) async throws in #expect(store.value == ["a": 3]) }
    }

    @Test("a refused change is not applied at the next start")
    func refusedChangeStaysRefused() async throws {
        let files = FaultyFileSystem()
        var fixture = StoreFixture.local()
        fixture.files = files
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
        files.failWrites(with: EIO)
        _ = await #expect(throws: ConfigError.self) { try await store.set(JSONPath(["a"]), to: 2, timeToLive: nil) }
        files.failWrites(with: nil)
        // The first store is not stopped. This simulates a crash.
        try await fixture.withStore { (reopened) async throws in #expect(reopened.value == ["a": 1]) }
        await store.stop()
    }

    @Test("a `set` that does not change the resolved configuration keeps the revision")
    func unchanged() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            let first = try await store.set(JSONPath(["a"]), to: ["b": 1], timeToLive: nil)
            let second = try await store.set(JSONPath(["a", "b"]), to: 1, timeToLive: nil)
            let lifetime = OverrideLifetime(expiresAt: nil, changed: false)
            #expect(
                first
                    == CommitOutcome(revision: 2, changed: true, layerChanged: true, lifetime: lifetime))
            #expect(
                second
                    == CommitOutcome(revision: 2, changed: false, layerChanged: true, lifetime: lifetime))
        }
    }

    @Test("`unset` uncovers the values of lower layers, and reports whether the configuration changed")
    func unset() async throws {
        try await StoreFixture().withFlow { (store, refresher, _) async throws in
            _ = try await refresher.applyPushedConfig(SourceDocument(value: ["a": ["x": 1, "y": 2]]), force: false)
            _ = try await store.set(JSONPath(["a", "x"]), to: 9, timeToLive: nil)
            #expect(store.value == ["a": ["x": 9, "y": 2]])
            _ = try await store.set(JSONPath(["a", "y"]), to: .null, timeToLive: nil)
            #expect(store.value == ["a": ["x": 9]])
            #expect(try await store.unset(JSONPath(["a"])).changed)
            #expect(store.value == ["a": ["x": 1, "y": 2]])
            #expect(try await store.unset(JSONPath(["a"])).changed == false)
        }
    }

    @Test("`unset` removes an override that equals the lower layers, without a new snapshot")
    func unsetOfTheSame() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            let document = SourceDocument(value: ["n": 1])
            _ = try await store.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
            _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
            #expect(try await !store.unset(JSONPath(["n"])).changed)
            #expect(await store.layers.override.isEmpty)
        }
    }

    @Test("an array element cannot be overridden, and the root must be an object")
    func invalidChanges() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            _ = try await store.set(JSONPath(["list"]), to: [1, 2], timeToLive: nil)
            for (path, value) in [(["list", "0"], 5), ([], 5)] as [([String], JSONValue)] {
                let error = await #expect(throws: ConfigError.self) {
                    try await store.set(JSONPath(path), to: value, timeToLive: nil)
                }
                #expect(error?.code == .invalidChange)
            }
            #expect(store.value == ["list": [1, 2]])
        }
    }

    @Test("readers on other threads see consistent snapshots with increasing revisions")
    func consistentSnapshots() async throws {
        var fixture = StoreFixture.local()
        fixture.durability = .relaxed
        defer { fixture.remove() }
        try await fixture.withStore { (store) async throws in
            let publication = store.publication
            let readers = (0..<2).map { _ in
                Task.detached {  // Outside the executor of this test, like readers on event loops.
                    var last = 0
                    var isConsistent = true
                    while !Task.isCancelled {
                        let snapshot = publication.current.snapshot
                        isConsistent = isConsistent && snapshot.revision >= last
                        isConsistent =
                            isConsistent && snapshot.value["pair"]?["left"] == snapshot.value["pair"]?["right"]
                        last = snapshot.revision
                        await Task.yield()
                    }
                    return isConsistent
                }
            }
            for number in 0..<500 {
                let value = JSONValue.int(number)
                _ = try await store.set(
                    JSONPath(["pair"]), to: .object([("left", value), ("right", value)]), timeToLive: nil)
            }
            for reader in readers {
                reader.cancel()
                #expect(await reader.value)
            }
        }
    }
}
