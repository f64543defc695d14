import ConfigTestSupport
import Glibc
import LarderJSON
import LarderPlatform
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

/// The observed steps of a commit, in order.
private final class Steps: Sendable {
    private let steps = Mutex([String]())

    var all: [String] { steps.withLock { $0 } }

    func add(_ step: String) { steps.withLock { $0.append(step) } }

    func clear() { steps.withLock { $0 = [] } }
}

/// Runs each job immediately, on the thread that enqueues it.
private final class InPlaceExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}

/// A change must be published before it is acknowledged. A durable change must be on disk before it is published.
@Suite("Order of a commit")
struct CommitOrderTests {
    /// Submits a change, records its reply, and returns when the commit is complete.
    private func change(_ store: ConfigStore, _ name: String, to value: JSONValue, _ steps: Steps) async {
        let publication = store.publication
        let storage = store.storage
        _ = store.submit(name, value) { result in
            let text = publication.current.snapshot.value.compactText
            let revision = (try? result.get().revision) ?? 0
            steps.add("reply \(name) \(revision): \(text), pending: \(storage.writer.isAtWork)")
        }
        await store.changes.waitUntilIdle()
    }

    /// Records a step for each later publication.
    private func observe(_ store: ConfigStore, _ steps: Steps, _ describe: @escaping @Sendable () -> String) {
        let snapshots = store.publication.snapshots()
        Task(executorPreference: InPlaceExecutor()) {
            for await _ in snapshots { steps.add(describe()) }
        }
        // Removes the step for the first snapshot of the stream, which was already current.
        steps.clear()
    }

    @Test("a relaxed change is published, then acknowledged, then passed to the generation writer")
    func relaxed() async throws {
        var fixture = StoreFixture.local()
        fixture.durability = .relaxed
        // The test never advances this clock, so the writer sleeps and pending generations stay pending.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let store = try await fixture.open()
        try await store.writeNow()
        let (steps, publication, storage) = (Steps(), store.publication, store.storage)
        #expect(!storage.writer.isAtWork)
        observe(store, steps) {
            "publish \(publication.current.snapshot.revision): \(publication.current.snapshot.value.compactText), "
                + "pending: \(storage.writer.isAtWork)"
        }
        await change(store, "a", to: 1, steps)
        #expect(
            steps.all == [#"publish 2: {"a":1}, pending: false"#, #"reply a 2: {"a":1}, pending: false"#])
        #expect(storage.writer.isAtWork)
        await store.stop()
    }

    @Test("a durable change is written, then published, then acknowledged, then passed to the generation writer")
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
                + "pending: \(storage.writer.isAtWork)"
        }
        await change(store, "a", to: 1, steps)
        #expect(
            steps.all == [
                "publish 2, journal: [2], pending: false", #"reply a 2: {"a":1}, pending: false"#,
            ])
        #expect(storage.writer.isAtWork)
        await store.stop()
    }

    @Test("changes that share a snapshot are published together and then acknowledged in order")
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
        let submit = { @Sendable (name: String, value: JSONValue) in
            _ = store.submit(name, value) { result in
                let count = publication.current.snapshot.value.count
                steps.add("reply \(name) \((try? result.get().revision) ?? 0), members: \(count)")
            }
        }
        submit("a", 1)
        await gate.waitForArrival()
        for name in ["b", "c"] { submit(name, 2) }
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

    @Test(
        "of a batch, accepted changes are completed first, then conflicts, then changes that the schema refuses",
        arguments: [false, true])
    func results(isDiskFull: Bool) async throws {
        let files = FaultyFileSystem()
        let gate = DispatchGate()
        var fixture = StoreFixture.local()
        fixture.files = files
        fixture.schema = #"{"properties": {"b": {"type": "integer"}}}"#
        defer { fixture.remove() }
        let store = try await fixture.open()
        let steps = Steps()
        files.blockJournalWrites(at: gate)
        let submit = { @Sendable (name: String, change: LayerChange) in
            _ = store.submit(change, on: nil) { result in
                switch result {
                case .success(let commit): steps.add("\(name) \(commit.revision)")
                case .failure(let error): steps.add("\(name) \(error.code)")
                }
            }
        }
        func set(_ name: String, _ value: JSONValue) -> LayerChange {
            .set(path: [name], value: value, timeToLive: nil, by: nil)
        }
        let condition = ChangeCondition(comparisons: [.init(path: ["none"], expected: 1)])
        submit("first", set("a", 1))
        await gate.waitForArrival()
        submit("refused", set("b", "x"))
        submit("conflict", set("c", 1).on(ChangeTerms(condition: condition)))
        submit("second", set("b", 2))
        submit("third", set("a", 2))
        if isDiskFull { files.failWrites(with: ENOSPC) }
        files.blockJournalWrites(at: nil)
        gate.open()
        await store.changes.waitUntilIdle()
        // A conflict was found in the result of the batch, which does not take effect if the disk is full.
        #expect(
            isDiskFull
                ? Set(steps.all.dropLast())
                    == ["first storageFailed", "second storageFailed", "third storageFailed", "conflict storageFailed"]
                : steps.all.dropLast() == ["first 2", "second 3", "third 3", "conflict conflict"])
        #expect(steps.all.last == "refused schemaViolation")
        files.failWrites(with: nil)
        await store.stop()
    }

    @Test("the status already reflects a document when its snapshot is published")
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
                + "awaits source: \(current.awaitsSource), changed: \(status.counters.changed), published: \(status.publishes)"
        }
        let document = SourceDocument(value: ["a": 1])
        _ = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        #expect(steps.all == ["publish 1: fresh, awaits source: false, changed: 1, published: 1"])
        await store.stop()
    }

    @Test("a change that cannot be written is not published, and its error is in the status before the caller gets it")
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
