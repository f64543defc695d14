import ConfigTestSupport
import Foundation
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources
@testable import LarderConfig

@Suite("Explanation of values")
struct ExplainTests {
    /// A store, the files of its layers, and an explainer for the values of the store.
    private struct Scene {
        let store: ConfigStore
        var configuration: NamespaceConfiguration
        var source: (any ConfigSource)?
        let directory: ScratchDirectory

        func explain(_ path: String) async throws -> ConfigExplanation {
            let segments = try JSONPath(parsing: path).segments
            return await explainer.explain(segments, store.provenance(of: segments))
        }

        var explainer: ConfigExplainer {
            ConfigExplainer(
                configuration: configuration, source: source, blocking: BlockingThreadPool(SharedThreads.pool))
        }

        /// Reads a file layer into the store, as the refresher of the layer does.
        func read(_ layer: FileLayer) async throws {
            _ = try await store.replaceFiles(layer, with: configuration.reader(of: layer, lastContent: nil).read())
        }
    }

    private func withScene(
        _ rules: LayerRules = LayerRules(), wallClock: WallClock = .system,
        _ body: (inout Scene) async throws -> Void
    ) async throws {
        let directory = try ScratchDirectory()
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = rules
        fixture.wallClock = wallClock
        let configuration = NamespaceConfiguration(
            name: "default", defaultsPath: directory.at("defaults.json"), hostDirectory: directory.at("config.d"),
            locks: rules.locks.paths, experiments: rules.experiments, settingsPath: "/etc/larder/larder.json")
        var scene = Scene(
            store: try await fixture.open(), configuration: configuration, directory: directory)
        try FileManager.default.createDirectory(
            atPath: directory.at("config.d"), withIntermediateDirectories: true)
        try await body(&scene)
        await scene.store.stop()
    }

    private func push(_ store: ConfigStore, _ document: JSONValue, _ peer: Peer? = nil) async throws {
        let document = SourceDocument(value: document, version: UpstreamVersion("7"), pushedBy: peer)
        _ = try await store.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
    }

    @Test("an explanation contains the value and source of each layer, and the winner")
    func allLayers() async throws {
        var rules = LayerRules()
        rules.experiments = ExperimentRules(
            overlays: [
                ExperimentOverlay(name: "blue", share: .init(to: 100), values: ["n": 4]),
                ExperimentOverlay(name: "other", share: .init(to: 100), values: ["m": 4]),
            ])
        try await withScene(rules) { scene in
            try scene.directory.put("defaults.json", "{\n\n\"n\": 1}")
            try scene.directory.put("config.d/10.json", #"{"n":0}"#)
            try scene.directory.put("config.d/20.json", "{\n\"n\": 2}")
            try scene.directory.put("config.d/30.json", #"{"m":2}"#)
            for layer in FileLayer.allCases { try await scene.read(layer) }
            let (anna, bert) = (Peer(pid: 7, uid: 1000, command: "vi"), Peer(pid: 8, uid: 0, command: "cron"))
            try await push(scene.store, ["n": 3], bert)
            _ = try await scene.store.set(JSONPath(["n"]), to: 5, timeToLive: .seconds(3600), by: anna)

            let explanation = try await scene.explain("n")
            #expect(explanation.value == 5)
            #expect(explanation.revision == scene.store.revision)
            #expect(explanation.winner == .override)
            #expect(explanation.lock == nil)
            #expect(explanation.layers.map(\.layer) == ConfigLayer.allCases)
            #expect(explanation.layers.map(\.value) == [1, 2, 3, 4, 5])
            let sources = explanation.layers.compactMap(\.source)
            try #require(sources.count == 5)
            #expect(sources[0].file == scene.directory.at("defaults.json"))
            #expect(sources[0].line == 3)
            #expect(sources[1].file == scene.directory.at("config.d/20.json"))
            #expect(sources[1].line == 2)
            #expect(sources[1].location == scene.directory.at("config.d"))
            #expect(sources[2] == ConfigExplanation.Source(kind: "push", version: "7", peer: bert))
            #expect(
                sources[3]
                    == ConfigExplanation.Source(kind: "settings", file: "/etc/larder/larder.json", experiment: "blue"))
            let end = await scene.store.layers.override.entries.first?.expiresAt
            #expect(sources[4] == ConfigExplanation.Source(kind: "set", peer: anna, expiresAt: end))
            #expect(end != nil)
        }
    }

    @Test("a layer without an effect has no source, and a path without a value has no winner")
    func noEffect() async throws {
        try await withScene { scene in
            let explanation = try await scene.explain("no.such")
            #expect(explanation.value == nil && explanation.winner == nil)
            #expect(
                explanation.layers.allSatisfy { $0.value == nil && !$0.hides && $0.source == nil && $0.since == nil })
        }
    }

