import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel

@Suite("Resolution of the layers at changed paths")
struct PartialResolutionTests {
    private static let names = ["a", "b", "c", "d"]
    private static let context = ChangeContext(
        limits: DocumentLimits(maximumBytes: .max), now: 1, recordsOperations: false)

    private static func set(_ path: [String], _ value: JSONValue) -> LayerChange {
        .set(path: path, value: value, timeToLive: nil, by: nil)
    }

    private static func value(_ generator: inout SeededGenerator, depth: Int = 0) -> JSONValue {
        switch Int.random(in: 0..<(depth < 2 ? 8 : 5), using: &generator) {
        case 0, 1: .null
        case 2: [1, 2]
        case 3, 4: .int(Int.random(in: 0...3, using: &generator))
        default: object(&generator, depth: depth)
        }
    }

    private static func object(_ generator: inout SeededGenerator, depth: Int = 0) -> JSONValue {
        .object(
            names.shuffled(using: &generator).prefix(Int.random(in: 0...4, using: &generator)).map {
                ($0, value(&generator, depth: depth + 1))
            })
    }

    private static func path(_ generator: inout SeededGenerator) -> [String] {
        (0..<Int.random(in: 1...3, using: &generator)).compactMap { _ in names.randomElement(using: &generator) }
    }

    private static func change(_ generator: inout SeededGenerator) -> LayerChange {
        let path = path(&generator)
        return Int.random(in: 0..<4, using: &generator) == 0
            ? .unset(path: path, by: nil) : set(path, value(&generator))
    }

    @Test(
        "editing the changed members gives the same text as resolving all layers again",
        arguments: [1, 2, 3, SeededGenerator.randomSeed] as [UInt64])
    func sameAsResolved(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var edited = 0
        for _ in 0..<400 {
            let host = Self.object(&generator)
            var layers = Layers(host: Bool.random(using: &generator) ? FileDocument(document: host, updatedAt: 0) : nil)
            for _ in 0..<20 {
                let (old, current) = (layers, layers.resolved())
                var difference = ResolvedDifference.none
                for _ in 0..<Int.random(in: 1...4, using: &generator) {
                    let change = Self.change(&generator)
                    if let effect = try? change.apply(to: &layers, Self.context, resolved: layers.resolved()) {
                        difference.add(effect.difference)
                    }
                }
                guard let paths = difference.paths,
                    let result = layers.resolved(editing: current, of: old, at: paths)
                else { continue }
                edited += 1
                let expected = layers.resolved()
                #expect(result.value.compactText == expected.compactText, "seed \(seed), from \(current), at \(paths)")
                #expect(result.differs == (expected != current), "seed \(seed)")
            }
        }
        #expect(edited > 1000)
    }

