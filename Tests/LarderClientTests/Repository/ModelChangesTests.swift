import LarderJSON
import LarderProtocol
import Testing

@testable import LarderClient

@Suite("Changes that save a model")
struct ModelChangesTests {
    private typealias Change = ConfigApply.Change

    private func changes(_ old: JSONValue?, _ new: JSONValue) -> [ConfigApply.Change] {
        ModelChanges.exact(from: old, to: new, at: ["c", "1"])
    }

    private func set(_ value: JSONValue, _ names: String...) -> ConfigApply.Change {
        Change(.set(value), at: JSONPath(["c", "1"] + names))
    }

    @Test("equal values have no changes, and different members are set one by one")
    func differences() {
        #expect(changes(["a": 1, "b": 2], ["b": 2, "a": 1]) == [])
        #expect(changes(["a": 1, "b": ["x": 1, "y": 1]], ["a": 1, "b": ["x": 2, "y": 1]]) == [set(2, "b", "x")])
        #expect(changes(["a": 1], ["a": 1, "b": 2]) == [set(2, "b")])
    }

    @Test("a member that the new value lacks is set to null")
    func removal() {
        #expect(changes(["a": 1, "b": 2], ["a": 1]) == [set(.null, "b")])
    }

    @Test("a new object is preceded by a null and set member by member")
    func creation() {
        #expect(changes(nil, ["a": 1, "b": ["x": 1]]) == [set(.null), set(1, "a"), set(["x": 1], "b")])
        #expect(changes(["a": 1], ["a": ["x": 1]]) == [set(.null, "a"), set(1, "a", "x")])
        #expect(changes(nil, "text") == [set("text")])
        #expect(changes(nil, .emptyObject) == [set(.emptyObject)])
    }

    @Test("more differences than a request takes are replaced by a new value")
    func manyDifferences() {
        let old = JSONValue.object((0..<2000).map { ("\($0)", 1) })
        let new = JSONValue.object((0..<2000).map { ("\($0)", 2) })
        #expect(changes(["a": old], ["a": new]) == [set(.null), set(new, "a")])
        #expect(changes(old, new) == [set(new)])
    }

    @Test("saving keeps members that the type does not have, and removes those that became nil")
    func merging() {
        let resolved: JSONValue = ["id": 1, "unknown": true, "note": "n", "n": ["x": 1, "other": 2]]
        let before: JSONValue = ["id": 1, "note": "n", "n": ["x": 1], "default": 0]
        let after: JSONValue = ["id": 1, "n": ["x": 5], "default": 0, "new": "v"]
        #expect(
            ModelChanges.merged(resolved, before: before, after: after)
                == ["id": 1, "unknown": true, "n": ["x": 5, "other": 2], "new": "v"])
        #expect(ModelChanges.merged(resolved, before: before, after: before) == resolved)
    }

    @Test("a chunk has each model once, with the last value, and counts all of them")
    func chunk() {
        var chunk = ModelChunk()
        chunk.add(1, at: JSONPath(["c", "a"]))
        chunk.add(2, at: JSONPath(["c", "b"]))
        chunk.add(3, at: JSONPath(["c", "a"]))
        #expect(chunk.count == 3)
        #expect(chunk.models.map(\.path) == [JSONPath(["c", "a"]), JSONPath(["c", "b"])])
        #expect(chunk.models.map(\.value) == [3, 2])
    }
}
