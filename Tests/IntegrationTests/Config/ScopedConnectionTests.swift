import LarderClient
import Testing

extension Integration {
    /// The other examples of `LarderClient` run in `LarderClientTests`, without a process.
    @Suite("Scoped connections", .timeLimit(.minutes(30)))
    struct ScopedConnectionTests {
        @Test("the example of `withConnection` reads a value through the socket of an agent")
        func example() async throws {
            try await AgentHome.with(starting: true) { home in
                try home.larder("set", "search.limit", "25")
                try await LarderClient.withConnection(socket: home.socket) { (client) async throws in
                    let limit = try await client.config.value(at: "search.limit", as: Int.self)
                    #expect(limit == 25)
                }
            }
        }
    }
}
