import ConfigTestSupport
import Glibc
import LarderJSON
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

/// The steps of a commit in the order in which they were seen.
private final class Steps: Sendable {
    private let seen = Mutex([String]())

    var all: [String] { seen.withLock { $0 } }

    func add(_ step: String) { seen.withLock { $0.append(step) } }

    func clear() { seen.withLock { $0 = [] } }
}

/// Runs the steps of its tasks in place, on the thread that makes them ready.
private final class InPlaceExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}

/// The order of a commit: a client must never read an acknowledged change that is not yet published, nor a durable change
/// that is not on disk.
@Suite("The order of a commit")
struct CommitOrderTests {
    /// Hands over a change, notes its reply, and returns once the commit is complete.
    private func change(_ store: ConfigStore, _ name: String, to value: JSONValue, _ steps: Steps) async {
        let publication = store.publication
        let storage = store.storage
        _ = store.submit(name, value) { result in
            let text = publication.current.snapshot.value.compactText
            steps.add("reply \(name) \((try? result.get().revision) ?? 0): \(text), pending: \(storage.isAtWork)")
        }
        await store.changes.waitUntilIdle()
    }

    /// Notes each publication from now on.
    private func observe(_ store: ConfigStore, _ steps: Steps, _ describe: @escaping @Sendable () -> String) {
        let snapshots = store.publication.snapshots()
        Task(executorPreference: InPlaceExecutor()) {
            for await _ in snapshots { steps.add(describe()) }
        }
        // The first snapshot was current already.
        steps.clear()
    }

    @Test("a relaxed change is published, then acknowledged, then handed to the generation writer")
    func relaxed() async throws {
        var fixture = StoreFixture.local()
        fixture.durability = .relaxed
        // The writer sleeps while this clock stands still, so that what is pending stays pending.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let store = try await fixture.open()
        try await store.writeNow()
        let (steps, publication, storage) = (Steps(), store.publication, store.storage)
        #expect(!storage.isAtWork)
        observe(store, steps) {
            "publish \(publication.current.snapshot.revision): \(publication.current.snapshot.value.compactText), "
                + "pending: \(storage.isAtWork)"
        }
        await change(store, "a", to: 1, steps)
        #expect(
            steps.all == [#"publish 2: {"a":1}, pending: false"#, #"reply a 2: {"a":1}, pending: false"#])
        #expect(storage.isAtWork)
        await store.stop()
    }

    @Test("a durable change is on disk, then published, then acknowledged, then handed to the generation writer")
    func durable() async throws {
        var fixture = StoreFixture.local()
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let store = try await fixture.open()
        try await store.writeNow()
        let (steps, publication, storage) = (Steps(), store.publication, store.storage)
        let journal = fixture.directory + "/journal"
        observe(store, steps) {
            let content = (try? LocalFileSystem().readJournal(journal))?.flatMap { $0 }
            let onDisk = content.map { JournalReader($0.bytes, zeros: $0.zeros, after: 0).records.map(\.revision) }
            return "publish \(publication.current.snapshot.revision), journal: \(onDisk ?? []), "
                + "pending: \(storage.isAtWork)"
        }
        await change(store, "a", to: 1, steps)
        #expect(
            steps.all == [
                "publish 2, journal: [2], pending: false", #"reply a 2: {"a":1}, pending: false"#,
            ])
        #expect(storage.isAtWork)
        await store.stop()
    }

    @Test("changes that share a snapshot are all published before the first of them is acknowledged, in their order")
    func batch() async throws {
        let files = FaultyFileSystem()
        let gate = DispatchGate()
        var fixture = StoreFixture.local()
        fixture.files = files
        defer { fixture.remove() }
        let store = try await fixture.open()
        let (steps, publication) = (Steps(), store.publication)
        observe(store, steps) { "publish \(publication.current.snapshot.revision)" }
        files.blockJournalWrites(at: gate)
        let hand = { @Sendable (name: String, value: JSONValue) in
            _ = store.submit(name, value) { result in
                let count = publication.current.snapshot.value.count
                steps.add("reply \(name) \((try? result.get().revision) ?? 0), members: \(count)")
            }
        }
        hand("a", 1)
        await gate.waitForArrival()
        for name in ["b", "c"] { hand(name, 2) }
        #expect(steps.all.isEmpty)
        files.blockJournalWrites(at: nil)
        gate.open()
        await store.changes.waitUntilIdle()
        #expect(
            steps.all == [
                "publish 2", "reply a 2, members: 1", "publish 3", "reply b 3, members: 3", "reply c 3, members: 3",
            ])
        await store.stop()
    }

    @Test("the status that follows from a document is current when its snapshot is published")
    func statusFirst() async throws {
        var fixture = StoreFixture()
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let store = try await fixture.open()
        await store.refreshBegan(isLongPoll: false)
        let (steps, publication) = (Steps(), store.publication)
        #expect(publication.current.freshness == .refreshing)
        observe(store, steps) {
            let (current, status) = (publication.current, publication.status)
            return "publish \(current.snapshot.revision): \(current.freshness), "
                + "awaits source: \(current.awaitsSource), changed: \(status.counters.changed), published: \(status.counters.publishes)"
        }
        let document = SourceDocument(value: ["a": 1])
        _ = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        #expect(steps.all == ["publish 1: fresh, awaits source: false, changed: 1, published: 1"])
        await store.stop()
    }

    @Test("a change that the disk refuses publishes nothing, and its status is current when it is refused")
    func refused() async throws {
        let files = FaultyFileSystem()
        var fixture = StoreFixture.local()
        fixture.files = files
        defer { fixture.remove() }
        let store = try await fixture.open()
        let (steps, publication) = (Steps(), store.publication)
        observe(store, steps) { "publish \(publication.current.snapshot.revision)" }
        files.failWrites(with: ENOSPC)
        _ = store.submit("a", 1) { result in
            guard case .failure(let error) = result else { return steps.add("accepted") }
            let status = publication.status.lastError?.error.code
            steps.add("refused \(error.code), status: \(status.map { "\($0)" } ?? "none")")
        }
        await store.changes.waitUntilIdle()
        #expect(steps.all == ["refused storageFailed, status: storageFailed"])
        files.failWrites(with: nil)
        await store.stop()
    }
}
