import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Enforcement of schemas", .timeLimit(.minutes(15)))
struct SchemaEnforcementTests: SchemaEnforcementSuite {
    @Test("a set that would violate the schema is rejected with path, keyword and layer, and changes nothing")
    func rejectedSet() async throws {
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
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("removing an override is rejected if a lower layer then violates the schema")
    func rejectedUnset() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            #expect(await set("limit", 20, in: store) == nil)
            try await hide(["limit": 1000], in: store, fixture)
            let error = await rejection { () async throws(ConfigError) in try await store.unset(JSONPath(["limit"])) }
            #expect(error?.schemaProblems.first?.layer == .host)
            #expect(store.value == ["limit": 20])
        }
    }

    @Test("of changes that wait together, only those that violate the schema are rejected")
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

    @Test("a rejected rollback leaves the snapshot as it is, and is not tried again")
    func rollback() async throws {
        let fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { store in
            let old = store.revision
            #expect(await set("limit", 20, in: store) == nil)
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"minimum": 15}}}"#))
            let error = await rejection { () async throws(ConfigError) in
                try await store.rollBack(toRevision: old, by: nil)
            }
            #expect(error?.code == .schemaViolation)
            #expect(await set("name", "a", in: store) == nil)
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 20, "name": "a"])
        }
    }

    @Test("a rejected push does not replace the remote document, and is not tried again")
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
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("an invalid change is rejected even if a later change of the same batch would have replaced it")
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
            let files = await rejection { () async throws(ConfigError) in
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
            #expect(status.schema.rejection?.problems.contains { "\($0)".contains("hunter") } == false)

            let push = await #expect(throws: ConfigError.self) {
                try await refresher.applyPushedConfig(SourceDocument(value: ["limit": "hunter3"]), force: false)
            }
            #expect(push?.message.contains("found \"hunter3\"") == true)
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"type": "integer", "maximum": 15}}}"#))
            #expect(await set("limit", 17, in: store)?.message.contains("found 17") == true)
            // The reply to `unset` does not show the value that it exposes.
            #expect(await set("limit", 12, in: store) == nil)
            await store.use(try fixture.compiled(#"{"properties": {"limit": {"type": "integer", "minimum": 11}}}"#))
            let unset = await rejection { () async throws(ConfigError) in try await store.unset(JSONPath(["limit"])) }
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
