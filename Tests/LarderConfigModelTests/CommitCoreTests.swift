import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Commit core")
struct CommitCoreTests {
    private static let limits = DocumentLimits(maximumBytes: 1000)

    private func core() -> CommitCore {
        let layers = Layers()
        return CommitCore(
            layers: layers, snapshot: ConfigSnapshot(value: layers.resolved(), revision: 0, publishedAt: 1),
            history: GenerationHistory(),
            numbering: RevisionNumbering(
                after: RevisionNumbering.Recovered(
                    revision: 0, journalSequence: 0, reservedBound: 0, settledBound: 0, highestNamed: 0), first: 0))
    }

    private func set(_ path: [String], _ value: JSONValue) -> LayerChange {
        .set(path: path, value: value, timeToLive: nil, by: nil)
    }

    private func commit(_ changes: [LayerChange], to core: CommitCore) throws -> CommitCore.Effects {
        var batch = core.batch(limits: Self.limits, now: 2, recordsOperations: true)
        for change in changes { _ = try batch.apply(change) }
        batch.finish()
        let resolution = core.resolve(batch, mayPublishEmpty: true, now: 2)
        let need = core.need(for: resolution, of: batch, writesJournal: true)
        return core.commit(batch, resolution, causes: batch.causes, met: need)
    }

    @Test("a batch of changes makes one snapshot with the causes of all changes")
    func batch() throws {
        let core = core()
        let effects = try commit([set(["a"], 1), set(["b"], 2)], to: core)
        #expect(effects.isNew)
        #expect(core.snapshot.revision == 1 && core.snapshot.value == ["a": 1, "b": 2])
        #expect(core.history.current?.causes.map(\.path) == [["a"], ["b"]])
        #expect(core.numbering.journalSequence == 1)
    }

    @Test("changes that leave the resolved value the same make no snapshot, but update the current generation")
    func sameValue() throws {
        let core = core()
        _ = try commit([set(["a"], 1)], to: core)
        let effects = try commit([set(["a"], 2), set(["a"], 1)], to: core)
        #expect(!effects.isNew && core.snapshot.revision == 1)
        #expect(core.numbering.journalSequence == 2 && core.currentGeneration.journalSequence == 2)
    }

    @Test("a batch with `recordsOperations: false` needs a reservation of revisions instead of a journal record")
    func notRecorded() throws {
        let core = core()
        var batch = core.batch(limits: Self.limits, now: 2, recordsOperations: false)
        _ = try batch.apply(.set(path: ["a"], value: 1, timeToLive: .seconds(1), by: nil))
        batch.finish()
        #expect(batch.operations.isEmpty && batch.newExpiries == [ExpiringOverride(path: ["a"], expiresAt: 1002)])
        let resolution = core.resolve(batch, mayPublishEmpty: true, now: 2)
        guard case .reservation = core.need(for: resolution, of: batch, writesJournal: true) else {
            Issue.record("expected a reservation")
            return
        }
    }

    @Test("a replay of an expiry keeps other overrides that have expired, because the schema may have kept them")
    func replayedExpiry() throws {
        let core = core()
        for (name, end) in [("kept", 1), ("ended", 2), ("later", 9)] {
            _ = try commit(
                [.set(path: [name], value: 1, timeToLive: .milliseconds(end), by: nil)], to: core)
        }
        var replayed = core.layers
        var batch = core.batch(limits: Self.limits, now: 20, recordsOperations: true)
        let ended = core.layers.override.expiringEntries.filter { $0.path != ["kept"] }
            .compactMap { entry in entry.expiresAt.map { ExpiringOverride(path: entry.path, expiresAt: $0) } }
        _ = try batch.apply(.expireOverrides(ended))
        _ = try batch.apply(set(["a"], 1))
        batch.finish()
        for operation in batch.operations { operation.apply(to: &replayed) }
        #expect(batch.layers.resolved() == ["kept": 1, "a": 1])
        #expect(replayed.override.entries == batch.layers.override.entries)
    }

    @Test(
        "the current generation is the object in the history; after reservations are settled, it has the settled bound"
    )
    func sharedGeneration() throws {
        let core = core()
        _ = try commit([set(["a"], 1)], to: core)
        #expect(core.currentGeneration === core.history.current)
        core.settleReservations()
        let settled = core.currentGeneration
        #expect(settled.released == core.numbering.settledBound && settled.causes.map(\.path) == [["a"]])
    }

    @Test("a refused change does not alter the batch")
    func refused() throws {
        let core = core()
        var batch = core.batch(limits: Self.limits, now: 2, recordsOperations: true)
        _ = try batch.apply(set(["a"], 1))
        #expect(throws: ConfigError.self) {
            try batch.apply(set(["b"], .string(String(repeating: "x", count: 2000))))
        }
        #expect(batch.layers.resolved() == ["a": 1] && batch.causes.count == 1)
    }
}
