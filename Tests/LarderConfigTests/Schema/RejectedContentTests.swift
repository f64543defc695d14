import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Content of lower layers that a schema rejects", .timeLimit(.minutes(15)))
struct RejectedContentTests: SchemaEnforcementSuite {
    @Test(
        "invalid content of a lower layer is rejected, also if an override hides the violation",
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
            #expect(store.publication.status.schema.rejection?.layer == .host)
            #expect(await rejection { () async throws(ConfigError) in try await store.unset(JSONPath([])) } == nil)
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
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("invalid content is rejected also while a rollback holds the layer")
    func violationBehindHold() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let old = store.revision
            _ = try await store.replaceFiles(.host, with: ["limit": 11])
            _ = try await store.rollBack(toRevision: old, hold: .untilReleased, by: nil)
            let error = await rejection { () async throws(ConfigError) in
                try await store.replaceFiles(.host, with: ["limit": 1000])
            }
            #expect(error?.code == .schemaViolation)
            _ = try await store.release(by: nil)
            #expect(store.value == ["limit": 11])
        }
    }

    @Test("refused files leave the layer as it was, also if an override hides what is invalid in them")
    func rejectedFiles() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let error = await rejection { () async throws(ConfigError) in
                try await store.replaceFiles(.host, with: ["limit": 5, "name": 1])
            }
            #expect(error?.code == .schemaViolation)
            #expect(store.value == ["limit": 10])
            let rejection = try #require(store.publication.status.schema.rejection)
            #expect(rejection.layer == .host && rejection.problems.first?.path == JSONPath(["name"]))
            #expect(store.publication.status.freshness == .fresh)
            #expect(await set("name", "a", in: store) == nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 10, "name": "a"])
            #expect(store.publication.status.schema.rejection?.layer == .host)
        }
    }

    @Test("valid files replace rejected ones, which are then never applied")
    func replacedRejection() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try? await store.replaceFiles(.host, with: ["limit": 1000])
            _ = try await store.replaceFiles(.host, with: ["limit": 50])
            #expect(store.publication.status.schema.rejection == nil)
            #expect(await set("name", "a", in: store) == nil)
            #expect(store.value == ["limit": 50, "name": "a"])
        }
    }

    @Test("a rejected document of the source makes the refresh fail, and its version is reported")
    func rejectedDocument() async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, source) async throws in
            let outcome = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["limit": 0], version: "7", etag: "x")
            let error = await #expect(throws: ConfigError.self) { try await outcome.value }
            #expect(error?.code == .schemaViolation)
            let rejection = try #require(store.publication.status.schema.rejection)
            #expect(rejection.layer == .remote && rejection.version == "7")
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

    @Test("a new schema is applied to rejected content again")
    func newSchemaAcceptsRejected() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try? await store.replaceFiles(.host, with: ["limit": 1000])
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"maximum": 5000}}}"#))
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 1000])
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("after the first publication, files that are valid only together with rejected ones are rejected, too")
    func validTogether() async throws {
        var fixture = Self.fixture(host: [:])
        fixture.schema = #"{"dependentRequired": {"a": ["b"], "b": ["a"]}}"#
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try? await store.replaceFiles(.defaults, with: ["a": 1])
            #expect(store.publication.status.schema.rejection?.layer == .defaults)
            _ = try? await store.replaceFiles(.host, with: ["b": 2])
            #expect(store.value == .emptyObject)
            #expect(store.publication.status.schema.rejection?.layer == .host)
            #expect(await set("b", 3, in: store)?.code == .schemaViolation)
            await store.use(nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["a": 1, "b": 2])
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("a rejected document is forgotten when the source confirms the current one")
    func confirmation() async throws {
        let fixture = Self.fixture(hasRemote: true)
        try await fixture.withFlow { (store, refresher, source) async throws in
            let rejected = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["limit": 0], version: "7", etag: "x")
            _ = try? await rejected.value
            #expect(store.publication.status.schema.rejection?.version == "7")
            let confirmed = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answerNotModified()
            _ = try await confirmed.value
            #expect(store.publication.status.schema.rejection == nil)
        }
    }
}
