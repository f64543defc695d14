import LarderClient
import LarderProtocol
import LarderTesting
import Testing

@Suite("Conditional updates with the client library", .timeLimit(.minutes(15)))
struct ConditionalUpdateTests {
    private struct Search: Codable, Equatable {
        var limit: Int
        var hosts: [String]?
    }

    @Test("`apply` makes all changes of a list in one revision, or none of them if a condition does not hold")
    func apply() async throws {
        let client = try await TestAgent().client()
        try await client.config.set(10, at: "search.limit")
        let first = try await client.config.set(["a"], at: "search.hosts")
        let applied = try await client.config.apply(reason: "new cluster") { change in
            change.set(["b"], at: "search.hosts", ifValue: .equals(["a"]))
            change.unset(at: "search.limit")
            change.require(.absent, at: "search.frozen")
        }
        #expect(applied?.revision == first.revision + 1)
        #expect(try await client.config.snapshot(at: "search").value == ["hosts": ["b"]])
        #expect(try await client.config.history().first?.causes.first?.reason == "new cluster")

        let error = await #expect(throws: LarderClientError.self) {
            try await client.config.apply { change in
                change.set(5, at: "search.limit")
                change.set(["c"], at: "search.hosts", ifValue: .equals(["a"]))
            }
        }
        #expect(error?.remoteError?.code == .conflict)
        #expect(try await client.config.snapshot(at: "search").value == ["hosts": ["b"]])
        #expect(try await client.config.apply { _ in } == nil)
    }

    @Test("`apply` with `dryRun` reports the differences and changes nothing")
    func dryRun() async throws {
        let client = try await TestAgent().client()
        try await client.config.set(10, at: "search.limit")
        let result = try await client.config.apply(dryRun: true) { $0.set(20, at: "search.limit") }
        #expect(result?.differences?.map(\.path.description) == ["search.limit"])
        #expect(try await client.config.value(at: "search.limit", as: Int.self) == 10)
    }

    @Test("`increment` returns the sum, and fails with `conflict` if the sum would be out of bounds")
    func increment() async throws {
        let client = try await TestAgent().client()
        #expect(try await client.config.increment(at: "tickets.left", by: 2).value == 2)
        #expect(try await client.config.increment(at: "tickets.left", by: -2, minimum: 0).value == 0)
        let error = await #expect(throws: LarderClientError.self) {
            try await client.config.increment(at: "tickets.left", by: -1, minimum: 0)
        }
        #expect(error?.remoteError?.code == .conflict)
        #expect(error?.reason.contains("-1, would be less than the minimum, 0") == true)
    }

    @Test("`unset` of a member below an override has no effect; after `update` it has one")
    func unsetBelow() async throws {
        let config = try await TestAgent().client().config
        try await config.set(["limit": 25, "hosts": []], at: "search")
        #expect(try await config.unset(at: "search.limit").hasEffect == false)
        #expect(try await config.value(at: "search.limit", as: Int.self) == 25)
        try await config.update(at: "search", as: Search.self) { $0.limit = 30 }
        #expect(try await config.unset(at: "search.limit").hasEffect)
        #expect(try await config.value(at: "search.limit", as: Int.self) == 25)
    }

    @Test("errors name the remedy: for a missing value, a wait that ends, and a path that is too long")
    func advice() async throws {
        let client = try await TestAgent().client()
        func error(_ body: () async throws -> Void) async -> LarderClientError? {
            await #expect(throws: LarderClientError.self) { try await body() }
        }
        let missing = await error { _ = try await client.config.value(at: "none", as: Int.self) }
        #expect(missing?.remoteError?.code == .notFound && missing?.advice?.contains("default:") == true)
        let waited = await error { try await client.config.wait(for: .exists(true), at: "none", timeout: .zero) }
        #expect(waited?.description.contains("allow a longer timeout") == true)
        let path = String(repeating: "a", count: 2 << 20)
        let long = await error { _ = try await client.config.value(at: path, as: Int.self) }
        #expect(long?.code == .invalidArgument)
        #expect(try await client.config.value(at: "none", default: 1) == 1, "the connection still works")
    }

    @Test("reads and updates take the members that a value lacks from the default, and write only what was changed")
    func defaultsOfMembers() async throws {
        struct Limits: Codable, Equatable {
            var results = 10
            var hosts: [String] = []
        }
        let config = try await TestAgent(["limits": ["results": 25]]).client().config
        #expect(try await config.value(at: "limits", default: Limits()) == Limits(results: 25))
        #expect(try await config.update(at: "limits", default: Limits()) { $0.results = 30 }.hosts == [])
        #expect(try await config.snapshot(at: "limits").value == ["results": 30])
    }

    @Test("a missing value is nil if the type is an `Optional`, and an error if there is neither that nor a default")
    func missingValues() async throws {
        let config = try await TestAgent(["limit": 10]).client().config
        #expect(try await config.value(at: "limit", as: Int?.self) == 10)
        #expect(try await config.value(at: "none", as: Int?.self) == nil)
        #expect(try await config.value(at: "none", as: Int?.self, default: 5) == 5)
        #expect(try await config.value(at: "none", as: Search?.self) == nil)
        let error = await #expect(throws: LarderClientError.self) { try await config.value(at: "none", as: Int.self) }
        #expect(error?.remoteError?.code == .notFound)

        let revision = try await config.snapshot().revision
        #expect(try await config.update(at: "none", as: Int?.self) { _ in } == nil)
        #expect(try await config.snapshot().revision == revision, "nil that stays nil is not written")
        #expect(try await config.update(at: "sold", as: Int?.self) { $0 = ($0 ?? 0) + 1 } == 1)
        #expect(try await config.update(at: "sold", as: Int?.self) { $0 = ($0 ?? 0) + 1 } == 2)
        #expect(try await config.update(at: "sold", as: Int?.self) { $0 = nil } == nil)
        #expect(try await config.value(at: "sold", as: Int?.self) == nil)
    }

    @Test("concurrent `update` calls of several clients for one value all take effect")
    func concurrentUpdates() async throws {
        let agent = try await TestAgent()
        let clients = 4
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<clients {
                group.addTask {
                    let client = agent.client()
                    for _ in 0..<5 {
                        // Each conflict is the success of another update, so that none has more than 15.
                        try await client.config.update(
                            at: "counter", default: Search(limit: 0), reason: "test", attempts: 16
                        ) { $0.limit += 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await agent.client().config.value(at: "counter.limit", as: Int.self) == 20)
    }

    @Test("`update` keeps members that the Swift type does not have, and hides members that the closure removes")
    func otherMembers() async throws {
        let client = try await TestAgent(["search": ["limit": 10, "hosts": ["a"], "other": 1.50]]).client()
        let revision = try await client.config.update(at: "search", as: Search.self) { $0.hosts = nil }
        #expect(revision == Search(limit: 10))
        let snapshot = try await client.config.snapshot(at: "search")
        #expect(snapshot.value == ["limit": 10, "other": 1.50])
        try await client.config.update(at: "search", as: Search.self) { _ in }
        #expect(try await client.config.snapshot().revision == snapshot.revision)
    }

    @Test("`update` has the given number of attempts, and its conflict is retryable", arguments: [1, 3])
    func attempts(maximum: Int) async throws {
        try await ScriptedAgent.with { (scripted) async throws in
            let client = scripted.client()
            async let failure = error {
                try await client.config.update(at: "search", as: Search.self, attempts: maximum) { $0.limit += 1 }
            }
            let connection = try await scripted.accept()
            let conflict = WireError(.conflict, "the value is different")
            for _ in 0..<maximum {
                try await connection.reply(
                    connection.request("config.get"),
                    ["value": ["limit": 1], "revision": 2, "epoch": "e1", "state": "fresh"])
                try await connection.fail(connection.request("config.apply"), conflict)
            }
            #expect(await failure?.remoteError?.code == .conflict)
            #expect(await failure?.isRetryable == true)
            #expect(!LarderClientError(remote: conflict).isRetryable)
        }
    }

    @Test("`update` without a default fails with `notFound` if there is no value")
    func absent() async throws {
        let client = try await TestAgent().client()
        let error = await #expect(throws: LarderClientError.self) {
            try await client.config.update(at: "search", as: Search.self) { $0.limit = 1 }
        }
        #expect(error?.remoteError?.code == .notFound)
    }
}
