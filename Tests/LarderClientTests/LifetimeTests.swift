import Glibc
import LarderClient
import TestSupport
import Testing

@Suite("Client lifetime", .timeLimit(.minutes(15)))
struct LifetimeTests {
    @Test("withConnection connects before its body and closes after it; the client cannot be used afterwards")
    func scope() async throws {
        try await ScriptedAgent.with { agent in
            async let connection = agent.accept()
            let escaped = try await LarderClient.withConnection(socket: agent.path) { $0 }
            #expect(try await connection.line() == nil)
            #expect(await error { try await escaped.agent.ping() }?.code == .closed)
        }
    }

    @Test("withConnection closes and rethrows the error if its body throws")
    func throwingScope() async throws {
        try await ScriptedAgent.with { agent in
            async let connection = agent.accept()
            await #expect(throws: ScriptError.self) {
                try await LarderClient.withConnection(socket: agent.path) { _ in throw ScriptError("mine") }
            }
            let end = try await connection.line()
            #expect(end == nil)
        }
    }

    @Test("run() keeps the client connected, reconnects, and closes when its task is cancelled")
    func run() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            let run = Task { await client.run() }
            let first = try await agent.accept()
            first.close()
            let second = try await agent.accept()
            run.cancel()
            await run.value
            #expect(try await second.line() == nil)
            #expect(await error { try await client.agent.ping() }?.code == .closed)
        }
    }

    @Test("run() without an agent retries, with delays that grow to the cap")
    func runWithoutAgent() async throws {
        try await withTemporaryDirectory { directory in
            let clock = ImmediateClock()
            var configuration = LarderClient.Configuration()
            configuration.clock = clock
            configuration.backoff = Backoff(base: .seconds(1), cap: .seconds(5), fraction: { 1 })
            let client = LarderClient(socket: "\(directory)/none.sock", configuration: configuration)
            let run = Task { await client.run() }
            while clock.sleeps.count < 5 { await Task.yield() }
            run.cancel()
            await run.value
            #expect(clock.sleeps.prefix(5) == [.seconds(1), .seconds(2), .seconds(4), .seconds(5), .seconds(5)])
        }
    }

    @Test("a released client closes its connection")
    func release() async throws {
        try await ScriptedAgent.with { agent in
            let connection = try await pingOnce(agent)
            let end = try await connection.line()
            #expect(end == nil)
        }
    }

    private func pingOnce(_ agent: ScriptedAgent) async throws -> ScriptedConnection {
        let client = agent.client()
        async let ping: Void = client.agent.ping()
        let connection = try await agent.accept()
        try await connection.reply(connection.request("agent.ping"), ["pong": true])
        try await ping
        return connection
    }
}
