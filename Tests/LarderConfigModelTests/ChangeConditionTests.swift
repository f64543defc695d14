import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Conditions, increments and several changes as one")
struct ChangeConditionTests {
    private static let epoch = "00ff00ff00ff00ff"

    /// A state whose current snapshot has revision 1.
    private func state(_ value: JSONValue = ["a": ["x": 1], "n": 5]) throws -> CommittedState {
        var layers = Layers()
        layers[.host] = FileDocument(document: value, updatedAt: 1)
        return CommittedState(
            layers: layers, snapshot: ConfigSnapshot(value: layers.resolved(), revision: 1, publishedAt: 1),
            history: GenerationHistory(),
            numbering: RevisionNumbering(
                after: RevisionNumbering.Recovered(
                    revision: 1, journalSequence: 0, reservedBound: 0, settledBound: 0, highestNamed: 0), first: 1),
            epoch: Self.epoch)
    }

    private func batch(_ state: CommittedState) -> ChangeBatch { ChangeBatch(on: state, context(now: 1000)) }

    private func context(now: Int) -> ChangeContext {
        ChangeContext(limits: DocumentLimits(maximumBytes: 10_000), now: now, recordsOperations: true)
    }

    private func set(_ path: [String], _ value: JSONValue) -> LayerChange {
        .set(path: path, value: value, timeToLive: nil, by: nil)
    }

    private func condition(
        revision: Int? = nil, epoch: String? = nil, _ comparisons: (path: [String], expected: JSONValue?)...
    ) -> ChangeTerms {
        ChangeTerms(
            condition: ChangeCondition(
                revision: revision, epoch: epoch,
                comparisons: comparisons.map { .init(path: $0.path, expected: $0.expected) }))
    }

    /// Applies a change, and returns the error code if the change is rejected; nil if it is made.
    private func rejection(_ change: LayerChange, _ batch: inout ChangeBatch) -> ConfigError.Code? {
        do throws(ConfigError) {
            _ = try batch.apply(change)
            return nil
        } catch {
            return error.code
        }
    }

    // MARK: Conditions

    @Test("a condition on the revision holds if revision and epoch are current, and is a conflict otherwise")
    func revision() throws {
        var batch = batch(try state())
        #expect(rejection(set(["b"], 1).on(condition(revision: 2)), &batch) == .conflict)
        #expect(rejection(set(["b"], 1).on(condition(revision: 1, epoch: "0000000000000000")), &batch) == .conflict)
        #expect(!batch.hasChanged)
        #expect(rejection(set(["b"], 1).on(condition(revision: 1, epoch: Self.epoch)), &batch) == nil)
        #expect(batch.hasChanged)
    }

    @Test("a condition on the revision is a conflict after an earlier change of the batch")
    func revisionInBatch() throws {
        var batch = batch(try state())
        _ = try batch.apply(set(["b"], 1))
        #expect(rejection(set(["c"], 1).on(condition(revision: 1)), &batch) == .conflict)
        #expect(rejection(.unset(path: ["b"], by: nil).on(condition(revision: 1)), &batch) == .conflict)
    }

    @Test("a condition on the revision holds after earlier changes of the batch that leave the document as it is")
    func sameDocumentInBatch() throws {
        var batch = batch(try state())
        _ = try batch.apply(set(["n"], 5))
        _ = try batch.apply(set(["b"], 1))
        _ = try batch.apply(.unset(path: ["b"], by: nil))
        #expect(rejection(set(["c"], 1).on(condition(revision: 1)), &batch) == nil)
    }

