import LarderJSON
import TestSupport
import Testing

@Suite("Composition of merge patches into at most two patches")
struct ComposedPatchTests {
    @Test("if a later patch has an object where an earlier one has a scalar or null, a first patch removes the member")
    func replacement() throws {
        let composed = ComposedPatch([["o": 5, "p": .null, "q": [1]], ["o": ["b": 2], "p": ["b": 2], "q": 1]])
        #expect(composed.removals?.compactText == #"{"o":null,"p":null}"#)
        #expect(composed.patch.compactText == #"{"o":{"b":2},"p":{"b":2},"q":1}"#)
    }

    @Test("a composition has no patch with removals if a single patch has the effect of all patches")
    func single() {
        let composed = ComposedPatch([["o": ["a": 1]], ["o": ["b": .null]], ["n": ["x": ["y": 1]]]])
        #expect(composed.removals == nil)
        #expect(composed.patch.compactText == #"{"o":{"a":1,"b":null},"n":{"x":{"y":1}}}"#)
        #expect(ComposedPatch([]) == ComposedPatch(.emptyObject))
    }

    @Test("a composition of random patches has the same effect as the patches in order")
    func equivalence() throws {
        var generator = SeededGenerator()
        for _ in 0..<5_000 {
            let patches = (0..<Int.random(in: 1...5, using: &generator)).map { _ in
                JSONValue.randomPatch(depth: 3, using: &generator)
            }
            let composed = ComposedPatch(patches)
            let target = MergePatch.merge([.randomPatch(depth: 3, using: &generator)])
            let expected = patches.reduce(target) { MergePatch.apply($1, to: $0) }
            let actual = composed.patches.reduce(target) { MergePatch.apply($1, to: $0) }
            guard actual != expected else { continue }
            Issue.record("\(patches) on \(target), seed \(generator.seed)")
            return
        }
    }
}

extension JSONValue {
    /// An object with few different names, so that patches have paths in common.
    fileprivate static func randomPatch(depth: Int, using generator: inout SeededGenerator) -> JSONValue {
        .object(
            ["a", "b", "c"].shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator)).map { name in
                (name, randomValue(depth: depth - 1, using: &generator))
            })
    }

    private static func randomValue(depth: Int, using generator: inout SeededGenerator) -> JSONValue {
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: .null
        case 1: .int(Int.random(in: 0...9, using: &generator))
        case 2: .array([.null])
        default: depth == 0 ? 1 : randomPatch(depth: depth, using: &generator)
        }
    }
}
