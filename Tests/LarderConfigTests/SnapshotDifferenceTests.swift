import JSON
import Testing

@testable import LarderConfig

@Suite("What is known of how a snapshot came of another one")
struct SnapshotDifferenceTests {
    private static let names = ["a", "b", "c"]

    @Test("a value beside those that were set is known to be the same; one at, above or below them is not")
    func besideWhatWasSet() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        for (path, value) in [("a.x", 1), ("b.x", 1), ("b.y", 1)] {
            _ = try await store.set(JSONPath(parsing: path), to: .int(value), timeToLive: nil)
        }
        let old = store.publication.current.snapshot
        _ = try await store.set(JSONPath(parsing: "b.x"), to: 2, timeToLive: nil)
        let new = store.publication.current.snapshot
        for path in [["a"], ["a", "x"], ["b", "y"], ["c"], ["b", "xx"]] {
            #expect(new.isKnownToAgree(with: old, at: path))
        }
        for path in [[], ["b"], ["b", "x"], ["b", "x", "z"]] { #expect(!new.isKnownToAgree(with: old, at: path)) }
        #expect(!old.isKnownToAgree(with: new, at: ["a"]))
        await store.stop()
    }

    @Test("whatever is set and unset, what is known to be the same is the same")
    func byChance() async throws {
        var generator = SeededGenerator(seed: 5)
        var fixture = StoreFixture()
        fixture.durability = .relaxed
        fixture.host = ["a": ["b": ["c": 1, "x": 2]], "b": [1, 2], "c": "text"]
        defer { fixture.remove() }
        let store = try await fixture.open()
        let leaves: [JSONValue] = [1, 22, "text", true, .null, [1, 2], ["a": 1], ["b": ["c": .null]], [:]]
        func path() -> [String] {
            (0..<Int.random(in: 1...4, using: &generator)).map { _ in Self.names.randomElement(using: &generator) ?? ""
            }
        }
        var known = 0
        for _ in 0..<800 {
            let (old, place) = (store.publication.current.snapshot, path())
            if Int.random(in: 0..<6, using: &generator) == 0 {
                _ = try? await store.unset(JSONPath(place))
            } else {
                let value = leaves.randomElement(using: &generator) ?? .null
                _ = try? await store.set(JSONPath(place), to: value, timeToLive: nil)
            }
            let new = store.publication.current.snapshot
            for _ in 0..<10 {
                let path = path()
                guard new.isKnownToAgree(with: old, at: path) else { continue }
                known += 1
                #expect(old.value.value(at: JSONPath(path)) == new.value.value(at: JSONPath(path)), "\(place), \(path)")
            }
        }
        #expect(known > 200)
        await store.stop()
    }
}
