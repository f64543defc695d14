import ConfigTestSupport
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Enforcement of schemas", .timeLimit(.minutes(2)))
struct SchemaEnforcementTests {
    /// Requires `limit`, an integer from 1 to 100, and permits `name`, a string.
    private static let schema = """
        {"required": ["limit"], "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 100},
         "name": {"type": "string"}}}
        """

    private static func fixture(hasRemote: Bool = false, host: JSONValue? = ["limit": 10]) -> StoreFixture {
        var fixture = StoreFixture()
        fixture.hasRemote = hasRemote
        fixture.host = host
        fixture.schema = schema
        return fixture
    }

    /// The error of a change; nil if the store makes the change.
    private func refusal(_ body: () async throws(ConfigError) -> CommitOutcome) async -> ConfigError? {
        do throws(ConfigError) {
            _ = try await body()
            return nil
        } catch {
            return error
        }
    }

    private func set(_ path: String, _ value: JSONValue, in store: ConfigStore) async -> ConfigError? {
        await refusal { () async throws(ConfigError) in
            try await store.set(JSONPath(path.split(separator: ".").map(String.init)), to: value, timeToLive: nil)
        }
    }

    @Test("a set that would violate the schema is refused with path, keyword and layer, and changes nothing")
    func refusedSet() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let before = store.revision
            let error = await set("limit", "twenty", in: store)
            #expect(error?.code == .schemaViolation)
            let problem = try #require(error?.schemaProblems.first)
            #expect(problem.path == JSONPath(["limit"]) && problem.keyword == "type" && problem.layer == .override)
            #expect(problem.message.contains("integer") && problem.message.contains("twenty"))
            #expect(store.revision == before && store.value == ["limit": 10])
            #expect(await set("limit", 20, in: store) == nil)
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("removing an override is refused if a lower layer then violates the schema")
    func refusedUnset() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(await set("limit", 20, in: store) == nil)
            // The override hides the invalid value, so the files are accepted.
            _ = try await store.replaceFiles(.host, with: ["limit": 1000])
            let error = await refusal { () async throws(ConfigError) in try await store.unset(JSONPath(["limit"])) }
            #expect(error?.schemaProblems.first?.layer == .host)
            #expect(store.value == ["limit": 20])
        }
    }

    @Test("of changes that wait together, only those that violate the schema are refused")
    func batch() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let values: [JSONValue] = [20, "x", 30, 1000, 40]
            let errors = await withTaskGroup { group in
                for (index, value) in values.enumerated() {
                    group.addTask { (index, await self.set("limit", value, in: store)) }
                }
                return await group.reduce(into: [Int: ConfigError]()) { $0[$1.0] = $1.1 }
            }
            #expect(Set(errors.keys) == [1, 3])
            #expect(errors.values.allSatisfy { $0.code == .schemaViolation })
            #expect(store.publication.current.snapshot.revision > 0)
        }
    }

    @Test("refused files leave the layer as it was, and are accepted once another change makes them valid")
    func refusedFiles() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let error = await refusal { () async throws(ConfigError) in
                try await store.replaceFiles(.host, with: ["limit": 5, "name": 1])
            }
            #expect(error?.code == .schemaViolation)
            #expect(store.value == ["limit": 10])
            let refusal = try #require(store.publication.status.schema.refusal)
            #expect(refusal.layer == .host && refusal.problems.first?.path == JSONPath(["name"]))
            #expect(store.publication.status.freshness == .fresh)
            #expect(await set("name", "a", in: store) == nil)
            #expect(store.value == ["limit": 5, "name": "a"])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("valid files replace refused ones, which are then never applied")
    func replacedRefusal() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try? await store.replaceFiles(.host, with: ["limit": 1000])
            _ = try await store.replaceFiles(.host, with: ["limit": 50])
            #expect(store.publication.status.schema.refusal == nil)
            #expect(await set("name", "a", in: store) == nil)
            #expect(store.value == ["limit": 50, "name": "a"])
        }
    }

    @Test("a refused document of the source makes the refresh fail, and its version is reported")
    func refusedDocument() async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, source) async throws in
            let outcome = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["limit": 0], version: "7", etag: "x")
            let error = await #expect(throws: ConfigError.self) { try await outcome.value }
            #expect(error?.code == .schemaViolation)
            let refusal = try #require(store.publication.status.schema.refusal)
            #expect(refusal.layer == .remote && refusal.version == "7")
            #expect(store.value == ["limit": 10])
        }
    }

    @Test("a new schema that the snapshot violates leaves it published; the next change must satisfy the schema")
    func newSchema() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"maximum": 5}}}"#))
            #expect(store.value == ["limit": 10])
            #expect(store.publication.status.schema.problems.first?.keyword == "maximum")
            #expect(await set("name", "a", in: store)?.code == .schemaViolation)
            #expect(await set("limit", 5, in: store) == nil)
            #expect(store.publication.status.schema.problems.isEmpty)
        }
    }

    @Test("a new schema is applied to refused content again")
    func newSchemaAcceptsRefused() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try? await store.replaceFiles(.host, with: ["limit": 1000])
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"maximum": 5000}}}"#))
            #expect(store.value == ["limit": 1000])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("with `warn`, changes that violate the schema are published and reported")
    func warn() async throws {
        var fixture = Self.fixture()
        fixture.enforcement = .warn
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(await set("limit", 1000, in: store) == nil)
            #expect(store.value == ["limit": 1000])
            #expect(store.publication.status.schema.problems.first?.keyword == "maximum")
            #expect(await set("limit", 1, in: store) == nil)
            #expect(store.publication.status.schema.problems.isEmpty)
        }
    }

    @Test("an override stays in force after its expiry as long as the configuration would be invalid without it")
    func expiry() async throws {
        let clock = ManualClock()
        var fixture = Self.fixture()
        fixture.clock = clock
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try await store.set(JSONPath(["limit"]), to: 20, timeToLive: .seconds(1))
            _ = try await store.replaceFiles(.host, with: ["limit": 1000])
            let end = try #require(await store.layers.override.expiringEntries.first)
            let error = await refusal { () async throws(ConfigError) in
                try await store.commit(
                    .expireOverrides([ExpiringOverride(path: ["limit"], expiresAt: end.expiresAt ?? 0)]))
            }
            #expect(error?.code == .schemaViolation)
            #expect(store.value == ["limit": 20])
            #expect(store.publication.status.schema.refusal?.layer == .override)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            #expect(store.value == ["limit": 30])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("at a start, changed files that violate the schema are refused, and the last content is served")
    func startWithRefusedFiles() async throws {
        var fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { _ in }
        fixture.host = ["limit": 1000]
        try await fixture.withStore { store in
            #expect(store.value == ["limit": 10])
            #expect(store.publication.status.schema.refusal?.layer == .host)
        }
    }

    @Test("at a first start with invalid files, nothing is published until a change makes the configuration valid")
    func firstStart() async throws {
        let fixture = Self.fixture(host: ["limit": 1000])
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(store.revision == 0)
            #expect(await set("limit", 20, in: store) == nil)
            #expect(store.revision > 0 && store.value == ["limit": 20])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("messages do not show secret values")
    func secrets() async throws {
        var fixture = Self.fixture()
        fixture.secrets = try SecretPatterns(["name"])
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let error = try #require(await set("name", 4711, in: store))
            #expect(!error.message.contains("4711") && error.schemaProblems.allSatisfy { !$0.text.contains("4711") })
        }
    }

    @Test("a preview reports the violations and changes nothing")
    func preview() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let preview = try await store.preview(.set(path: ["limit"], value: 500, timeToLive: nil, by: nil))
            #expect(preview.schemaProblems.first?.keyword == "maximum")
            #expect(store.value == ["limit": 10])
        }
    }
}
