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
            let run = Task { try await client.run() }
            let first = try await agent.accept()
            first.close()
            let second = try await agent.accept()
            run.cancel()
            try await run.value
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
            configuration.backoff = LarderBackoff(base: .seconds(1), cap: .seconds(5), fraction: { 1 })
            let client = LarderClient(socket: "\(directory)/none.sock", configuration: configuration)
            let run = Task { try await client.run() }
            while clock.sleeps.count < 5 { await Task.yield() }
            run.cancel()
            try await run.value
            #expect(clock.sleeps.prefix(5) == [.seconds(1), .seconds(2), .seconds(4), .seconds(5), .seconds(5)])
        }
    }

    @Test("a second call of run() throws, also after the first one has returned")
    func secondRun() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            let run = Task { try await client.run() }
            _ = try await agent.accept()
            #expect(await error { try await client.run() }?.code == .alreadyRunning)
            run.cancel()
            try await run.value
            #expect(await error { try await client.run() }?.code == .alreadyRunning)
        }
    }

    @Test("run() of a closed client throws")
    func closedRun() async throws {
        try await ScriptedAgent.with { agent in
            let escaped = try await LarderClient.withConnection(socket: agent.path) { $0 }
            #expect(await error { try await escaped.run() }?.code == .closed)
        }
    }

    @Test("in a cancelled task, nothing runs and no connection is made")
    func cancelledBefore() async throws {
        // Without a listener, each attempt to connect would fail with `unreachable`.
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            let scope = await error {
                try await LarderClient.withConnection(socket: "/nonexistent") { _ in Issue.record("the body runs") }
            }
            let client = LarderClient(socket: "/nonexistent")
            let ping = await error { try await client.agent.ping() }
            let mapped = await error { try await client.config.mappedSnapshot() }
            let stream = await error {
                for try await _ in client.config.snapshots() { Issue.record("there is a snapshot") }
            }
            let run = await error { try await client.run() }
            return (codes: [scope, ping, mapped].map { $0?.code }, silent: [stream, run])
        }
        let (codes, silent) = await task.value
        #expect(codes == [.cancelled, .cancelled, .cancelled])
        #expect(silent == [nil, nil])
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
