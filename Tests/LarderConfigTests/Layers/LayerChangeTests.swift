import ConfigTestSupport
import Glibc
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Layer changes")
struct LayerChangeTests {
    private func withStore(_ body: (ConfigStore) async throws -> Void) async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        try await fixture.withStore(body)
    }

    private func entry(_ path: [String], _ value: JSONValue) -> OverrideEntry {
        OverrideEntry(path: path, value: value, setAt: 0, expiresAt: nil)
    }

    @Test("a document that is pushed before the document of a removed source is dropped stays")
    func pushedBeforeDrop() async throws {
        try await withStore { store in
            let document = SourceDocument(value: ["a": 1])
            _ = try await store.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
            #expect(try await store.commit(.dropRemote).changed == false)
            #expect(store.publication.current.snapshot.value == ["a": 1])
        }
    }

    @Test(
        "values that an override hides stay hidden when another override is set below it",
        arguments: [JSONValue.null, 7, [1, 2], ["low": .null, "x": .null]])
    func hidden(value: JSONValue) {
        var layers = Layers()
        layers.remote = RemoteDocument(
            document: ["a": ["low": 1, "x": 2]], version: nil, validator: nil, origin: "push", updatedAt: 0)
        layers.override.set(entry(["a"], value))
        layers.override.set(entry(["a", "new"], 1))
        #expect(layers.resolved() == ["a": ["new": 1]])
        // A null inside an object value also hides values of lower layers.
        layers.override.set(entry(["a"], ["low": .null]))
        layers.override.set(entry(["a", "low", "deep"], 3))
        #expect(layers.resolved() == ["a": ["x": 2, "low": ["deep": 3]]])
    }

    @Test("a member that an override removes, and others below it add again, keeps the place of the override")
    func addedAgain() {
        var layers = Layers()
        layers.remote = RemoteDocument(
            document: ["b": ["low": 1], "x": 2], version: nil, validator: nil, origin: "push", updatedAt: 0)
        layers.override.set(entry(["a"], 1))
        layers.override.set(entry(["b"], .null))
        layers.override.set(entry(["c"], .null))
        layers.override.set(entry(["c", "d", "e"], 1))
        layers.override.set(entry(["f"], 2))
        layers.override.set(entry(["b", "new"], 3))
        layers.override.set(entry(["c", "none"], .null))
        #expect(layers.resolved().compactText == #"{"x":2,"a":1,"b":{"new":3},"c":{"d":{"e":1}},"f":2}"#)
        #expect(MergePatch.merge(layers.override.patches()) == ["a": 1, "b": ["new": 3], "c": ["d": ["e": 1]], "f": 2])
    }

    @Test("overrides resolve as merge patches in order, except that a null override creates no objects")
    func sequential() {
        var generator = SystemRandomNumberGenerator()
        let values: [JSONValue] = [.null, 1, "s", [1], .emptyObject, ["a": 1], ["b": .null], ["a": ["c": 2]]]
        let names = ["a", "b", "c"]
        for _ in 0..<3000 {
            var layers = Layers()
            layers.remote = RemoteDocument(
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
                if entry.value.isNull, expected.value(at: JSONPath(entry.path)) == nil { continue }
                let patch = entry.path.reversed().reduce(entry.value) { .object([($1, $0)]) }
                expected = MergePatch.merge([expected, patch])
            }
            #expect(layers.resolved() == expected, "\(layers.override.entries)")
        }
    }

    @Test("a null override at a path without a value makes no snapshot, but hides later values of lower layers")
    func nullOfNothing() async throws {
        try await withStore { store async throws in
            _ = try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
            let revision = store.revision
            for path in [["no", "such"], ["a", "such"], ["x"]] {
                let commit = try await store.set(JSONPath(path), to: .null, timeToLive: nil)
                #expect(!commit.changed)
                #expect(commit.layerChanged)
            }
            #expect(store.revision == revision)
            #expect(store.value == ["a": 1])
            _ = try await store.replaceFiles(.host, with: ["no": ["such": 1, "other": 2], "x": 3])
            #expect(store.value == ["a": 1, "no": ["other": 2]])
            _ = try await store.set(JSONPath(["no", "such", "deep"]), to: 4, timeToLive: nil)
            #expect(store.value == ["a": 1, "no": ["such": ["deep": 4], "other": 2]])
        }
    }

    @Test("if a path is locked, a root value that is not an object is still refused as invalid")
    func rootOfLocked() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = LayerRules(locks: LockedPaths([JSONPath(["n"])]), unit: "u")
        try await fixture.withStore { store async throws in
            for value: JSONValue in [5, .null, [1]] {
                let error = await #expect(throws: ConfigError.self) {
                    try await store.set(JSONPath([]), to: value, timeToLive: nil)
                }
                #expect(error?.code == .invalidChange)
            }
        }
    }

    @Test("each change of a batch is checked against the result of the earlier changes of the batch")
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
            // Removing an override uncovers an array on the path of another change.
            _ = try await store.unset(JSONPath([]))
            _ = try await store.set(JSONPath(["a", "x"]), to: 1, timeToLive: nil)
            _ = try await store.replaceFiles(.host, with: ["a": [1, 2]])
            let first = Task.immediate { try await store.set(JSONPath(["z"]), to: 0, timeToLive: nil) }
            let removal = Task.immediate { try await store.unset(JSONPath(["a", "x"])) }
            let below = Task.immediate { try await store.set(JSONPath(["a", "b", "c"]), to: 1, timeToLive: nil) }
            _ = try await (first.value, removal.value)
            await #expect(throws: ConfigError.self) { try await below.value }
            #expect(store.value == ["a": [1, 2], "z": 0])
        }
    }

    @Test(
        "if mayChangeContainers is false, a change neither makes nor removes arrays above the path",
        arguments: [SeededGenerator.randomSeed])
    func containers(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let names = ["a", "b", "c"]
        let values: [JSONValue] = [1, .null, [1, [2]], ["a": 1], ["b": ["c": [3]]], .emptyObject]
        func path() -> [String] {
            (0..<Int.random(in: 1...4, using: &generator)).map { _ in names.randomElement(using: &generator) ?? "a" }
        }
        func change(_ value: JSONValue) -> LayerChange { .set(path: path(), value: value, timeToLive: nil, by: nil) }
        func apply(_ change: LayerChange, to layers: inout Layers) -> Bool {
            let context = ChangeContext(
                limits: DocumentLimits(maximumBytes: 10_000), now: 0, recordsOperations: false)
            return (try? change.apply(to: &layers, context, resolved: layers.resolved())) != nil
        }
        for _ in 0..<2000 {
            var layers = Layers()
            for layer in FileLayer.allCases {
                let document = (values.randomElement(using: &generator) ?? 1)
                layers[layer] = FileDocument(document: .object([("a", document), ("b", document)]), updatedAt: 0)
            }
            for _ in 0..<3 { _ = apply(change(values.randomElement(using: &generator) ?? 1), to: &layers) }
            let before = layers.resolved()
            let tested = change(values.randomElement(using: &generator) ?? 1)
            guard apply(tested, to: &layers) else { continue }
            let after = layers.resolved()
            let target = path()
            guard !tested.mayChangeContainers(above: target) else { continue }
            for length in target.indices.dropFirst() {
                let place = JSONPath(Array(target[..<length]))
                let (old, new) = (before.value(at: place), after.value(at: place))
                #expect(
                    (old?.kind == .array) == (new?.kind == .array),
                    "\(tested) \(target) \(before) \(after) seed \(seed)")
            }
        }
    }

    @Test("overrides of many names in one object resolve correctly")
    func manyNames() {
        var layer = OverrideLayer()
        for round in 0..<3 {
            for number in 0..<40 { layer.set(entry(["deep", "n\(number * 7 % 40)"], .int(round * 100 + number))) }
        }
        layer.set(entry(["deep", "n5", "below"], 1))
        layer.set(entry(["deep"], ["n6": 2, "n7": ["x": 3]]))
        layer.set(entry(["deep", "n39"], .null))
        var layers = Layers()
        layers.override = layer
        #expect(layers.resolved() == ["deep": ["n6": 2, "n7": ["x": 3]]])
        for number in 0..<40 { layer.set(entry(["deep", "m\(number)"], .int(number))) }
        layers.override = layer
        let deep = layers.resolved()["deep"]
        #expect(deep?.count == 42)
        #expect(deep?["m39"] == 39)
        #expect(deep?["m0"] == 0)
    }

    @Test("member names count towards the size of the overrides, and host files have the same size limit")
    func size() async throws {
        try await withStore { store async throws in
            await store.configure(
                StoreLimits(durability: .relaxed, documents: DocumentLimits(maximumBytes: 1000)),
                history: HistoryLimits(),
                status: NamespaceStatus(source: nil))
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

    @Test("a document's version is compared with versions of its source and of pushes, but not of other sources")
    func versions() async throws {
        try await withStore { store async throws in
            func replace(_ version: String, from origin: String) async throws {
                let document = SourceDocument(value: ["v": .string(version)], version: UpstreamVersion(version))
                _ = try await store.replaceRemote(
                    document, origin: origin, force: false, isPush: origin == SourceOrigin.push)
            }
            try await replace("7", from: "one")
            await #expect(throws: ConfigError.self) { try await replace("6", from: "one") }
            try await replace("2", from: "two")
            await #expect(throws: ConfigError.self) { try await replace("1", from: SourceOrigin.push) }
            try await replace("3", from: SourceOrigin.push)
            await #expect(throws: ConfigError.self) { try await replace("2", from: "two") }
            #expect(store.value == ["v": "3"])
        }
    }

    @Test("the status has the error of a full disk until a change has been written again")
    func storageProblem() async throws {
        let files = FaultyFileSystem()
        // The test never advances this clock, so no generation is written in the background.
        let fixture = StoreFixture.local(files: files, clock: ManualClock())
        defer { fixture.remove() }
        let store = try await fixture.open()
        files.failWrites(with: ENOSPC)
        await #expect(throws: ConfigError.self) { try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil) }
        #expect(store.publication.status.lastError?.error.code == .storageFailed)
        #expect(store.publication.status.writeError?.error.code == .storageFailed)
        #expect(ConfigLayer.allCases.allSatisfy { store.publication.status.problem(of: $0) == nil })
        files.failWrites(with: nil)
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        #expect(store.publication.status.lastError == nil && store.publication.status.writeError == nil)
        await store.stop()
    }

    @Test("the status has no error of a full disk once the disk accepts writes, even without another change")
    func storageWorksAgain() async throws {
        let (files, clock) = (FaultyFileSystem(), ManualClock())
        let fixture = StoreFixture.local(files: files, clock: clock)
        defer { fixture.remove() }
        let store = try await fixture.open()
        files.failWrites(with: ENOSPC)
        await #expect(throws: ConfigError.self) { try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil) }
        #expect(store.publication.status.writeError?.error.code == .storageFailed)
        files.failWrites(with: nil)
        while store.publication.status.writeError != nil {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        #expect(store.publication.status.lastError == nil)
        await store.stop()
    }

    @Test("the status has the error of a snapshot that cannot be saved until it is saved")
    func unsavedSnapshot() async throws {
        let (files, clock) = (FaultyFileSystem(), ManualClock())
        var fixture = StoreFixture.local(files: files, clock: clock)
        fixture.durability = .relaxed
        defer { fixture.remove() }
        let store = try await fixture.open()
        let publication = store.publication
        files.failReplacements(with: ENOSPC)
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        while publication.status.writeError == nil {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        #expect(publication.status.writeError?.error.code == .storageFailed)
        #expect(publication.status.lastError?.error == publication.status.writeError?.error)
        // Another change that needs no write shows nothing about the disk.
        _ = try await store.set(JSONPath(["n"]), to: 2, timeToLive: nil)
        #expect(publication.status.writeError != nil)
        files.failReplacements(with: nil)
        while publication.status.writeError != nil {
            clock.advance(by: .seconds(5))
            await Task.yield()
        }
        #expect(publication.status.lastError == nil)
        await store.stop()
    }
}