    @Test("a null override below a path has an effect at the path only if the value there is an object")
    func nullBelow() async throws {
        try await withScene { scene in
            _ = try await scene.store.set(JSONPath(["no", "such"]), to: .null, timeToLive: nil)
            let absent = try await scene.explain("no")
            #expect(absent.value == nil && absent.winner == nil)
            #expect(absent.layers.allSatisfy { $0.value == nil && !$0.hides && $0.source == nil })
            #expect(try await scene.explain("no.such").layers.last?.hides == true)
            try await push(scene.store, ["no": 5])
            let scalar = try await scene.explain("no")
            #expect(scalar.value == 5 && scalar.winner == .remote && scalar.layers.last?.value == nil)
            try await push(scene.store, ["no": ["such": 1, "x": 2]])
            let object = try await scene.explain("no")
            #expect(object.value == ["x": 2] && object.winner == .override)
            #expect(object.layers.last?.value == ["such": .null])
        }
    }

    @Test("a null or a scalar, at the path or at an ancestor, hides the values of lower layers")
    func hiding() async throws {
        try await withScene { scene in
            try scene.directory.put("defaults.json", #"{"a":{"b":1},"c":{"d":1},"e":{"f":1},"l":[1,null]}"#)
            try scene.directory.put("config.d/10.json", "{\n\"a\": {\n\"b\": null}, \"c\": null}")
            for layer in FileLayer.allCases { try await scene.read(layer) }
            _ = try await scene.store.set(JSONPath(["e"]), to: "text", timeToLive: nil)
            #expect(scene.store.value == ["a": .emptyObject, "e": "text", "l": [1, .null]])
            for (path, layer, line) in [("a.b", 1, 3), ("c.d", 1, 3), ("e.f", 4, nil)] as [(String, Int, Int?)] {
                let explanation = try await scene.explain(path)
                #expect(explanation.value == nil)
                #expect(explanation.layers[0].value == 1)
                #expect(explanation.layers[layer].hides && explanation.layers[layer].value == nil)
                #expect(explanation.layers[layer].source?.line == line)
                #expect(explanation.winner == ConfigLayer.allCases[layer])
            }
            // Inside an array, null is a value and removes nothing.
            #expect(try await scene.explain("l.1").layers[0].value == .null)
            #expect(try await scene.explain("l.1").value == .null)
        }
    }

    @Test("the winner of an object is the highest layer that sets anything in it")
    func objects() async throws {
        try await withScene { scene in
            try scene.directory.put("defaults.json", #"{"a":{"b":1,"c":1}}"#)
            try await scene.read(.defaults)
            _ = try await scene.store.set(JSONPath(["a", "b"]), to: 2, timeToLive: nil)
            _ = try await scene.store.set(
                JSONPath(["a", "d", "e"]), to: 3, timeToLive: nil, by: Peer(pid: 1, uid: 2, command: "x"))
            _ = try await scene.store.set(JSONPath(["z"]), to: 3, timeToLive: nil)
            let explanation = try await scene.explain("a")
            #expect(explanation.winner == .override)
            #expect(explanation.value == ["b": 2, "c": 1, "d": ["e": 3]])
            #expect(explanation.layers[4].value == ["b": 2, "d": ["e": 3]])
            #expect(explanation.layers[4].source?.peer?.uid == 2)
            #expect(try await scene.explain("a.c").winner == .defaults)
        }
    }

    @Test("a file that has changed since it was read is not named, even if it is now invalid")
    func changedFiles() async throws {
        try await withScene { scene in
            try scene.directory.put("config.d/10.json", #"{"n":1}"#)
            try await scene.read(.host)
            for text in [#"{"n":2}"#, #"{"n":"#] {
                try scene.directory.put("config.d/10.json", text)
                let source = try await scene.explain("n").layers[1].source
                #expect(source == ConfigExplanation.Source(kind: "file", location: scene.directory.at("config.d")))
            }
        }
    }

    @Test("the file layers win at a locked path, and the lock names the file and line of their value")
    func locks() async throws {
        let rules = LayerRules(locks: LockedPaths([JSONPath(["s", "n"]), JSONPath(["gone"])]))
        try await withScene(rules) { scene in
            try scene.directory.put("config.d/10.json", "{\n\"s\":\n{\n\"n\": 1}}")
            try await scene.read(.host)
            try await push(scene.store, ["s": ["n": 2], "gone": 1])
            #expect(scene.store.value == ["s": ["n": 1]])
            let explanation = try await scene.explain("s.n")
            #expect(explanation.winner == .host)
            #expect(explanation.layers[2].value == 2)
            #expect(
                explanation.lock
                    == ConfigExplanation.Lock(
                        path: JSONPath(["s", "n"]), file: scene.directory.at("config.d/10.json"), line: 4,
                        settings: "/etc/larder/larder.json"))
            let gone = try await scene.explain("gone.deeper")
            #expect(gone.winner == nil && gone.value == nil)
            #expect(
                gone.lock
                    == ConfigExplanation.Lock(path: JSONPath(["gone"]), settings: "/etc/larder/larder.json"))
            #expect(try await scene.explain("s").lock == nil)

            let layers = await scene.store.layers
            let refusal = await scene.explainer.refusal(JSONPath(["s", "n"]), layers)
            #expect(
                refusal.message
                    == "\"s.n\" is locked in /etc/larder/larder.json to the value in "
                    + "\(scene.directory.at("config.d/10.json")):4; change it there, or remove the lock")
            #expect(refusal.code == .locked)
            let absent = await scene.explainer.refusal(JSONPath(["gone"]), layers)
            #expect(absent.message.contains("neither the defaults nor the host files have a value there"))
        }
    }

