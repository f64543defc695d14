import Glibc
import LarderClient
import LarderProtocol
import LarderTesting
import Testing

@Suite("Test agents: isolation and lifetime", .timeLimit(.minutes(15)))
struct IsolationTests {
    @Test("two agents have their own state and clock")
    func independent() async throws {
        let (one, two) = (try await TestAgent(["limit": 10]), try await TestAgent(["limit": 20]))
        try await one.client().config.set(11, at: "limit", ttl: .seconds(60))
        two.clock.advance(by: .seconds(60))
        #expect(try await one.client().config.value(at: "limit", as: Int.self) == 11)
        #expect(try await two.client().config.value(at: "limit", as: Int.self) == 20)
    }

    @Test("a hundred agents work in parallel")
    func many() async throws {
        let values = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<100 {
                group.addTask {
                    let client = try await TestAgent(["number": .int(number)]).client()
                    return try await client.config.value(at: "number", as: Int.self)
                }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(values == Set(0..<100))
    }

    @Test("an agent runs while it has a client, and then its files are removed")
    func release() async throws {
        let directory: String
        do {
            let client = try await TestAgent(["limit": 10]).client()
            var snapshots = following(client.config.snapshots(at: "limit")).makeAsyncIterator()
            #expect(try await snapshots.next()?.value == 10)
            try await client.config.set(11, at: "limit", ttl: .seconds(60))
            #expect(try await client.config.mappedSnapshot().int(at: "limit") == 11)
            directory = try await client.call(AgentInfo.self, NoParameters()).stateDirectory
            #expect(access(directory, F_OK) == 0)
        }
        // The agent stops in the background.
        while access(directory, F_OK) == 0, !Task.isCancelled { await Task.yield() }
        #expect(access(directory, F_OK) != 0)
    }
}
