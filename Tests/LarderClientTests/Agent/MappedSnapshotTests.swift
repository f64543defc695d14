import LarderClient
import LarderTesting
import Testing

@Suite("Mapped snapshots", .timeLimit(.minutes(15)))
struct MappedSnapshotTests {
    @Test("a mapped snapshot keeps its values after a newer one is published; the next request gets the newer one")
    func lookUp() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        try await client.config.set(["limit": 25, "hosts": ["a", "b"], "on": true, "name": "ä"], at: "search")
        let first = try await client.config.mappedSnapshot()
        #expect(try first.int(at: "search.limit") == 25 && first.bool(at: "search.on") == true)
        #expect(try first.string(at: "search.name") == "ä")
        #expect(try first.value(at: "search.hosts.1")?.string == "b")
        #expect(try first.int(at: "search.nothing") == nil)
        let plain = try await client.config.snapshot()
        #expect(try first.value() == plain.value)
        #expect(first.revision == plain.revision && first.epoch == plain.epoch)
        #expect(first.isCurrent)
        #expect(try await client.config.mappedSnapshot() == first)

        try await client.config.set(50, at: "search.limit")
        while first.isCurrent { await Task.yield() }
        let second = try await client.config.mappedSnapshot()
        #expect(try second.int(at: "search.limit") == 50 && second.revision > first.revision)
        #expect(try first.int(at: "search.limit") == 25)
        #expect(try await agent.client().config.mappedSnapshot().byteCount == second.byteCount)
    }

    @Test("clients that request a large snapshot at the same time all get it")
    func large() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        let members = (0..<20_000).map { ("key\($0)", JSONValue.int($0)) }
        try await client.config.set(.object(members), at: "large")
        let text = String(repeating: "x", count: 200_000)
        try await client.config.set(.string(text), at: "text")
        let snapshots = try await withThrowingTaskGroup(of: MappedSnapshot.self) { group in
            for _ in 0..<8 {
                group.addTask { try await agent.client().config.mappedSnapshot() }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for snapshot in snapshots {
            #expect(try snapshot.int(at: "large.key19999") == 19_999 && snapshot.isString(text, at: "text"))
        }
    }

    @Test("the stream yields the current snapshot, then newer ones, and may skip some of them")
    func stream() async throws {
        let client = try await TestAgent(["n": 0]).client()
        var snapshots = client.config.mappedSnapshots().makeAsyncIterator()
        #expect(try await snapshots.next()?.int(at: "n") == 0)
        for number in 1...20 { try await client.config.set(.int(number), at: "n") }
        var revision = 0
        while let snapshot = try await snapshots.next() {
            #expect(snapshot.revision > revision)
            revision = snapshot.revision
            if try snapshot.int(at: "n") == 20 { break }
        }
        // No snapshot is pending, so the stream next yields the snapshot that is published here.
        try await client.config.set(21, at: "n")
        #expect(try await snapshots.next()?.int(at: "n") == 21)
    }

    @Test("a request for a mapped snapshot throws the error of the agent")
    func refused() async throws {
        let client = try await TestAgent().client()
        let error = await #expect(throws: LarderClientError.self) {
            try await client.config["nowhere"].mappedSnapshot()
        }
        #expect(error?.remoteError?.code == .unknownNamespace)
    }
}
