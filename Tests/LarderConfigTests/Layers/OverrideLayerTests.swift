import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

/// Two names that look the same, one with a precomposed letter and one with a combining accent. They differ in JSON.
private let composed = "caf\u{e9}"
private let decomposed = "cafe\u{301}"

@Suite("Override layer")
struct OverrideLayerTests {
    private func entry(_ path: [String], _ value: JSONValue) -> OverrideEntry {
        OverrideEntry(path: path, value: value, setAt: 0)
    }

    private func values(_ layer: OverrideLayer) -> JSONValue { MergePatch.merge(layer.patches()) }

    private func object(_ first: JSONValue, _ second: JSONValue) -> JSONValue {
        .object([(composed, first), (decomposed, second)])
    }

    @Test("names that look the same but have different bytes are distinct")
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

    @Test("names inside a value are compared by bytes, too")
    func namesInAValue() {
        let value = object(1, ["x": 2])
        #expect(values(OverrideLayer(entries: [entry(["a"], value)])) == ["a": value])
        let both = OverrideLayer(entries: [entry([composed, "x"], 1), entry([decomposed, "x"], 2)])
        #expect(values(both) == object(["x": 1], ["x": 2]))
    }

    @Test("the layer has the time at which an override was last set, even if that override was removed")
    func updatedAt() {
        var layer = OverrideLayer()
        #expect(layer.updatedAt == nil)
        layer.set(OverrideEntry(path: ["a"], value: 1, setAt: 10))
        layer.set(OverrideEntry(path: ["b"], value: 1, setAt: 20))
        // The clock was set back.
        layer.set(OverrideEntry(path: ["c"], value: 1, setAt: 5))
        #expect(layer.updatedAt == 20)
        guard case .rejected = layer.set(OverrideEntry(path: ["d"], value: 1, setAt: 30), maximumBytes: 1) else {
            return #expect(Bool(false))
        }
        let removesB = layer.unset(["b"])
        #expect(removesB && layer.updatedAt == 20)
        let removesA = layer.unset(["a"])
        let removesC = layer.unset(["c"])
        #expect(removesA && removesC && layer.updatedAt == nil)
    }

    @Test("a node knows whether entries are below it after many of them were removed")
    func leaves() {
        var layer = OverrideLayer()
        for number in 0..<2000 { layer.set(entry(["a", "\(number)"], 1)) }
        layer.set(entry(["b"], 1))
        for number in 0..<2000 {
            let isUnset = layer.unset(["a", "\(number)"])
            #expect(isUnset)
        }
        #expect(layer.scalar(at: ["b"]) == 1)
        #expect(layer.entry(at: ["a"]) == nil)
        #expect(values(layer) == ["b": 1])
    }

