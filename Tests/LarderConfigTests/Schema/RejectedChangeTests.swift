import ConfigTestSupport
import LarderJSON
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Refused changes", .timeLimit(.minutes(15)))
struct RejectedChangeTests {
    /// `a` must agree with `b`: 1 with "x", and 2 with "y". `c` requires `d`, and `d` requires `c`.
    private static let schema = """
        {"dependentRequired": {"c": ["d"], "d": ["c"]}, "allOf": [
          {"if": {"required": ["a"], "properties": {"a": {"const": 1}}}, "then": {"properties": {"b": {"const": "x"}}}},
          {"if": {"required": ["a"], "properties": {"a": {"const": 2}}}, "then": {"properties": {"b": {"const": "y"}}}}
        ]}
        """

    private static func fixture(host: JSONValue? = ["b": "y"], schema: String = schema) -> StoreFixture {
        var fixture = StoreFixture.local(.relaxed)
        fixture.host = host
        fixture.schema = schema
        return fixture
    }

    private func result(of change: LayerChange, in store: ConfigStore) async -> Result<CommitOutcome, ConfigError> {
        do throws(ConfigError) { return .success(try await store.commit(change)) } catch { return .failure(error) }
    }

    private func set(_ name: String, _ value: JSONValue) -> LayerChange {
        .set(path: [name], value: value, timeToLive: nil, by: nil)
    }

