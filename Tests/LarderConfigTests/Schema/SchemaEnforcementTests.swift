import ConfigTestSupport
import LarderJSON
import LarderPlatform
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Enforcement of schemas", .timeLimit(.minutes(15)))
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

    /// Replaces the host files by invalid ones whose violation an override hides, before the schema is in force.
    private func hide(_ document: JSONValue, in store: ConfigStore, _ fixture: StoreFixture) async throws {
        await store.use(nil)
        _ = try await store.replaceFiles(.host, with: document)
        await store.use(try fixture.compiled(Self.schema))
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
            try await hide(["limit": 1000], in: store, fixture)
            let error = await refusal { () async throws(ConfigError) in try await store.unset(JSONPath(["limit"])) }
            #expect(error?.schemaProblems.first?.layer == .host)
            #expect(store.value == ["limit": 20])
        }
    }

    @Test(
        "invalid content of a lower layer is refused, also if an override hides the violation",
        arguments: [false, true])
    func hiddenViolation(force: Bool) async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, _) async throws in
            #expect(await set("limit", 20, in: store) == nil)
            let document = SourceDocument(value: ["limit": "abc"])
            let push = LayerChange.remote(document, origin: SourceOrigin.push, force: force, isPush: true)
            let preview = try await store.preview(push)
            let error = await #expect(throws: ConfigError.self) {
                try await refresher.applyPushedConfig(document, force: force)
            }
            #expect(error?.code == .schemaViolation)
            let problem = try #require(error?.schemaProblems.first)
            #expect(problem.path == JSONPath(["limit"]) && problem.keyword == "type" && problem.layer == .remote)
            #expect(preview.schemaProblems == error?.schemaProblems)
            #expect(store.value == ["limit": 20])
            _ = try? await store.replaceFiles(.defaults, with: ["name": 5])
            _ = try? await store.replaceFiles(.host, with: ["limit": 1000])
            #expect(store.publication.status.schema.refusal?.layer == .host)
            #expect(await refusal { () async throws(ConfigError) in try await store.unset(JSONPath([])) } == nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 10])
        }
    }

    @Test("a violation that the lower layers have already, or a member that only an override supplies, blocks nothing")
    func knownHiddenViolation() async throws {
        var fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(await set("limit", 20, in: store) == nil)
            _ = try await store.replaceFiles(.host, with: ["name": "a"])
            try await hide(["limit": 1000], in: store, fixture)
            _ = try await store.replaceFiles(.host, with: ["limit": 2000, "name": "b"])
            #expect(store.value == ["limit": 20, "name": "b"])
        }
        fixture.host = nil
        try await fixture.withStore { store in
            #expect(store.value == ["limit": 20, "name": "b"])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("invalid content is refused also while a rollback holds the layer")
    func violationBehindHold() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let old = store.revision
            _ = try await store.replaceFiles(.host, with: ["limit": 11])
            _ = try await store.rollBack(toRevision: old, hold: .untilReleased, by: nil)
            let error = await refusal { () async throws(ConfigError) in
                try await store.replaceFiles(.host, with: ["limit": 1000])
            }
            #expect(error?.code == .schemaViolation)
            _ = try await store.release(by: nil)
            #expect(store.value == ["limit": 11])
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

    @Test("refused files leave the layer as it was, also if an override hides what is invalid in them")
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
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 10, "name": "a"])
            #expect(store.publication.status.schema.refusal?.layer == .host)
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
            await store.changes.waitUntilIdle()
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
            _ = try await store.set(JSONPath(["limit"]), to: 20, timeToLive: .seconds(3600))
            try await hide(["limit": 1000], in: store, fixture)
            let end = try #require(await store.layers.override.expiringEntries.first)
            let error = await refusal { () async throws(ConfigError) in
                try await store.commit(
                    .expireOverrides([ExpiringOverride(path: ["limit"], expiresAt: end.expiresAt ?? 0)]))
            }
            #expect(error?.code == .schemaViolation)
            #expect(store.value == ["limit": 20])
            #expect(store.publication.status.schema.refusal?.layer == .override)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("of overrides that expire together, only those without which the configuration would be invalid stay")
    func expiryOfSeveral() async throws {
        let clock = ManualClock()
        var fixture = Self.fixture(host: ["limit": 10, "name": "a"])
        fixture.clock = clock
        fixture.wallClock = WallClock { 1_800_000_000_000 }
        defer { fixture.remove() }
        try await fixture.withStore { store in
            for (path, value) in [("limit", 20), ("other", 1)] as [(String, JSONValue)] {
                _ = try await store.set(JSONPath([path]), to: value, timeToLive: .seconds(1))
            }
            try await hide(["limit": 1000], in: store, fixture)
            clock.advance(by: .seconds(2))
            while store.publication.status.schema.refusal == nil || store.value["other"] != nil { await Task.yield() }
            #expect(store.value == ["limit": 20])
            #expect(store.publication.status.schema.refusal?.layer == .override)
        }
    }

    @Test("an override that expired while no agent was running stays if the configuration would be invalid without it")
    func expiryAtStart() async throws {
        let time = Mutex(1_800_000_000_000)
        var fixture = Self.fixture()
        fixture.wallClock = WallClock { time.withLock { $0 } }
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try await store.set(JSONPath(["limit"]), to: 20, timeToLive: .seconds(1))
            try await hide(["limit": 1000], in: store, fixture)
        }
        time.withLock { $0 += 60_000 }
        fixture.host = nil
        try await fixture.withStore { store in
            #expect(store.value == ["limit": 20])
            #expect(store.publication.status.schema.refusal?.layer == .override)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
        }
    }

    @Test("at a start, new locks that would make the configuration invalid are refused")
    func rulesAtStart() async throws {
        var fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(await set("limit", 20, in: store) == nil)
            try await hide(["limit": 1000], in: store, fixture)
        }
        fixture.host = nil
        fixture.rules.locks = LockedPaths([JSONPath(["limit"])])
        try await fixture.withStore { store in
            #expect(store.value == ["limit": 20])
            let refusal = try #require(store.publication.status.schema.refusal)
            #expect(refusal.layer == nil)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("new locks that would make the configuration invalid are refused, and applied once it is valid with them")
    func rules() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(await set("limit", 20, in: store) == nil)
            try await hide(["limit": 1000], in: store, fixture)
            await store.follow(LayerRules(locks: LockedPaths([JSONPath(["limit"])])))
            #expect(store.value == ["limit": 20])
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
        }
    }

    @Test("a refused rollback leaves the snapshot as it is, and is not tried again")
    func rollback() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let old = store.revision
            #expect(await set("limit", 20, in: store) == nil)
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"minimum": 15}}}"#))
            let error = await refusal { () async throws(ConfigError) in
                try await store.rollBack(toRevision: old, by: nil)
            }
            #expect(error?.code == .schemaViolation)
            #expect(await set("name", "a", in: store) == nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 20, "name": "a"])
        }
    }

    @Test("a refused push does not replace the remote document, and is not tried again")
    func push() async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, _) async throws in
            _ = try await refresher.applyPushedConfig(SourceDocument(value: ["name": "a"]), force: false)
            let error = await #expect(throws: ConfigError.self) {
                try await refresher.applyPushedConfig(SourceDocument(value: ["limit": 0]), force: true)
            }
            #expect(error?.code == .schemaViolation && error?.schemaProblems.first?.layer == .remote)
            #expect(await set("limit", 7, in: store) == nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 7, "name": "a"])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("after the first publication, files that are valid only together with refused ones are refused, too")
    func validTogether() async throws {
        var fixture = Self.fixture(host: [:])
        fixture.schema = #"{"dependentRequired": {"a": ["b"], "b": ["a"]}}"#
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try? await store.replaceFiles(.defaults, with: ["a": 1])
            #expect(store.publication.status.schema.refusal?.layer == .defaults)
            _ = try? await store.replaceFiles(.host, with: ["b": 2])
            #expect(store.value == .emptyObject)
            #expect(store.publication.status.schema.refusal?.layer == .host)
            #expect(await set("b", 3, in: store)?.code == .schemaViolation)
            await store.use(nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["a": 1, "b": 2])
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("a refused document is forgotten when the source confirms the current one")
    func confirmation() async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, source) async throws in
            let refused = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["limit": 0], version: "7", etag: "x")
            _ = try? await refused.value
            #expect(store.publication.status.schema.refusal?.version == "7")
            let confirmed = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answerNotModified()
            _ = try await confirmed.value
            #expect(store.publication.status.schema.refusal == nil)
        }
    }

    @Test("an invalid change is refused even if a later change of the same batch would have replaced it")
    func overwrittenChange() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let results = await withTaskGroup { group in
                for (index, value) in ([20, "x", 30] as [JSONValue]).enumerated() {
                    let (result, promise) = AsyncStream.makeStream(of: Result<CommitOutcome, ConfigError>.self)
                    _ = store.submit("limit", value) {
                        promise.yield($0)
                        promise.finish()
                    }
                    group.addTask { () -> (Int, Bool) in
                        for await outcome in result { return (index, (try? outcome.get()) != nil) }
                        return (index, false)
                    }
                }
                return await group.reduce(into: [Int: Bool]()) { $0[$1.0] = $1.1 }
            }
            #expect(results == [0: true, 1: false, 2: true])
            #expect(store.value == ["limit": 30])
        }
    }

    @Test("before the first publication, a change without an effect is not refused, and the refusal of the files stays")
    func noChangeBeforeFirstPublication() async throws {
        let fixture = Self.fixture(host: ["limit": 1000])
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try await store.replaceFiles(.defaults, with: .empty)
            #expect(store.revision == 0)
            let refusal = try #require(store.publication.status.schema.refusal)
            #expect(refusal.layer == .host && refusal.problems.first?.keyword == "maximum")
        }
    }

    @Test("before the first publication, a schema that the layers satisfy publishes them")
    func firstPublicationBySchema() async throws {
        let fixture = Self.fixture(host: ["name": "a"])
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(store.revision == 0)
            await store.use(try fixture.compiled(#"{"properties": {"name": {"type": "string"}}}"#))
            await store.changes.waitUntilIdle()
            #expect(store.revision > 0 && store.value == ["name": "a"])
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
            await store.changes.waitUntilIdle()
            #expect(store.revision > 0 && store.value == ["limit": 20])
            // The files stay refused, because the override would only hide the violation.
            #expect(store.publication.status.schema.refusal?.layer == .host)
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

    @Test("only the reply to the change that contains a value shows it; the status and other replies do not")
    func valuesInMessages() async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, source) async throws in
            let files = await refusal { () async throws(ConfigError) in
                try await store.replaceFiles(.host, with: ["limit": "hunter1"])
            }
            let outcome = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["limit": "hunter2"], version: "7", etag: "x")
            let refresh = await #expect(throws: ConfigError.self) { try await outcome.value }
            for error in [files, refresh] {
                #expect(error?.message.contains("expected an integer, found a string") == true)
                #expect(error?.message.contains("hunter") == false)
            }
            let status = store.publication.status
            #expect(status.lastError?.error.message.contains("hunter") == false)
            #expect(status.schema.refusal?.problems.contains { "\($0)".contains("hunter") } == false)

            let push = await #expect(throws: ConfigError.self) {
                try await refresher.applyPushedConfig(SourceDocument(value: ["limit": "hunter3"]), force: false)
            }
            #expect(push?.message.contains("found \"hunter3\"") == true)
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"type": "integer", "maximum": 15}}}"#))
            #expect(await set("limit", 17, in: store)?.message.contains("found 17") == true)
            // The reply to `unset` does not show the value that it exposes.
            #expect(await set("limit", 12, in: store) == nil)
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"type": "integer", "minimum": 11}}}"#))
            let unset = await refusal { () async throws(ConfigError) in try await store.unset(JSONPath(["limit"])) }
            #expect(unset?.message.contains("found a number") == true)
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
