import LarderClient
import LarderTesting
import Testing

@Suite("Test agents: configuration", .timeLimit(.minutes(15)))
struct ConfigurationTests {
    @Test("a subscriber gets the first document, then each published one")
    func publishing() async throws {
        let agent = try await TestAgent(["search": ["limit": 10]])
        var snapshots = following(agent.client().config.snapshots(at: "search.limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        let revision = try await agent.publish(["search": ["limit": 20]])
        let snapshot = try await snapshots.next()
        #expect(snapshot?.value == 20)
        #expect(snapshot?.revision == revision)
    }

    @Test("a document that is not an object is rejected, and the last one stays")
    func rejection() async throws {
        let agent = try await TestAgent(["limit": 10])
        let error = await failure { () async throws(LarderClientError) in try await agent.publish([1, 2]) }
        #expect(error?.remoteError?.code == .rejected)
        #expect(try await agent.client().config.value(at: "limit", as: Int.self) == 10)
    }

    @Test("namespaces have their own documents, and only the declared ones exist")
    func namespaces() async throws {
        let agent = try await TestAgent(namespaces: ["default": ["limit": 10], "ui": ["theme": "dark"]])
        let config = agent.client().config
        #expect(try await config["ui"].value(at: "theme", as: String.self) == "dark")
        #expect(try await config.value(at: "limit", as: Int.self) == 10)
        let unknown = await failure { () async throws(LarderClientError) in
            try await config["other"].snapshot()
        }
        #expect(unknown?.remoteError?.code == .unknownNamespace)
        let unpublished = await failure { () async throws(LarderClientError) in
            try await agent.publish([:], namespace: "other")
        }
        #expect(unpublished?.code == .invalidArgument)
        let invalid = await failure { () async throws(LarderClientError) in
            try await TestAgent(namespaces: ["No Name": [:]])
        }
        #expect(invalid?.code == .invalidArgument)
    }

    @Test("updates that compete end although the clock stands still")
    func competingUpdates() async throws {
        let agent = try await TestAgent(["count": 0])
        let config = agent.client().config
        try await withThrowingTaskGroup { group in
            // An attempt fails only if another update has succeeded, so that seven attempts fail at most.
            for _ in 0..<8 { group.addTask { _ = try await config.update(at: "count", as: Int.self) { $0 += 1 } } }
            try await group.waitForAll()
        }
        #expect(try await config.value(at: "count", as: Int.self) == 8)
    }

    @Test("overrides are set and removed, and a change whose condition does not hold fails with a conflict")
    func overrides() async throws {
        let agent = try await TestAgent(["search": ["limit": 10]])
        let config = agent.client().config
        try await config.set(25, at: "search.limit")
        #expect(try await config.value(at: "search.limit", as: Int.self) == 25)
        let conflict = await failure { () async throws(LarderClientError) in
            try await config.apply { $0.set(30, at: "search.limit", ifValue: .equals(24)) }
        }
        #expect(conflict?.remoteError?.code == .conflict)
        try await config.apply { $0.set(30, at: "search.limit", ifValue: .equals(25)) }
        #expect(try await config.value(at: "search.limit", as: Int.self) == 30)
        try await config.unset(at: "search.limit")
        #expect(try await config.value(at: "search.limit", as: Int.self) == 10)
    }

    @Test("an override expires when the clock reaches its lifetime, not before")
    func expiry() async throws {
        let agent = try await TestAgent(["limit": 10])
        let config = agent.client().config
        try await config.set(25, at: "limit", ttl: .seconds(60))
        var snapshots = following(config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 25)
        agent.clock.advance(by: .seconds(59))
        #expect(try await config.value(at: "limit", as: Int.self) == 25)
        agent.clock.advance(by: .seconds(1))
        #expect(try await snapshots.next()?.value == 10)
    }

    @Test("a mapped snapshot has the values of the document, and a newer one follows a publication")
    func mapped() async throws {
        let agent = try await TestAgent(["search": ["limit": 10]])
        let client = agent.client()
        let snapshot = try await client.config.mappedSnapshot()
        #expect(try snapshot.int(at: "search.limit") == 10)
        #expect(snapshot.isCurrent)
        var snapshots = following(client.config.mappedSnapshots()).makeAsyncIterator()
        #expect(try await snapshots.next()?.revision == snapshot.revision)
        try await agent.publish(["search": ["limit": 20]])
        #expect(try await snapshots.next()?.int(at: "search.limit") == 20)
        #expect(try snapshot.int(at: "search.limit") == 10)
    }

    @Test("after a restart the agent has what it acknowledged, and a stream delivers nothing twice")
    func restart() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        try await client.config.set(25, at: "limit")
        let before = try await client.config.snapshot(at: "limit")
        var snapshots = following(client.config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 25)
        try await agent.restart()
        let after = try await client.config.snapshot(at: "limit")
        #expect(after.value == 25)
        #expect((after.revision, after.epoch) == (before.revision, before.epoch))
        try await agent.clock.waitForSleepers()
        agent.clock.advance(by: .seconds(1))
        try await client.config.set(26, at: "limit")
        #expect(try await snapshots.next()?.value == 26)
    }

    @Test("a stopped agent refuses connections, publications and restarts")
    func shutDown() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        try await client.agent.ping()
        await agent.shutDown()
        await agent.shutDown()
        #expect(
            await failure { () async throws(LarderClientError) in try await client.agent.ping() }?.code == .unreachable)
        #expect(await failure { () async throws(LarderClientError) in try await agent.publish([:]) }?.code == .closed)
        #expect(await failure { () async throws(LarderClientError) in try await agent.restart() }?.code == .closed)
    }
}
