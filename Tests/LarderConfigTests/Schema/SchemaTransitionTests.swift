import ConfigTestSupport
import Glibc
import LarderJSON
import LarderPlatform
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Schemas at a start, at the expiry of overrides and at new locks", .timeLimit(.minutes(15)))
struct SchemaTransitionTests: SchemaEnforcementSuite {
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
            let error = await rejection { () async throws(ConfigError) in
                try await store.commit(
                    .expireOverrides([ExpiringOverride(path: ["limit"], expiresAt: end.expiresAt ?? 0)]))
            }
            #expect(error?.code == .schemaViolation)
            #expect(store.value == ["limit": 20])
            #expect(store.publication.status.schema.rejection?.layer == .override)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
            #expect(store.publication.status.schema.rejection == nil)
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
            while store.publication.status.schema.rejection == nil || store.value["other"] != nil { await Task.yield() }
            #expect(store.value == ["limit": 20])
            #expect(store.publication.status.schema.rejection?.layer == .override)
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
            #expect(store.publication.status.schema.rejection?.layer == .override)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
        }
    }

    @Test("at a start, new locks that would make the configuration invalid are rejected")
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
            let rejection = try #require(store.publication.status.schema.rejection)
            #expect(rejection.layer == nil)
            _ = try await store.replaceFiles(.host, with: ["limit": 30])
            await store.changes.waitUntilIdle()
            #expect(store.value == ["limit": 30])
            #expect(store.publication.status.schema.rejection == nil)
        }
    }

    @Test("new locks that would make the configuration invalid are rejected, and applied once it is valid with them")
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

    @Test(
        "before the first publication, a change without an effect is not rejected, and the rejection of the files stays"
    )
    func noChangeBeforeFirstPublication() async throws {
        let fixture = Self.fixture(host: ["limit": 1000])
        defer { fixture.remove() }
        try await fixture.withStore { store in
            _ = try await store.replaceFiles(.defaults, with: .empty)
            #expect(store.revision == 0)
            let rejection = try #require(store.publication.status.schema.rejection)
            #expect(rejection.layer == .host && rejection.problems.first?.keyword == "maximum")
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

    @Test("at a start, changed files that violate the schema are rejected, and the last content is served")
    func startWithRejectedFiles() async throws {
        var fixture = Self.fixture()
        defer { fixture.remove() }
        try await fixture.withStore { _ in }
        fixture.host = ["limit": 1000]
        try await fixture.withStore { store in
            #expect(store.value == ["limit": 10])
            #expect(store.publication.status.schema.rejection?.layer == .host)
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
            // The files stay rejected, because the override would only hide the violation.
            #expect(store.publication.status.schema.rejection?.layer == .host)
        }
    }
}