    @Test("a condition on a value compares the resolved value, regardless of the order of members")
    func values() throws {
        var batch = batch(try state(["a": ["x": 1, "y": 2], "n": 5]))
        let reordered = try JSONValue(parsing: #"{"y":2,"x":1}"#)
        #expect(rejection(set(["b"], 1).on(condition((["a"], reordered))), &batch) == nil)
        #expect(rejection(set(["b"], 2).on(condition((["n"], 6))), &batch) == .conflict)
        #expect(rejection(set(["b"], 2).on(condition((["n"], nil))), &batch) == .conflict)
        #expect(rejection(set(["b"], 2).on(condition((["none"], 1))), &batch) == .conflict)
        #expect(rejection(set(["b"], 2).on(condition((["none"], nil))), &batch) == nil)
        #expect(rejection(set(["b"], 3).on(condition((["n"], try JSONValue(parsing: "5.0")))), &batch) == .conflict)
    }

    @Test("a condition on a value sees the earlier changes of the batch")
    func valuesInBatch() throws {
        var batch = batch(try state())
        let take = { (expected: Int) in
            self.set(["owner"], .int(expected + 1)).on(self.condition((["owner"], .int(expected))))
        }
        #expect(rejection(set(["owner"], 0).on(condition((["owner"], nil))), &batch) == nil)
        #expect(rejection(set(["owner"], 0).on(condition((["owner"], nil))), &batch) == .conflict)
        #expect(rejection(take(0), &batch) == nil)
        #expect(rejection(take(0), &batch) == .conflict)
        #expect(rejection(take(1), &batch) == nil)
        // A change at a path also changes the resolved values above and below that path.
        _ = try batch.apply(set(["a", "y"], 2))
        #expect(rejection(set(["b"], 1).on(condition((["a"], ["x": 1]))), &batch) == .conflict)
        #expect(rejection(set(["b"], 1).on(condition((["a"], ["x": 1, "y": 2]))), &batch) == nil)
        _ = try batch.apply(set(["a"], ["x": JSONValue.null]))
        #expect(rejection(set(["b"], 2).on(condition((["a", "x"], 1))), &batch) == .conflict)
        #expect(rejection(set(["b"], 2).on(condition((["a", "x"], nil))), &batch) == nil)
    }

    @Test("a condition at a locked path compares the resolved value, not the override that the lock hides")
    func locked() throws {
        let state = try state()
        var first = batch(state)
        _ = try first.apply(set(["n"], 7))
        _ = try first.apply(.rules(LayerRules(locks: LockedPaths([JSONPath(["n"])]))))
        #expect(rejection(set(["b"], 1).on(condition((["n"], 7))), &first) == .conflict)
        #expect(rejection(set(["b"], 1).on(condition((["n"], 5))), &first) == nil)
    }

    @Test("after random changes in a batch, a condition gives the same result as on the fully resolved document")
    func randomBatches() throws {
        var generator = SystemRandomNumberGenerator()
        let names = ["a", "b", "c"]
        func path() -> [String] { (0..<Int.random(in: 1...3, using: &generator)).map { _ in names.randomElement()! } }
        func value() -> JSONValue {
            [1, 2, "x", .null, ["a": 1], ["b": ["c": 2]], .array([1]), .emptyObject].randomElement()!
        }
        for _ in 0..<300 {
            let state = try state(["a": ["b": 1], "c": [1, 2]])
            var batch = batch(state)
            for _ in 0..<8 {
                let change =
                    Bool.random(using: &generator)
                    ? set(path(), value()) : LayerChange.unset(path: path(), by: nil)
                _ = try? batch.apply(change)
                let compared = path()
                let resolved = batch.layers.resolved()
                let expected = resolved.value(at: JSONPath(compared))
                var probe = batch
                #expect(rejection(set(["probe"], 1).on(condition((compared, expected))), &probe) != .conflict)
                probe = batch
                #expect(rejection(set(["probe"], 1).on(condition((compared, "other"))), &probe) == .conflict)
                probe = batch
                let isCurrent = resolved == state.snapshot.value
                let byRevision = rejection(set(["probe"], 1).on(condition(revision: 1)), &probe)
                #expect((byRevision == .conflict) == !isCurrent)
            }
        }
    }

    // MARK: Increments

    @Test("increments add to the resolved value, including earlier increments of the batch, or to 0 if no value exists")
    func increments() throws {
        var batch = batch(try state())
        let add = { (path: [String], step: CounterStep) in LayerChange.increment(path: path, step, by: nil) }
        #expect(try batch.apply(add(["n"], CounterStep(by: 2))).number == 7)
        #expect(try batch.apply(add(["n"], CounterStep(by: -3))).number == 4)
        #expect(try batch.apply(add(["new", "count"], CounterStep(by: 1))).number == 1)
        #expect(batch.layers.resolved().value(at: JSONPath(["new", "count"])) == 1)
        #expect(batch.operations.count == 3)
        // The two increments at `n` have equal causes, so the batch contains only one of them.
        #expect(batch.causes.map(\.path) == ["n", "new.count"].map { $0.split(separator: ".").map(String.init) })
    }

    @Test("an increment beyond its bounds is a conflict; it is invalid if the value or sum is not an exact integer")
    func incrementLimits() throws {
        let largest = CounterStep.exactIntegers.upperBound
        var batch = batch(
            try state(["n": 0, "big": .int(largest), "half": 1.5, "text": "1", "beyond": .int(largest + 1)]))
        let add = { (name: String, step: CounterStep) in LayerChange.increment(path: [name], step, by: nil) }
        #expect(rejection(add("n", CounterStep(by: -1, minimum: 0)), &batch) == .conflict)
        #expect(rejection(add("n", CounterStep(by: 4, maximum: 3)), &batch) == .conflict)
        for name in ["big", "half", "text", "beyond"] {
            #expect(rejection(add(name, CounterStep(by: 1)), &batch) == .invalidChange, "\(name)")
        }
        #expect(!batch.hasChanged)
        #expect(rejection(add("n", CounterStep(by: 3, minimum: 3, maximum: 3)), &batch) == nil)
        #expect(rejection(add("big", CounterStep(by: -largest)), &batch) == nil)
    }

    @Test("an increment keeps the expiry of the override")
    func incrementOfExpiring() throws {
        var batch = batch(try state())
        _ = try batch.apply(.set(path: ["n"], value: 1, timeToLive: .seconds(60), by: nil))
        let result = try batch.apply(.increment(path: ["n"], CounterStep(by: 1), by: nil))
        #expect(result.number == 2 && result.lifetime?.changed == false)
        #expect(batch.layers.override.entry(at: ["n"])?.expiresAt == 61_000)
    }

    // MARK: Several changes

    @Test("several changes made as one have one cause, and each that takes effect is journaled")
    func several() throws {
        let state = try state()
        var batch = batch(state)
        let change = LayerChange.several(
            [set(["a", "x"], 2), set(["a", "y", "z"], 3), .unset(path: ["a", "q"], by: nil)], by: nil)
        #expect(try batch.apply(change.on(ChangeTerms(reason: "test"))).layerChanged)
        #expect(batch.layers.resolved() == ["a": ["x": 2, "y": ["z": 3]], "n": 5])
        #expect(batch.operations.count == 2)
        #expect(batch.causes == [ChangeCause(.apply, path: ["a"], reason: "test")])
        #expect(batch.layers.override.entry(at: ["a", "x"])?.reason == "test")
    }

    @Test("if one of several changes made as one is rejected, none of them is made")
    func severalRejected() throws {
        var batch = batch(try state(["list": [1], "n": 5]))
        _ = try batch.apply(set(["before"], 1))
        let changes = [set(["a"], 1), set(["list", "0"], 2)]
        #expect(rejection(.several(changes, by: nil), &batch) == .invalidChange)
        #expect(rejection(.several([set(["list"], 1), set(["list", "x"], 2)], by: nil), &batch) == nil)
        #expect(batch.layers.resolved() == ["list": ["x": 2], "n": 5, "before": 1])
        #expect(batch.operations.count == 3 && batch.causes.count == 2)
    }

    @Test("all conditions of several changes made as one are checked before the first change is made")
    func severalCompared() throws {
        var batch = batch(try state())
        let changes = LayerChange.several([set(["n"], 6), set(["m"], 5)], by: nil)
        #expect(rejection(changes.on(condition((["n"], 5), (["m"], nil))), &batch) == nil)
        #expect(rejection(changes.on(condition((["n"], 6), (["m"], 6))), &batch) == .conflict)
    }

    // MARK: Dry runs

    @Test("a preview shows the document that a commit would publish, and changes nothing")
    func preview() async throws {
        let state = try state()
        let preview = try await state.preview(set(["a", "x"], 2).on(condition(revision: 1)), context(now: 1))
        #expect(preview.current.revision == 1 && preview.value == ["a": ["x": 2], "n": 5])
        let places = await preview.difference().places
        #expect(places == [.init(path: JSONPath(["a", "x"]), old: 1, new: 2)])
        #expect(state.layers.override.isEmpty && state.snapshot.revision == 1)
        await #expect(throws: ConfigError.self) {
            try await state.preview(set(["a"], 1).on(condition(revision: 7)), context(now: 1))
        }
    }
}