    @Test("a client's change that is valid only with rejected files is rejected, and undoes no acknowledged change")
    func order() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try await store.commit(set("a", 2))
            _ = try? await store.replaceFiles(.host, with: ["b": "x"])
            let (results, promise) = AsyncStream.makeStream(of: (id: Int, isAccepted: Bool).self)
            for id in 1...2 {
                _ = store.submit("a", .int(id)) { promise.yield((id, (try? $0.get()) != nil)) }
            }
            var accepted: [Int: Bool] = [:]
            for await result in results {
                accepted[result.id] = result.isAccepted
                if accepted.count == 2 { break }
            }
            await store.changes.waitUntilIdle()
            #expect(accepted == [1: false, 2: true])
            #expect(store.value == ["b": "y", "a": 2])
            #expect(store.publication.status.schema.rejection?.layer == .host)
        }
    }

    @Test("of changes that wait together, each is validated after the accepted ones before it")
    func successive() async throws {
        let (files, gate) = (FaultyFileSystem(), DispatchGate())
        var fixture = Self.fixture()
        fixture.durability = .full
        fixture.files = files
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let accepted = Mutex<[Int: Bool]>([:])
            let changes = [set("n", 1), set("a", 2), set("b", "x"), set("n", 2), set("a", 1), set("c", 1)]
            files.blockJournalWrites(at: gate)
            for (index, change) in changes.enumerated() {
                _ = store.submit(change, on: nil) { result in
                    accepted.withLock { $0[index] = (try? result.get()) != nil }
                }
                // The others wait together while the first one is written.
                if index == 0 { await gate.waitForArrival() }
            }
            files.blockJournalWrites(at: nil)
            gate.open()
            await store.changes.waitUntilIdle()
            #expect(accepted.withLock { $0 } == [0: true, 1: true, 2: false, 3: true, 4: false, 5: false])
            #expect(store.value == ["b": "y", "n": 2, "a": 2])
        }
    }

    @Test("refused contents are tried again in the order of their layers")
    func layerOrder() async throws {
        let fixture = Self.fixture(host: [:], schema: #"{"maxProperties": 1}"#)
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try await store.commit(set("a", 1))
            _ = try? await store.replaceFiles(.host, with: ["h": 1])
            _ = try? await store.replaceFiles(.defaults, with: ["d": 1])
            _ = try await store.unset(JSONPath(["a"]))
            await store.changes.waitUntilIdle()
            #expect(store.value == ["d": 1])
            #expect(store.publication.status.schema.rejection?.layer == .host)
        }
    }

    @Test("before the first publication, layers that are valid only together are published together")
    func firstPublication() async throws {
        let fixture = Self.fixture(host: ["c": 1], schema: #"{"required": ["c", "d"]}"#)
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(store.revision == 0)
            let push = LayerChange.remote(
                SourceDocument(value: ["d": 2]), origin: SourceOrigin.push, force: false, isPush: true)
            #expect(try await store.preview(push).value == ["c": 1, "d": 2])
            #expect(try await store.preview(set("e", 1)).schemaProblems.first?.keyword == "required")
            _ = try await store.commit(push)
            #expect(store.revision > 0 && store.value == ["c": 1, "d": 2])
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("a start applies the changed layers in their order and keeps each one that is valid")
    func start() throws {
        let fixture = Self.fixture(schema: #"{"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}"#)
        var lastGood = Layers()
        lastGood.override.set(OverrideEntry(path: ["b"], value: 1, setAt: 0, expiresAt: 5))
        lastGood.override.set(OverrideEntry(path: ["e"], value: 1, setAt: 0, expiresAt: 5))
        lastGood[.host] = FileDocument(document: ["b": "hidden"], updatedAt: 0)
        var layers = lastGood
        layers[.defaults] = FileDocument(document: ["a": "bad"], updatedAt: 1)
        layers[.host] = FileDocument(document: ["b": "hidden", "h": 1], updatedAt: 1)
        layers.override = OverrideLayer()
        var gate = SchemaGate(try fixture.compiled(try #require(fixture.schema)))
        #expect(gate.open(&layers, lastGood: lastGood, now: 10).isEmpty)
        #expect(layers.resolved() == ["b": 1, "h": 1])
        #expect(gate.inLayerOrder.map(\.layer) == [.defaults, .override])
        #expect(gate.rejected.contains { $0.subject == .expiry(["b"]) } && gate.isCurrentValid)
    }

    @Test("a dry run and the commit agree, and no acknowledged change is undone", arguments: 0..<40)
    func agreement(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let fixture = Self.fixture(host: nil)
        defer { fixture.remove() }
        let values: [String: [JSONValue]] = ["a": [1, 2], "b": ["x", "y"], "c": [1], "d": [1]]
        let names = ["a", "b", "c", "d"]
        func document() -> JSONValue {
            .object(
                names.filter { _ in Bool.random(using: &random) }
                    .map { ($0, values[$0]?.randomElement(using: &random) ?? .null) })
        }
        try await fixture.withStore { store in
            var overrides: [String: JSONValue] = [:]
            for _ in 0..<60 {
                let name = names[Int.random(in: 0..<4, using: &random)]
                let value = values[name]?.randomElement(using: &random) ?? .null
                switch Int.random(in: 0..<6, using: &random) {
                case 0: _ = try? await store.replaceFiles(.defaults, with: document())
                case 1: _ = try? await store.replaceFiles(.host, with: document())
                case let kind:
                    let change: LayerChange =
                        switch kind {
                        case 2:
                            .remote(
                                SourceDocument(value: document()), origin: SourceOrigin.push, force: true, isPush: true)
                        case 3: .unset(path: [name], by: nil)
                        default: set(name, value)
                        }
                    let preview = try await store.preview(change)
                    switch await result(of: change, in: store) {
                    case .success(let commit):
                        #expect(preview.schemaProblems.isEmpty)
                        #expect(try await store.value(ofRevision: commit.revision) == preview.value)
                        if kind == 3 { overrides[name] = nil } else if kind > 3 { overrides[name] = value }
                    case .failure(let error): #expect(preview.schemaProblems == error.schemaProblems)
                    }
                }
                await store.changes.waitUntilIdle()
                for (name, value) in overrides { #expect(store.value[name] == value) }
            }
        }
    }
}

/// The generator of Steele, Lea and Flood.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
