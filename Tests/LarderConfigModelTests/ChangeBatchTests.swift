import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Batches of changes")
struct ChangeBatchTests {
    private func context(now: Int = 2, recordsOperations: Bool = true) -> ChangeContext {
        ChangeContext(limits: DocumentLimits(maximumBytes: 1000), now: now, recordsOperations: recordsOperations)
    }

    private func emptyState() -> CommittedState {
        let layers = Layers()
        return CommittedState(
            layers: layers, snapshot: ConfigSnapshot(value: layers.resolved(), revision: 0, publishedAt: 1),
            history: GenerationHistory(),
            numbering: RevisionNumbering(
                after: RevisionNumbering.Recovered(
                    revision: 0, journalSequence: 0, reservedBound: 0, settledBound: 0, highestNamed: 0), first: 0))
    }

    private func set(_ path: [String], _ value: JSONValue) -> LayerChange {
        .set(path: path, value: value, timeToLive: nil, by: nil)
    }

    /// Commits changes as one batch, and replaces the state.
    /// - Returns: whether there is a new snapshot
    private func commit(_ changes: [LayerChange], to state: inout CommittedState) throws -> Bool {
        var batch = ChangeBatch(on: state, context())
        for change in changes { batch.add(change) }
        for result in batch.results { _ = try result.get() }
        let resolution = batch.resolve()
        state = batch.committed(with: resolution).state
        return resolution.isNew
    }

    @Test("a batch of changes makes one snapshot with the causes of all changes")
    func batch() throws {
        var state = emptyState()
        #expect(try commit([set(["a"], 1), set(["b"], 2)], to: &state))
        #expect(state.snapshot.revision == 1 && state.snapshot.value == ["a": 1, "b": 2])
        #expect(state.generation.causes.map(\.path) == [["a"], ["b"]])
        #expect(state.numbering.journalSequence == 1)
    }

    @Test("changes that leave the resolved value the same make no snapshot, but update the current generation")
    func sameValue() throws {
        var state = emptyState()
        _ = try commit([set(["a"], 1)], to: &state)
        #expect(try !commit([set(["a"], 2), set(["a"], 1)], to: &state))
        #expect(state.snapshot.revision == 1)
        #expect(state.numbering.journalSequence == 2 && state.generation.journalSequence == 2)
        #expect(state.generation.causes.map(\.path) == [["a"]])
    }

    @Test("the history replaces the current snapshot if only its layers change, and keeps the layers as published")
    func history() throws {
        var state = emptyState()
        var history = GenerationHistory()
        _ = try commit([set(["a"], 1)], to: &state)
        history.append(state.generation)
        let published = state.layers
        _ = try commit([.unset(path: ["none"], by: nil)], to: &state)
        #expect(state.generation.published == nil)
        _ = try commit([.set(path: ["a"], value: 1, timeToLive: .seconds(9), by: nil)], to: &state)
        history.update(state.generation)
        #expect(history.generations.count == 1 && history.current === state.generation)
        #expect(history.current?.publishedLayers.override.entries == published.override.entries)
        #expect(history.current?.layers.override.expiring == 1)
    }

    @Test("a batch has the result of each change in its order; a rejected or failed change alters nothing else")
    func results() throws {
        var batch = ChangeBatch(on: emptyState(), context())
        batch.add(set(["a"], 1))
        #expect(!batch.hasFailures)
        batch.add(set(["b"], .string(String(repeating: "x", count: 2000))))
        batch.reject([
            SchemaProblem(path: JSONPath(["c"]), schemaLocation: "#", keyword: "type", message: "", layer: nil)
        ])
        batch.add(set(["a"], 1))
        #expect(batch.hasFailures && batch.rejections == 1 && batch.comesFromClient && batch.concernsOnlyOverrides)
        let codes = batch.results.map { result -> ConfigError.Code? in
            guard case .failure(let error) = result else { return nil }
            return error.code
        }
        #expect(codes == [nil, .rejected, .schemaViolation, nil])
        #expect(batch.layers.resolved() == ["a": 1])
    }

    @Test("a batch with `recordsOperations: false` needs a reservation of revisions instead of a journal record")
    func notRecorded() throws {
        var batch = ChangeBatch(on: emptyState(), context(recordsOperations: false))
        _ = try batch.apply(.set(path: ["a"], value: 1, timeToLive: .seconds(1), by: nil))
        #expect(batch.operations.isEmpty && batch.newExpiries == [ExpiringOverride(path: ["a"], expiresAt: 1002)])
        guard case .reservation = batch.committed(with: batch.resolve()).write else {
            Issue.record("expected a reservation")
            return
        }
    }

    @Test("a replay of an expiry keeps other overrides that have expired, because the schema may have kept them")
    func replayedExpiry() throws {
        var state = emptyState()
        for (name, end) in [("kept", 1), ("ended", 2), ("later", 9)] {
            _ = try commit([.set(path: [name], value: 1, timeToLive: .milliseconds(end), by: nil)], to: &state)
        }
        var replayed = state.layers
        var batch = ChangeBatch(on: state, context(now: 20))
        let ended = state.layers.override.expiringEntries.filter { $0.path != ["kept"] }
            .compactMap { entry in entry.expiresAt.map { ExpiringOverride(path: entry.path, expiresAt: $0) } }
        _ = try batch.apply(.expireOverrides(ended))
        _ = try batch.apply(set(["a"], 1))
        for operation in batch.operations { operation.apply(to: &replayed) }
        #expect(batch.layers.resolved() == ["kept": 1, "a": 1])
        #expect(replayed.override.entries == batch.layers.override.entries)
    }

    @Test("after reservations are settled, the current generation has the settled bound and its causes")
    func settled() throws {
        var state = emptyState()
        _ = try commit([set(["a"], 1)], to: &state)
        let settled = state.settled
        #expect(settled.numbering.settledBound == settled.numbering.reservedBound)
        #expect(settled.generation.released == settled.numbering.settledBound)
        #expect(settled.generation.causes.map(\.path) == [["a"]])
        #expect(settled.snapshot.revision == 1 && settled.numbering.journalSequence == 1)
    }

    @Test("a rejected change does not alter the batch")
    func rejected() throws {
        var batch = ChangeBatch(on: emptyState(), context())
        _ = try batch.apply(set(["a"], 1))
        #expect(throws: ConfigError.self) {
            try batch.apply(set(["b"], .string(String(repeating: "x", count: 2000))))
        }
        #expect(batch.layers.resolved() == ["a": 1] && batch.causes.count == 1)
    }
}