    @Test("the explanation of a remote value names its line in a file, or its key in a key-value source")
    func remotes() async throws {
        let rules = LayerRules(experiments: ExperimentRules(member: "experiments"))
        try await withScene(rules) { scene in
            let path = scene.directory.at("remote.json")
            try scene.directory.put(
                "remote.json",
                "{\"n\": 1,\n\"experiments\":\n[{\"name\":\"arm\",\"percentage\":100,\"values\":{\"m\":1}}]}")
            scene.configuration.remote = .file(FileSourceSettings(path: path))
            let document = try JSONValue(parsing: String(contentsOfFile: path, encoding: .utf8))
            var answer = SourceDocument(value: document, version: UpstreamVersion("3"))
            answer.source = scene.configuration.remote?.identity
            _ = try await scene.store.replaceRemote(answer, origin: path, force: false, isPush: false)
            #expect(
                try await scene.explain("n").layers[2].source
                    == ConfigExplanation.Source(kind: "file", location: path, file: path, line: 1, version: "3"))
            #expect(
                try await scene.explain("m").layers[3].source
                    == ConfigExplanation.Source(kind: "file", location: path, version: "3", experiment: "arm"))

            let source = KeyedSource(location: path)
            scene.source = source
            #expect(try await scene.explain("n").layers[2].source?.key == "config/n")
        }
    }

    @Test("`since` is the time since which a layer has had its current value without interruption")
    func since() async throws {
        try await withScene { scene in
            let store = scene.store
            func set(_ name: String, _ value: JSONValue) async throws {
                _ = try await store.set(JSONPath([name]), to: value, timeToLive: nil)
            }
            try await push(store, ["n": 1])
            let first = store.revision
            try await set("n", 2)
            let second = store.revision
            try await set("other", 1)
            var explanation = try await scene.explain("n")
            #expect(explanation.layers[2].since?.revision == first)
            #expect(explanation.layers[2].since?.orEarlier == false)
            #expect(explanation.layers[4].since?.revision == second)
            #expect(explanation.layers[4].since?.at == store.publication.recent(revision: second)?.publishedAt)
            // The value changes and changes back. `since` begins again at the second change.
            try await set("n", 3)
            try await set("n", 2)
            #expect(try await scene.explain("n").layers[4].since?.revision == store.revision)
            for number in 0..<20 { try await set("other", .int(number)) }
            explanation = try await scene.explain("n")
            #expect(explanation.layers[2].since?.revision == store.revision - 15)
            #expect(explanation.layers[2].since?.orEarlier == true)
        }
    }

    @Test("only layers with held content report the revision that the rollback restored")
    func held() async throws {
        try await withScene(LayerRules(experiments: ExperimentRules(member: "experiments"))) { scene in
            func document(_ number: JSONValue) -> JSONValue {
                ["r": number, "experiments": [["name": "arm", "percentage": 100, "values": ["e": number]]]]
            }
            let store = scene.store
            _ = try await store.replaceFiles(.host, with: ["h": 1])
            try await push(store, document(1))
            let old = store.revision
            try await push(store, document(2))
            _ = try await store.rollBack(toRevision: old, by: nil)
            func held(_ path: String) async throws -> [Int?] {
                try await scene.explain(path).layers.map(\.heldRevision)
            }
            #expect(try await held("r") == [nil, nil, old, nil, nil])
            #expect(try await scene.explain("r").layers[2].value == 1)
            #expect(try await held("e") == [nil, nil, old, old, nil])
            _ = try await store.release(by: nil)
            #expect(try await held("e") == [nil, nil, nil, nil, nil])
        }
    }

    @Test("if a layer value changes without a new snapshot, `since` has the time of that change")
    func sinceLater() async throws {
        let now = Atomic(1_000_000)
        try await withScene(wallClock: WallClock { now.load(ordering: .relaxed) }) { scene in
            let store = scene.store
            func later() { now.add(1000, ordering: .relaxed) }
            try await push(store, ["n": 1, "a": 1])
            later()
            _ = try await store.set(JSONPath(["n"]), to: 100, timeToLive: nil)
            let revision = store.revision
            later()
            try await push(store, ["n": 2, "a": 1])
            #expect(store.revision == revision)
            var layers = try await scene.explain("n").layers
            #expect(layers[2].since?.revision == revision && layers[2].since?.at == 1_002_000)
            #expect(layers[4].since?.revision == revision && layers[4].since?.at == 1_001_000)
            #expect(try await scene.explain("a").layers[2].since?.at == 1_000_000)
            // If the same value is set again, `since` keeps its time.
            later()
            _ = try await store.set(JSONPath(["n"]), to: 100, timeToLive: .seconds(600))
            #expect(try await scene.explain("n").layers[4].since?.at == 1_001_000)
            // A later snapshot does not change these times.
            later()
            _ = try await store.set(JSONPath(["other"]), to: 1, timeToLive: nil)
            layers = try await scene.explain("n").layers
            #expect(layers[2].since?.at == 1_002_000 && layers[4].since?.at == 1_001_000)
        }
    }

    /// A source that names a key for each path, as an etcd source does.
    private struct KeyedSource: ConfigSource {
        let kind = "file"
        let location: String
        var identity: String { location }
        func fetch(
            ifChangedFrom validator: Validator?, reason: FetchReason
        ) async throws(ConfigError) -> SourceResponse { .notModified }
        func documents(
            after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
        ) -> SourceDocuments? { nil }
        func key(of path: [String]) -> String? { "config/" + path.joined(separator: "/") }
    }
}

extension ScratchDirectory {
    fileprivate func put(_ name: String, _ text: String) throws { try write(text, to: name) }
}