    @Test(
        "resolving around a path gives the value at the path and the arrays above it",
        arguments: [1, 2, 3, SeededGenerator.randomSeed] as [UInt64])
    func around(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<400 {
            var layers = Layers(host: FileDocument(document: Self.object(&generator), updatedAt: 0))
            for _ in 0..<20 {
                _ = try? Self.change(&generator).apply(to: &layers, Self.context, resolved: layers.resolved())
                // The host files can have changed after the overrides were set.
                if Int.random(in: 0..<8, using: &generator) == 0 {
                    layers[.host] = FileDocument(document: Self.object(&generator), updatedAt: 0)
                }
                let (all, path) = (layers.resolved(), Self.path(&generator))
                let part = layers.resolved(around: path)
                #expect(
                    part.value(at: JSONPath(path))?.compactText == all.value(at: JSONPath(path))?.compactText,
                    "seed \(seed), at \(path) of \(all)")
                for count in path.indices {
                    let above = JSONPath(Array(path[..<count]))
                    #expect(
                        (part.value(at: above)?.kind == .array) == (all.value(at: above)?.kind == .array),
                        "seed \(seed), at \(above) of \(all)")
                }
            }
        }
    }

    /// Layers with a collection of overrides.
    private static func collection() -> Layers {
        var layers = Layers(host: FileDocument(document: ["records": ["lower": ["x": 1]]], updatedAt: 0))
        for index in 0..<40 {
            layers.override.set(
                OverrideEntry(path: ["records", "\(index)"], value: ["id": .int(index), "tags": []], setAt: 1))
        }
        return layers
    }

    @Test(
        "records of a collection are edited without a merge of all layers",
        arguments: [
            [set(["records", "7"], ["id": 7, "title": "new"])],
            [set(["records", "7", "title"], "new"), set(["records", "7", "tags"], .null)],
            [set(["records", "new"], ["id": 1]), set(["records", "newer"], 1)],
            [set(["records", "lower"], ["y": 2])],
            [.unset(path: ["records", "39"], by: nil), .unset(path: ["records", "0"], by: nil)],
            [set(["records", "lower"], .null)],
            // The whole record replaces the override of its member, and becomes the last record.
            [set(["records", "7", "title"], "new"), set(["records", "7"], ["id": 7])],
            // A new record, as the library saves it.
            [set(["records", "new"], .null), set(["records", "new", "id"], 1), set(["records", "new", "tags"], [])],
        ] as [[LayerChange]])
    func records(changes: [LayerChange]) throws {
        var layers = Self.collection()
        for _ in 0..<2 {
            let (old, current) = (layers, layers.resolved())
            var difference = ResolvedDifference.none
            for change in changes {
                if let effect = try change.apply(to: &layers, Self.context, resolved: layers.resolved()) {
                    difference.add(effect.difference)
                }
            }
            let paths = try #require(difference.paths)
            let result = try #require(layers.resolved(editing: current, of: old, at: paths))
            #expect(result.value.compactText == layers.resolved().compactText)
        }
    }

    private static func state(_ layers: Layers) -> CommittedState {
        let numbers = RevisionNumbering.Recovered(
            revision: 1, journalSequence: 0, reservedBound: 0, settledBound: 0, highestNamed: 0)
        return CommittedState(
            layers: layers, snapshot: ConfigSnapshot(value: layers.resolved(), revision: 1, publishedAt: 1),
            history: GenerationHistory(), numbering: RevisionNumbering(after: numbers, first: 1))
    }

    /// A change, an increment, several changes, or a change with a condition.
    private static func request(_ generator: inout SeededGenerator) -> LayerChange {
        switch Int.random(in: 0..<8, using: &generator) {
        case 0: return .increment(path: path(&generator), CounterStep(by: 1), by: nil)
        case 1, 2:
            return .several(
                (0..<Int.random(in: 1...12, using: &generator)).map { _ in change(&generator) }, by: nil)
        case 3:
            let expected: JSONValue? = Bool.random(using: &generator) ? nil : 1
            let condition = ChangeCondition(comparisons: [.init(path: path(&generator), expected: expected)])
            return .requested(change(&generator), ChangeTerms(condition: condition))
        default: return change(&generator)
        }
    }

    @Test(
        "a batch of many changes rejects the same changes as several batches",
        arguments: [1, 2, 3, SeededGenerator.randomSeed] as [UInt64])
    func manyChanges(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<40 {
            var layers = Layers(host: FileDocument(document: Self.object(&generator), updatedAt: 0))
            let state = Self.state(layers)
            var batch = ChangeBatch(on: state, Self.context)
            var accepted: [Bool] = []
            for _ in 0..<60 {
                let change = Self.request(&generator)
                batch.add(change)
                var alone = ChangeBatch(on: Self.state(layers), Self.context)
                accepted.append((try? alone.apply(change)) != nil)
                layers = alone.layers
            }
            #expect(batch.results.map { (try? $0.get()) != nil } == accepted, "seed \(seed)")
            #expect(batch.resolve().snapshot?.value ?? state.snapshot.value == layers.resolved(), "seed \(seed)")
        }
    }
}
