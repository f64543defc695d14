@testable import LarderConfigStorage
import LarderHTTPSemantics
import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Layers, locks and experiments")
struct LayersTests {
    private func rules(
        locks: [String] = [], member: String? = nil, _ overlays: [ExperimentOverlay] = [], unit: String = "till-7"
    ) throws -> LayerRules {
        LayerRules(
            locks: LockedPaths(try locks.map(JSONPath.init(parsing:))),
            experiments: ExperimentRules(member: member, overlays: overlays), unit: unit)
    }

    private func allUnits(_ name: String, _ values: JSONValue) -> ExperimentOverlay {
        ExperimentOverlay(name: name, share: .init(to: 100), values: values)
    }

    private func push(_ store: ConfigStore, _ document: JSONValue) async throws {
        _ = try await store.replaceRemote(
            SourceDocument(value: document), origin: SourceOrigin.push, force: false, isPush: true)
    }

    @Test("a higher layer overrides a lower one")
    func precedence() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        let all = JSONPath([])
        fixture.rules = try rules([allUnits("e", ["d": "experiment", "e": "experiment"])])
        let store = try await fixture.open()
        let names = ["a", "b", "c", "d", "e"]
        func document(_ name: String, _ from: Int) -> JSONValue {
            .object(names.dropFirst(from).map { ($0, .string(name)) })
        }
        _ = try await store.replaceFiles(.defaults, with: document("defaults", 0))
        _ = try await store.replaceFiles(.host, with: document("host", 1))
        try await push(store, document("remote", 2))
        _ = try await store.set(all, to: ["e": "override"], timeToLive: nil)
        #expect(
            store.value == ["a": "defaults", "b": "host", "c": "remote", "d": "experiment", "e": "override"])
        let status = store.publication.status
        #expect(
            ConfigLayer.allCases.allSatisfy { status.content(of: $0).isPresent && status.content(of: $0).bytes > 0 })
        await store.stop()
    }

    @Test("a client cannot change a locked path, and higher layers have no effect there")
    func locks() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(locks: ["search.limit"], [allUnits("e", ["search": ["limit": 7]])])
        let store = try await fixture.open()
        _ = try await store.replaceFiles(.defaults, with: ["search": ["limit": 1]])
        _ = try await store.replaceFiles(.host, with: ["search": ["limit": 2]])
        try await push(store, ["search": ["limit": 9, "x": 1]])
        #expect(store.value == ["search": ["limit": 2, "x": 1]])
        for (path, value) in [(["search", "limit"], 2), (["search"], .null)] as [([String], JSONValue)] {
            let error = await #expect(throws: ConfigError.self) {
                try await store.set(JSONPath(path), to: value, timeToLive: nil)
            }
            #expect(error?.code == .locked)
        }
        _ = try await store.set(JSONPath(["search"]), to: ["x": 3], timeToLive: nil)
        #expect(store.value == ["search": ["limit": 2, "x": 3]])
        await store.stop()
    }

    @Test("an existing override has no effect while its path is locked")
    func lockedLater() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        await store.follow(try rules(locks: ["n"]))
        #expect(store.value == .emptyObject)
        await store.follow(try rules())
        #expect(store.value == ["n": 1])
        await store.stop()
    }

    @Test("the member of the remote document that declares experiments is not part of the configuration")
    func remoteExperiments() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(member: "experiments", [allUnits("local", ["b": "local"])])
        let store = try await fixture.open()
        try await push(
            store,
            [
                "a": 1, "b": 1,
                "experiments": [
                    ["name": "r", "percentage": 100, "values": ["a": "remote", "b": "remote"]],
                    ["name": "none", "units": ["till-8"], "values": ["a": "other"]],
                ],
            ])
        #expect(store.value == ["a": "remote", "b": "local"])
        #expect(await store.layers.experiment.overlays.map(\.name) == ["r", "local"])
        // With these settings, the member `experiments` is part of the configuration again, and the member `b` declares
        // experiments.
        await store.follow(try rules(member: "b"))
        #expect(store.value["experiments"]?.count == 2)
        #expect(store.value["b"] == nil)
        await store.follow(try rules(member: "experiments"))
        #expect(store.value == ["a": "remote", "b": "remote"])
        // A push that changes only the experiments is a change. A push with equal experiments is not.
        let revision = store.revision
        try await push(store, ["a": 1, "b": 1, "experiments": []])
        #expect(store.value == ["a": 1, "b": 1])
        #expect(store.revision == revision + 1)
        try await push(store, ["a": 1, "b": 1, "experiments": []])
        #expect(store.revision == revision + 1)
        await store.stop()
    }

    @Test("a remote document with invalid experiments is rejected, and the error contains none of its values")
    func malformed() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(member: "experiments")
        let store = try await fixture.open()
        try await push(store, ["a": 1])
        let error = await #expect(throws: ConfigError.self) {
            try await push(store, ["a": 2, "experiments": [["name": "x", "values": ["secret": "hunter2"]]]])
        }
        #expect(error?.code == .rejected)
        #expect(error?.message.hasPrefix("invalid experiments: experiments[0] must have \"percentage\"") == true)
        #expect(error?.message.contains("hunter2") == false)
        #expect(store.value == ["a": 1])
        #expect(store.publication.status.rejected?.reason == error?.message)
        await store.stop()
    }

    @Test("if new settings make a document's experiments invalid, it is used without experiments and is fetched again")
    func invalidWithNewSettings() async throws {
        var fixture = StoreFixture()
        defer { fixture.remove() }
        let store = try await fixture.open()
        let document = SourceDocument(value: ["a": 1, "list": 5], validator: .init(etag: "1"))
        _ = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        #expect(await store.validator(ofSource: "scripted:source") != nil)
        await store.follow(try rules(member: "list", [allUnits("e", ["b": 1])]))
        #expect(store.value == ["a": 1, "b": 1])
        #expect(await store.validator(ofSource: "scripted:source") == nil)
        func problem(_ store: ConfigStore) -> String? { store.publication.status.problem(of: .experiment) }
        #expect(problem(store)?.contains("invalid experiments: list ") ?? false)
        await store.stop()
        fixture.rules = try rules(member: "list")
        let next = try await fixture.open()
        #expect(problem(next) != nil)
        let right = SourceDocument(value: ["a": 1, "list": []])
        _ = try await next.replaceRemote(right, origin: "scripted:source", force: false, isPush: false)
        #expect(problem(next) == nil)
        await next.stop()
    }

    @Test("if new settings make the experiments of a held document invalid, it is used without experiments")
    func heldAndInvalid() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules()
        let store = try await fixture.open()
        try await push(store, ["v": 1, "list": 5])
        let old = store.revision
        try await push(store, ["v": 2, "list": []])
        _ = try await store.rollBack(toRevision: old, by: nil)
        await store.follow(try rules(member: "list"))
        #expect(store.value == ["v": 1])
        #expect(store.publication.status.problem(of: .experiment) != nil)
        _ = try await store.release(by: nil)
        #expect(store.value == ["v": 2])
        #expect(store.publication.status.problem(of: .experiment) == nil)
        await store.stop()
    }

    @Test("if the settings are unchanged, a crash loses no client change, and value and revision stay the same")
    func crash() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(locks: ["x.y"], member: "experiments", [allUnits("e", ["b": "local"])])
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["o"]), to: 1, timeToLive: nil)
        try await push(
            first, ["x": ["y": 2], "experiments": [["name": "r", "percentage": 100, "values": ["a": "remote"]]]])
        let (value, revision) = (first.value, first.revision)
        #expect(value == ["x": .emptyObject, "o": 1, "a": "remote", "b": "local"])
        // The first store is not stopped. This simulates a crash.
        for _ in 0..<2 {
            let next = try await fixture.open()
            #expect(next.value == value)
            #expect(next.revision == revision)
            await next.stop()
        }
        withExtendedLifetime(first) {}
    }

    @Test("a restart keeps the value and revision of all five layers, but changed settings lead to a new revision")
    func restart() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(locks: ["x.y"], member: "experiments", [allUnits("e", ["b": "local"])])
        let first = try await fixture.open()
        _ = try await first.replaceFiles(.defaults, with: ["d": 1, "x": ["y": 1]])
        _ = try await first.replaceFiles(.host, with: ["h": 1])
        _ = try await first.set(JSONPath(["o"]), to: 1, timeToLive: nil)
        try await push(first, ["x": ["y": 2], "experiments": []])
        let (value, revision) = (first.value, first.revision)
        #expect(value == ["d": 1, "h": 1, "x": ["y": 1], "o": 1, "b": "local"])
        await first.stop()
        let next = try await fixture.open()
        #expect(next.value == value)
        #expect(next.revision == revision)
        await next.stop()
        fixture.rules = try rules()
        let other = try await fixture.open()
        #expect(other.value == ["d": 1, "h": 1, "x": ["y": 2], "o": 1, "experiments": []])
        #expect(other.revision == revision + 1)
        await other.stop()
    }

    @Test("a rollback shows the experiments of the held document, and a release those of the live document")
    func rollback() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(member: "experiments")
        let store = try await fixture.open()
        func document(_ name: JSONValue) -> JSONValue {
            ["v": name, "experiments": [["name": name, "percentage": 100, "values": ["arm": name]]]]
        }
        try await push(store, document("old"))
        let old = store.revision
        try await push(store, document("new"))
        #expect(store.value == ["v": "new", "arm": "new"])
        _ = try await store.rollBack(toRevision: old, by: nil)
        #expect(store.value == ["v": "old", "arm": "old"])
        #expect(await store.layers.experiment.overlays.map(\.name) == ["old"])
        _ = try await store.release(by: nil)
        #expect(store.value == ["v": "new", "arm": "new"])
        await store.stop()
    }

    @Test("the history has each snapshot as it was published, even after experiments and locks have changed")
    func history() async throws {
        var fixture = StoreFixture.local()
        defer { fixture.remove() }
        fixture.rules = try rules(locks: ["a"], [allUnits("e", ["b": 1])])
        let store = try await fixture.open()
        _ = try await store.replaceFiles(.host, with: ["a": "pinned"])
        let (revision, value) = (store.revision, store.value)
        #expect(value == ["a": "pinned", "b": 1])
        await store.follow(try rules())
        #expect(store.value == ["a": "pinned"])
        #expect(await store.pastSnapshots().first?.causes == [ChangeCause(.settings)])
        await store.stop()
        let next = try await fixture.open()
        #expect(try await next.value(ofRevision: revision) == value)
        await next.stop()
    }

    @Test("layers that an older version stored without defaults, experiments and locks can be read")
    func olderFiles() throws {
        let old =
            #"{"host":{"updatedAt":5,"document":{"h":1}},"remote":{"origin":"push","updatedAt":6,"#
            + #""document":{"r":1}},"override":[{"path":["o"],"setAt":7,"value":1}]}"#
        let layers = try #require(Layers(JSONValue(parsing: old)))
        #expect(layers.resolved() == ["h": 1, "r": 1, "o": 1])
        #expect(layers.override.entries.first?.setBy == nil)
        var writer = JSONWriter()
        layers.write(to: &writer)
        #expect(try JSONValue(parsing: writer.bytes) == JSONValue(parsing: old))
    }
}
