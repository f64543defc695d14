import JSON
import Testing

@testable import LarderConfig

@Suite("Changes of the layers")
struct ConfigChangeTests {
    private func withStore(_ body: (ConfigStore) async throws -> Void) async throws {
        var fixture = StoreFixture()
        fixture.hasRemote = false
        defer { fixture.remove() }
        let store = try await fixture.open()
        try await body(store)
        await store.stop()
    }

    private func entry(_ path: [String], _ value: JSONValue) -> OverrideLayer.Entry {
        OverrideLayer.Entry(path: path, value: value, setAt: 0, expiresAt: nil)
    }

    @Test(
        "what an override hides stays hidden when another one is set below it",
        arguments: [JSONValue.null, 7, [1, 2], ["low": .null, "x": .null]])
    func hidden(value: JSONValue) {
        var layers = Layers()
        layers.remote = Layers.Remote(
            document: ["a": ["low": 1, "x": 2]], version: nil, validator: nil, origin: "push", updatedAt: 0)
        layers.override.set(entry(["a"], value))
        layers.override.set(entry(["a", "new"], 1))
        #expect(layers.resolved() == ["a": ["new": 1]])
        // A null within an object that was set hides too.
        layers.override.set(entry(["a"], ["low": .null]))
        layers.override.set(entry(["a", "low", "deep"], 3))
        #expect(layers.resolved() == ["a": ["x": 2, "low": ["deep": 3]]])
    }

    @Test("overrides resolve as merge patches that are applied one after the other, in any mixture")
    func sequential() {
        var generator = SystemRandomNumberGenerator()
        let values: [JSONValue] = [.null, 1, "s", [1], .emptyObject, ["a": 1], ["b": .null], ["a": ["c": 2]]]
        let names = ["a", "b", "c"]
        for _ in 0..<3000 {
            var layers = Layers()
            layers.remote = Layers.Remote(
                document: ["a": ["a": 1, "b": ["c": 2]], "b": 3], version: nil, validator: nil, origin: "push",
                updatedAt: 0)
            for _ in 0..<Int.random(in: 1...5, using: &generator) {
                let path = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
                    names.randomElement(using: &generator) ?? "a"
                }
                layers.override.set(entry(path, values.randomElement(using: &generator) ?? 1))
            }
            var expected = layers.remote?.document ?? .emptyObject
            for entry in layers.override.entries {
                let patch = entry.path.reversed().reduce(entry.value) { .object([($1, $0)]) }
                expected = MergePatch.merge([expected, patch])
            }
            #expect(layers.resolved() == expected, "\(layers.override.entries)")
        }
    }

    @Test("changes that are committed together are judged one after the other")
    func batched() async throws {
        try await withStore { store async throws in
            let array = Task.immediate { try await store.set(JSONPath(["n"]), to: [1, 2], timeToLive: nil) }
            let element = Task.immediate { try await store.set(JSONPath(["n", "0"]), to: 9, timeToLive: nil) }
            #expect(try await array.value.changed)
            await #expect(throws: ConfigError.self) { try await element.value }
            #expect(store.value == ["n": [1, 2]])
            let object = Task.immediate { try await store.set(JSONPath(["n"]), to: .emptyObject, timeToLive: nil) }
            let member = Task.immediate { try await store.set(JSONPath(["n", "0"]), to: 9, timeToLive: nil) }
            _ = try await (object.value, member.value)
            #expect(store.value == ["n": ["0": 9]])
            // What is removed beside the way uncovers an array on it.
            _ = try await store.unset(JSONPath([]))
            _ = try await store.set(JSONPath(["a", "x"]), to: 1, timeToLive: nil)
            _ = try await store.replaceFiles(.host, with: ["a": [1, 2]])
            let gate = Task.immediate { try await store.set(JSONPath(["z"]), to: 0, timeToLive: nil) }
            let beside = Task.immediate { try await store.unset(JSONPath(["a", "x"])) }
            let through = Task.immediate { try await store.set(JSONPath(["a", "b", "c"]), to: 1, timeToLive: nil) }
            _ = try await (gate.value, beside.value)
            await #expect(throws: ConfigError.self) { try await through.value }
            #expect(store.value == ["a": [1, 2], "z": 0])
        }
    }

    @Test("names count for the size of the overrides, and host files have the same limit")
    func size() async throws {
        try await withStore { store async throws in
            await store.configure(
                durability: .relaxed, maximumBytes: 1000, maximumDeletion: nil, status: NamespaceStatus(source: nil))
            _ = try await store.set(JSONPath([String(repeating: "n", count: 900)]), to: 1, timeToLive: nil)
            await #expect(throws: ConfigError.self) {
                try await store.set(JSONPath([String(repeating: "m", count: 900)]), to: 1, timeToLive: nil)
            }
            await #expect(throws: ConfigError.self) {
                try await store.replaceFiles(.host, with: ["text": .string(String(repeating: "x", count: 1000))])
            }
            #expect(store.value.count == 1)
        }
    }

    @Test("versions are compared within a source and with pushes, not between two sources")
    func versions() async throws {
        try await withStore { store async throws in
            func replace(_ version: String, from origin: String) async throws {
                let document = SourceDocument(value: ["v": .string(version)], version: UpstreamVersion(version))
                _ = try await store.replaceRemote(document, origin: origin, force: false, isPush: origin == pushOrigin)
            }
            try await replace("7", from: "one")
            await #expect(throws: ConfigError.self) { try await replace("6", from: "one") }
            try await replace("2", from: "two")
            await #expect(throws: ConfigError.self) { try await replace("1", from: pushOrigin) }
            try await replace("3", from: pushOrigin)
            await #expect(throws: ConfigError.self) { try await replace("2", from: "two") }
            #expect(store.value == ["v": "3"])
        }
    }

    @Test("the error of a full disk is shown until a change is on disk again")
    func storageProblem() async throws {
        var fixture = StoreFixture()
        fixture.hasRemote = false
        let files = FaultyFileSystem()
        fixture.files = files
        defer { fixture.remove() }
        let store = try await fixture.open()
        files.failWrites(with: 28)
        await #expect(throws: ConfigError.self) { try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil) }
        #expect(store.publication.status.lastError?.error.code == .storageFailed)
        #expect(store.publication.status.layers.allSatisfy { $0.problem == nil })
        files.failWrites(with: nil)
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        #expect(store.publication.status.lastError == nil)
        await store.stop()
    }
}
