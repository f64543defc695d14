import LarderClient
import LarderTesting
import Testing

@Suite("Updates of values that are missing", .timeLimit(.minutes(15)))
struct MissingValueUpdateTests {
    private struct Search: Codable, Equatable {
        var limit = 10
        var hosts: [String] = []
        var owner: String?
    }

    private struct Labels: Codable, Equatable {
        var limit = 10
        var names = ["a": "1"]
    }

    private func overrides(_ config: ConfigClient) async throws -> JSONValue? {
        try await config.snapshot().value
    }

    @Test("`update` writes only the members that differ from the default, so that the others follow a later source")
    func update() async throws {
        let agent = try await TestAgent()
        let config = agent.client().config
        let changed = try await config.update(at: "search", default: Search()) { $0.hosts = ["a"] }
        #expect(changed == Search(hosts: ["a"]))
        #expect(try await overrides(config) == ["search": ["hosts": ["a"]]])
        try await agent.publish(["search": ["limit": 50]])
        #expect(try await config.value(at: "search", default: Search()) == Search(limit: 50, hosts: ["a"]))

        try await config.unset(at: "search.hosts")
        #expect(try await overrides(config) == ["search": ["limit": 50]], "each member is an override of its own")
    }

    @Test("`update` writes nothing for an unchanged default, and a scalar as a whole")
    func unchanged() async throws {
        let config = try await TestAgent().client().config
        let revision = try await config.snapshot().revision
        #expect(try await config.update(at: "search", default: Search()) { _ in } == Search())
        #expect(try await config.update(at: "limit", default: 5) { _ in } == 5)
        #expect(try await config.snapshot().revision == revision)
        #expect(try await config.update(at: "limit", default: 5) { $0 += 1 } == 6)
        #expect(try await config.update(at: "other", as: Search?.self) { $0 = Search(limit: 1) }?.limit == 1)
        #expect(try await overrides(config) == ["limit": 6, "other": ["limit": 1, "hosts": []]])
    }

    @Test("`update` writes all entries of a dictionary of which the default has some, and no other member")
    func dictionaries() async throws {
        let config = try await TestAgent(["some": ["limit": 20]]).client().config
        for path in ["none", "some"] {
            let changed = try await config.update(at: path, default: Labels()) { $0.names["b"] = "2" }
            #expect(changed.names == ["a": "1", "b": "2"])
            #expect(try await config.value(at: path, default: Labels()) == changed)
            let emptied = try await config.update(at: path, default: Labels()) { $0.names = [:] }
            #expect(try await config.value(at: path, default: Labels()) == emptied)
        }
        #expect(try await overrides(config) == ["some": ["limit": 20, "names": [:]], "none": ["names": [:]]])
        try await config.update(at: "entries", default: ["a": 1]) { $0["b"] = 2 }
        try await config.update(at: "empty", default: ["a": 1]) { $0 = [:] }
        #expect(try await config.value(at: "entries", default: ["a": 1]) == ["a": 1, "b": 2])
        #expect(try await config.value(at: "empty", default: ["a": 1]) == [:])
    }

    @Test("`update` writes a whole entry if a part of it cannot be decoded")
    func parts() async throws {
        struct Sites: Codable, Equatable { var limit = 1; var byName = ["a": Search()] }
        let config = try await TestAgent().client().config
        let changed = try await config.update(at: "sites", default: Sites()) { $0.byName["a"]?.limit = 2 }
        #expect(try await config.value(at: "sites", default: Sites()) == changed)
    }

    @Test("a view model writes only the members that differ from its default")
    @MainActor
    func viewModel() async throws {
        let agent = try await TestAgent()
        let config = agent.client().config
        let model = ConfigViewModel(config, at: "search", default: Search())
        #expect(await model.set(Search()))
        #expect(try await overrides(config) == [:])
        #expect(await model.set(Search(limit: 25)))
        #expect(await model.update { $0.hosts.append("a") })
        #expect(try await overrides(config) == ["search": ["limit": 25, "hosts": ["a"]]])
        try await config.unset(at: "search.limit")
        try await agent.publish(["search": ["limit": 50]])
        #expect(await model.refresh())
        #expect(model.value == Search(limit: 50, hosts: ["a"]))
    }

    @Test("the error after the last attempt names their number and what to do")
    func lastAttempt() async throws {
        let config = try await TestAgent(["limit": 1]).client().config
        let error = await #expect(throws: LarderClientError.self) {
            try await RacingConfig(config: config).update(at: "limit", as: Int.self, attempts: 2) { $0 += 1 }
        }
        #expect(error?.isRetryable == true && error?.remoteError?.code == .conflict)
        #expect(error?.reason == #"another client changed the value at "limit" during each of the 2 attempts"#)
        #expect(error?.advice?.contains("attempts:") == true && error?.advice?.contains("increment") == true)
    }
}

/// A configuration in which another client always is faster.
private struct RacingConfig: ConfigCalls {
    let config: ConfigClient
    var namespace: String { config.namespace }

    func snapshot(
        at path: String, maximumAge: Duration?, staleIfError: Duration?
    ) async throws(LarderClientError) -> LarderSnapshot {
        try await config.snapshot(at: path, maximumAge: maximumAge, staleIfError: staleIfError)
    }

    func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
        config.snapshots(at: path, mode: mode)
    }

    func apply(
        _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
    ) async throws(LarderClientError) -> ConfigChange? {
        try await config.increment(at: "limit")
        return try await config.apply(list, ifRevision: ifRevision, reason: reason, dryRun: dryRun)
    }

    func set(_ value: JSONValue, at path: String, ttl: Duration?) async throws(LarderClientError) -> ConfigChange {
        try await config.set(value, at: path, ttl: ttl)
    }

    func unset(at path: String) async throws(LarderClientError) -> ConfigChange { try await config.unset(at: path) }

    func unsetAll() async throws(LarderClientError) -> ConfigChange { try await config.unsetAll() }

    func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange {
        try await config.refresh(force: force, timeout: timeout)
    }
}
