import JSON
import Testing

@testable import LarderConfig

/// Names that look the same: one letter with its accent, and the letter with an accent behind it. For JSON they are two.
private let composed = "caf\u{e9}"
private let decomposed = "cafe\u{301}"

@Suite("Overrides")
struct OverrideLayerTests {
    private func entry(_ path: [String], _ value: JSONValue) -> OverrideLayer.Entry {
        OverrideLayer.Entry(path: path, value: value, setAt: 0)
    }

    private func values(_ layer: OverrideLayer) -> JSONValue { MergePatch.merge(layer.patches()) }

    private func object(_ first: JSONValue, _ second: JSONValue) -> JSONValue {
        .object([(composed, first), (decomposed, second)])
    }

    @Test("names that differ in their bytes alone are two names")
    func namesByTheirBytes() {
        var layer = OverrideLayer()
        layer.set(entry([composed], 1))
        layer.set(entry([decomposed], 2))
        #expect(layer.entries.count == 2)
        #expect(values(layer) == object(1, 2))
        let isUnset = layer.unset([decomposed])
        #expect(isUnset)
        let one: JSONValue = 1
        #expect(values(layer) == .object([(composed, one)]))
    }

    @Test("in a value that is set, too")
    func namesInAValue() {
        let value = object(1, ["x": 2])
        #expect(values(OverrideLayer(entries: [entry(["a"], value)])) == ["a": value])
        let both = OverrideLayer(entries: [entry([composed, "x"], 1), entry([decomposed, "x"], 2)])
        #expect(values(both) == object(["x": 1], ["x": 2]))
    }
}
