import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel

@Suite("Replacement of scalars in the resolved configuration")
struct ScalarReplacementTests {
    private static let names = ["a", "b", "c", "d"]

    private func value(_ generator: inout SeededGenerator, depth: Int = 0) -> JSONValue {
        switch Int.random(in: 0..<(depth < 2 ? 8 : 6), using: &generator) {
        case 0: .null
        case 1: [1, 2]
        case 2: .bool(Bool.random(using: &generator))
        case 3...5: .string(String(repeating: "x", count: Int.random(in: 0...3, using: &generator)))
        default:
            JSONValue.building { writer in
                writer.beginObject()
                for name in Self.names.shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator)) {
                    writer.name(name)
                    writer.value(value(&generator, depth: depth + 1))
                }
                writer.endObject()
            }
        }
    }

    @Test("the digest of a large document is not ready before it is computed, and that of a small one always is")
    func readyDigest() async {
        let large = SnapshotDigest(of: .string(String(repeating: "a", count: 5 << 20)))
        #expect(!large.isReady)
        await large.computeConcurrently()
        #expect(large.isReady)
        #expect(SnapshotDigest(of: 1).isReady)
        #expect(SnapshotDigest(known: large.text).isReady)
    }

    @Test(
        "replacing scalars in a resolved document gives the same text as resolving the layers again",
        arguments: [1, 2, 3, SeededGenerator.randomSeed] as [UInt64])
    func sameAsResolved(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var replaced = 0
        for _ in 0..<400 {
            var base = value(&generator)
            while base.kind != .object { base = value(&generator) }
            var layers = Layers(host: FileDocument(document: base, updatedAt: 0))
            var current = layers.resolved()
            for _ in 0..<12 {
                var difference = ResolvedDifference.none
                for _ in 0..<Int.random(in: 1...3, using: &generator) {
                    let path = (0..<Int.random(in: 1...3, using: &generator)).compactMap { _ in
                        Self.names.randomElement(using: &generator)
                    }
                    let change = LayerChange.set(path: path, value: value(&generator), timeToLive: nil, by: nil)
                    let context = ChangeContext(
                        limits: DocumentLimits(maximumBytes: .max), now: 1, recordsOperations: false)
                    if let effect = try? change.apply(to: &layers, context, resolved: layers.resolved()) {
                        difference.add(effect.difference)
                    }
                }
                let expected = layers.resolved()
                if case .scalar(_, let differs) = difference {
                    #expect(differs == (expected != current), "seed \(seed)")
                }
                if let edited = difference.replacements.flatMap({ current.replacing($0) }) {
                    replaced += 1
                    #expect(edited.compactText == expected.compactText, "seed \(seed)")
                }
                current = expected
            }
        }
        #expect(replaced > 100)
    }

    @Test(
        "concurrent first readers of a snapshot's digest all get the digest of the snapshot's text",
        arguments: [3, 3_000_000])
    func digest(length: Int) async {
        let value: JSONValue = ["a": .string(String(repeating: "x", count: length))]
        let digest = SnapshotDigest(of: value)
        let texts = await withTaskGroup(of: String.self) { group in
            for _ in 0..<4 { group.addTask { digest.text } }
            return await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(texts == [SnapshotDigest.text(of: value)])
        #expect(SnapshotDigest(known: "d").text == "d")
    }
}