    @Test("an override that is set again keeps its position, unless it replaces overrides below it")
    func positions() {
        var layer = OverrideLayer()
        for name in ["a", "b", "c"] { layer.set(entry([name], 1)) }
        guard case .set(let old) = layer.set(entry(["b"], 2), maximumBytes: .max) else { return #expect(Bool(false)) }
        #expect(old?.entry?.value == 1 && old?.isLeaf == true)
        #expect(values(layer).compactText == #"{"a":1,"b":2,"c":1}"#)
        layer.set(entry(["b", "x"], 3))
        guard case .set(let all) = layer.set(entry(["b"], 4), maximumBytes: .max) else { return #expect(Bool(false)) }
        #expect(all?.isLeaf == false)
        #expect(values(layer).compactText == #"{"a":1,"c":1,"b":4}"#)
        // A name keeps its position as long as anything is set below it.
        layer.set(entry(["d", "x"], 5))
        layer.set(entry(["e"], 6))
        layer.set(entry(["d", "y"], 7))
        _ = layer.unset(["d", "x"])
        #expect(values(layer).compactText == #"{"a":1,"c":1,"b":4,"d":{"y":7},"e":6}"#)
        _ = layer.unset(["d", "y"])
        layer.set(entry(["d"], 8))
        #expect(values(layer).compactText == #"{"a":1,"c":1,"b":4,"e":6,"d":8}"#)
    }

    @Test("bytes and expiring entries are counted correctly after any sequence of changes")
    func counts() {
        var generator = SeededGenerator(seed: 7)
        var layer = OverrideLayer()
        for round in 0..<2000 {
            let path = (0...Int.random(in: 0...2, using: &generator)).map { _ in
                ["a", "b", "c"].randomElement(using: &generator) ?? ""
            }
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: _ = layer.unset(path)
            case 1: _ = layer.expire(at: round)
            default:
                let before = layer.entries
                let entry = OverrideEntry(
                    path: path,
                    value: .string(String(repeating: "v", count: Int.random(in: 0..<40, using: &generator))),
                    setAt: round, expiresAt: Bool.random(using: &generator) ? round + 20 : nil)
                if case .rejected(let bytes) = layer.set(entry, maximumBytes: 200) {
                    #expect(bytes > 200)
                    #expect(layer.entries == before)
                }
            }
            let fresh = OverrideLayer(entries: layer.entries)
            #expect(layer.bytes == fresh.bytes)
            #expect(layer.bytes == layer.entries.reduce(0) { $0 + $1.bytes })
            #expect(layer.expiring == layer.entries.count { $0.expiresAt != nil })
            #expect(layer.expiringEntries == layer.entries.filter { $0.expiresAt != nil })
            #expect(layer.entries == fresh.entries)
            #expect(layer.isEmpty == layer.entries.isEmpty)
        }
    }

    @Test("entries(around:) returns the same as a linear search, and changes do not affect copies of the layer")
    func tree() {
        let names = ["a", "b", composed, decomposed] + (0..<12).map { "name\($0)" }
        var generator = SeededGenerator(seed: 11)
        var (layer, all) = (OverrideLayer(), [OverrideEntry]())
        var (replaced, maxCount) = (0, 0)
        func isWithin(_ path: [String], _ other: [String]) -> Bool { path.begins(withNames: other) }
        for round in 0..<5000 {
            let path = (0..<Int.random(in: 0...20, using: &generator) % 4).map { _ in
                names.randomElement(using: &generator) ?? ""
            }
            // Short paths are chosen rarely, because a change at such a path replaces or removes most entries.
            if path.count < 2, Int.random(in: 0..<100, using: &generator) > 0 { continue }
            let (copy, before) = (layer, layer.entries)
            let previous = all.filter { isWithin($0.path, path) }
            all.removeAll { isWithin($0.path, path) }
            if Int.random(in: 0..<50, using: &generator) == 0 {
                let isUnset = layer.unset(path)
                #expect(isUnset != previous.isEmpty)
            } else {
                let new = OverrideEntry(path: path, value: .int(round), setAt: round)
                let isReplacement = previous.count == 1 && previous[0].path.count == path.count
                guard case .set(let old) = layer.set(new, maximumBytes: .max) else { return #expect(Bool(false)) }
                #expect(old?.entry == previous.first { $0.path.count == path.count })
                #expect(old?.isLeaf ?? true == previous.allSatisfy { $0.path.count == path.count })
                all.append(new)
                replaced += isReplacement ? 1 : 0
                #expect(layer.entry(at: path) == new)
            }
            #expect(copy.entries == before)
            let around = all.filter { isWithin($0.path, path) || isWithin(path, $0.path) }
            #expect(Set(layer.entries(around: path).map(\.setAt)) == Set(around.map(\.setAt)))
            #expect(Set(layer.entries.map(\.setAt)) == Set(all.map(\.setAt)))
            maxCount = max(maxCount, all.count)
        }
        #expect(maxCount > 64)
        #expect(replaced > 50)
    }

    @Test("an entry expires without the entries below it, and only at its current expiry time")
    func expiry() {
        var layer = OverrideLayer(entries: [
            OverrideEntry(path: ["a"], value: ["x": 1, "y": 1], setAt: 0, expiresAt: 10),
            OverrideEntry(path: ["a", "x"], value: 2, setAt: 1, expiresAt: 20),
            OverrideEntry(path: ["b"], value: 3, setAt: 2, expiresAt: 10),
        ])
        let expired = [("a", 11), ("a", 10), ("c", 10)].map { layer.expire([$0], expiringAt: $1) }
        #expect(expired == [false, true, false])
        #expect(values(layer) == ["a": ["x": 2], "b": 3])
        let hasExpired = layer.expire(at: 19)
        #expect(hasExpired)
        #expect(values(layer) == ["a": ["x": 2]])
        let hasRest = layer.expire(at: 20)
        #expect(hasRest)
        #expect(layer.isEmpty)
    }

    @Test(
        "a replaced scalar has the same position as after a full resolution, even if a document reordered the members")
    func replacementAfterReordering() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        for document in [["a": ["x": 7], "b": ["y": 5]], ["b": ["y": 6], "a": ["x": 8]]] as [JSONValue] {
            for (path, value) in [(["a", "x"], 1), (["b", "y"], 2)] as [([String], JSONValue)] {
                _ = try await store.set(JSONPath(path), to: value, timeToLive: nil)
            }
            _ = try await store.replaceRemote(
                SourceDocument(value: document), origin: "scripted:source", force: false, isPush: false)
        }
        let before = store.revision
        #expect(try await store.set(JSONPath(["a", "x"]), to: 3, timeToLive: nil).revision == before + 1)
        #expect(store.value.compactText == #"{"b":{"y":2},"a":{"x":3}}"#)
        #expect(try await store.set(JSONPath(["b", "y"]), to: 4, timeToLive: nil).revision == before + 2)
        #expect(store.value.compactText == #"{"b":{"y":4},"a":{"x":3}}"#)
        await store.stop()
        let next = try await fixture.open()
        #expect(next.revision == before + 2)
        await next.stop()
    }

    @Test("a member added beside a locked one has the same position as after a full resolution")
    func additionBesideLock() async throws {
        var fixture = StoreFixture()
        defer { fixture.remove() }
        fixture.rules.locks = try LockedPaths([JSONPath(parsing: "a.b")])
        fixture.host = ["a": ["b": 1, "d": 2]]
        let store = try await fixture.open()
        _ = try await store.replaceRemote(
            SourceDocument(value: ["a": ["b": .null]]), origin: "scripted:source", force: false, isPush: true)
        for (name, value) in [("c", 7), ("e", 8)] {
            _ = try await store.set(JSONPath(["a", name]), to: .int(value), timeToLive: nil)
        }
        let revision = store.revision
        #expect(store.value.compactText == #"{"a":{"d":2,"c":7,"e":8,"b":1}}"#)
        await store.stop()
        let next = try await fixture.open()
        #expect(next.revision == revision)
        await next.stop()
    }

    @Test("after an equal value was set, later changes still edit the document in place")
    func editsAfterRepetition() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
        let revision = try await store.set(JSONPath(["b", "c"]), to: 2, timeToLive: nil).revision
        #expect(try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil).revision == revision)
        #expect(await store.resolvedDigest === store.publication.current.snapshot.contentDigest)
        _ = try await store.set(JSONPath(["b", "d"]), to: 3, timeToLive: nil)
        #expect(store.value.compactText == #"{"a":1,"b":{"c":2,"d":3}}"#)
        await store.stop()
    }

    @Test("a document that matches the snapshot except for the member order keeps the revision, also at a restart")
    func startAfterReordering() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        func push(_ document: JSONValue) async throws {
            _ = try await store.replaceRemote(
                SourceDocument(value: document), origin: "scripted:source", force: false, isPush: false)
        }
        try await push(["a": 1, "z": 0])
        let revision = try await store.set(JSONPath(["b"]), to: 2, timeToLive: nil).revision
        try await push(["b": 2, "z": 0, "a": 1])
        #expect(store.revision == revision)
        await store.stop()
        let next = try await fixture.open()
        #expect(next.revision == revision)
        #expect(next.value == ["a": 1, "z": 0, "b": 2])
        for snapshot in await next.pastSnapshots() {
            #expect(try await SnapshotDigest.text(of: next.value(ofRevision: snapshot.revision)) == snapshot.digest)
        }
        await next.stop()
    }
}
