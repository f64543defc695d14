import LarderClient
import LarderTesting
import Testing

/// Runs the examples in the documentation of `LarderClient`. `ScopedConnectionTests` has the example that needs a
/// socket.
@Suite("Examples in the documentation of LarderClient", .timeLimit(.minutes(15)))
struct DocumentationExamplesTests {
    private struct Search: Codable, Equatable {
        var limit: Int
        var hosts: [String]
    }

    @Test("the examples of LarderClient work: typed values, snapshots and errors")
    func reading() async throws {
        let client = try await TestAgent(["search": ["limit": 25, "hosts": ["a"]]]).client()
        let limit = try await client.config.value(at: "search.limit", as: Int.self)
        #expect(limit == 25)

        let search = try await client.config.value(at: "search", as: Search.self)
        #expect(search == Search(limit: 25, hosts: ["a"]))

        let snapshot = try await client.config.snapshot(at: "search")
        print(snapshot.revision, snapshot.state, snapshot.value?["limit"]?.int ?? 10)
        #expect(try snapshot.decode(Search.self) == search)

        var fallback: Int
        do throws(LarderClientError) {
            fallback = try await client.config.value(at: "search.nope", as: Int.self)
        } catch {
            guard error.remoteError?.code == .notFound else { throw error }
            fallback = 10
        }
        #expect(fallback == 10)
    }

    @Test(
        "the examples of ConfigClient work: set, also with a time to live or an encodable value, unset, push, status")
    func writing() async throws {
        let client = try await TestAgent().client()
        try await client.config.set(25, at: "search.limit")
        try await client.config.set(["a", "b"], at: "search.hosts", ttl: .seconds(600))
        #expect(
            try await client.config.value(at: "search", as: Search.self) == Search(limit: 25, hosts: ["a", "b"]))
        try await client.config.set(encoding: Search(limit: 30, hosts: []), at: "search")
        #expect(try await client.config.value(at: "search.limit", as: Int.self) == 30)
        try await client.config.unset(at: "search")
        try await client.config.push(["search": ["limit": 10]], version: "2026-01-31.1")
        #expect(try await client.config.value(at: "search.limit", as: Int.self) == 10)

        let status = try await client.config.status()
        print(status.state, status.lastError?.message ?? "")
        #expect(status.name == "default" && status.state == .fresh)
        #expect(try await client.agent.namespaces() == [status])
    }

    @Test("the examples of ConfigClient work: explain, history, diff and rollback")
    func revisions() async throws {
        let client = try await TestAgent().client()
        let first = try await client.config.set(10, at: "search.limit")
        try await client.config.set(25, at: "search.limit")

        let explanation = try await client.config.explain(at: "search.limit")
        print(explanation.winner ?? "none", explanation.layers.last?.value ?? .null)
        #expect(explanation.winner == "override" && explanation.layers.last?.value == 25)

        for generation in try await client.config.history(limit: 5) {
            print(generation.revision, generation.publishedAt, generation.causes.map(\.kind))
        }
        #expect(try await client.config.history(limit: 1).first?.causes.first?.kind == "set")

        let differences = try await client.config.diff(from: first.revision)
        for difference in differences {
            print(difference.path, difference.old ?? "none", difference.new ?? "none")
        }
        #expect(differences.count == 1 && differences.first?.path.description == "search.limit")
        #expect(differences.first?.old == 10 && differences.first?.new == 25)

        let change = try await client.config.rollback(to: first.revision)
        if change.hold != nil { print("newer content of the source is held back") }
        #expect(change.hasEffect && change.hold == nil)
        #expect(try await client.config.value(at: "search.limit", as: Int.self) == 10)
        #expect(try await client.config.releaseRollback().hasEffect == false)
    }

    @Test("the examples of ConfigClient work: wait, also for longer than its timeout, and acknowledge")
    func waiting() async throws {
        let agent = try await TestAgent(["search": ["limit": 10]])
        let client = agent.client()
        async let waiting = client.config.wait(for: .equals(true), at: "search.enabled", timeout: .seconds(30))
        try await client.config.set(true, at: "search.enabled")
        let snapshot = try await waiting
        #expect(snapshot.value == true)
        try await client.config.acknowledge(snapshot)
        #expect(
            try await client.config.status().acknowledgements == [snapshot.revision: 1])

        async let never = error {
            try await client.config.wait(for: .exists(false), at: "search", timeout: .seconds(30))
        }
        try await waitForRequestsInFlight(1, at: agent)
        agent.clock.advance(by: .seconds(30))
        #expect(await never?.remoteError?.code == .timeout)
    }

    @Test("the examples of AgentClient and of raw calls work")
    func agentMethods() async throws {
        let client = try await TestAgent().client()
        let info = try await client.agent.info()
        print("\(info.name) \(info.version), \(info.namespaces.count) namespaces")
        try await client.agent.ping()
        #expect(info.rights.contains(.write) && info.namespaces == ["default"] && info.problems.isEmpty)
        #expect(try await client.call("agent.clients")["clients"]?.count == 1)

        let stats = try await client.call("agent.stats")
        #expect((stats["requests"]?["total"]?.int ?? 0) > 0)
    }

    @Test(
        "the example of LarderSnapshots works: a loop over snapshots with a long-running client",
        arguments: [LarderSnapshots.Mode.snapshot, .patch])
    func following(mode: LarderSnapshots.Mode) async throws {
        let client = try await TestAgent().client()
        try await withThrowingTaskGroup { group in
            group.addTask { try await client.run() }
            group.addTask {
                var limits: [Int] = []
                for try await snapshot in client.config.snapshots(at: "search", mode: mode) {
                    guard snapshot.value != nil else { continue }
                    limits.append(try snapshot.decode(Search.self).limit)
                    if limits.count == 1 {
                        try await client.config.set(2, at: "search.limit")
                    } else {
                        break
                    }
                }
                #expect(limits == [1, 2])
            }
            try await client.config.set(encoding: Search(limit: 1, hosts: []), at: "search")
            try await group.next()
            group.cancelAll()
        }
    }

    @Test("ConfigViewModel follows the values of an agent until its task is cancelled")
    @MainActor
    func model() async throws {
        let agent = try await TestAgent(["ui": ["theme": "dark"]])
        let model = ConfigViewModel<JSONValue>(agent.client().config, at: "ui")
        let task = Task { await model.follow() }
        try await agent.waitUntil { model.snapshot != nil }
        #expect(model.value == ["theme": "dark"])
        task.cancel()
        await task.value
    }
}
