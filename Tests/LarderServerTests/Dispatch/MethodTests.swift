import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import LarderServer

@Suite("Execution of methods")
struct MethodTests {
    /// The names of the methods that were called.
    private final class Calls: Sendable {
        private let calls = Mutex<[String]>([])
        var names: [String] { calls.withLock { $0 } }
        func add(_ name: String) { calls.withLock { $0.append(name) } }
    }

    /// The agent's methods, and some that only record their calls.
    private func methods(_ calls: Calls) -> MethodRegistry {
        var methods = MethodRegistry.agent
        func add(_ name: String, _ lifetime: PendingRequests.Lifetime = .connection, needsReply: Bool = false) {
            let handler = MethodRegistry.Handler(lifetime: lifetime, needsReply: needsReply) {
                dispatcher, request, slot, _ in
                calls.add(name)
                dispatcher.connection.output.reply(id: request.id, AgentPing.Result(), in: slot)
            }
            methods.add(name, handler)
        }
        add("plain")
        add("committed", .committed)
        add("needsReply", needsReply: true)
        let refused = MethodRegistry.Handler(lifetime: .connection, needsReply: false) {
            (dispatcher, request, slot, _) throws(WireError) in
            var reply = TaskReply(size: .small) { () async throws(WireError) in AgentPing.Result() }
            reply.onRefusal = { calls.add("refused") }
            try dispatcher.connection.requests.start(
                reply, id: request.id, request.params, Admission(method: "task", requirement: .nothing), .connection,
                in: slot)
        }
        methods.add("task", refused)
        return methods
    }

    @Test("a client monitors the agent as long as it calls nothing but agent.ping and agent.metrics")
    func monitoring() async throws {
        try await ConnectionFixture.with { client, _ in
            #expect(try await client.isMonitoring == false)
            try await client.send(#"{"id":1,"method":"agent.ping"}"# + "\n")
            #expect(try await client.isMonitoring)
            try await client.send(#"{"id":2,"method":"agent.metrics"}"# + "\n")
            #expect(try await client.isMonitoring)
            // The two lines after the first are the same, so that the reply to the last comes from a cache.
            for id in 3...5 { try await client.send(#"{"id":\#(id),"method":"config.get"}"# + "\n") }
            #expect(try await client.isMonitoring == false)
            try await client.send(#"{"id":6,"method":"agent.ping"}"# + "\n")
            #expect(try await client.isMonitoring == false)
        }
        try await ConnectionFixture.with { client, _ in
            try await client.send(#"[{"id":1,"method":"agent.ping"},{"id":2,"method":"config.get"}]"# + "\n")
            #expect(try await client.isMonitoring == false)
        }
    }

    @Test("a notification that calls a method that needs a reply is not executed, and has no reply in a batch")
    func notification() async throws {
        let calls = Calls()
        let replies = try await ConnectionFixture.exchange(
            """
            {"method":"needsReply"}
            {"method":"plain"}
            [{"method":"needsReply"},{"id":1,"method":"needsReply"}]

            """, with: methods(calls))
        #expect(calls.names == ["plain", "needsReply"])
        #expect(try replies.map { try JSONValue(parsing: $0)[0]?["id"]?.int } == [1])
    }

    @Test("after a client disconnects, only the committed requests in the rest of its batch are executed")
    func closed() async throws {
        let calls = Calls()
        var limits = ConnectionLimits()
        limits.requestsInFlightPerConnection = 1
        try await ConnectionFixture.with(methods(calls), limits: limits) { client, _ in
            let wait = #"{"id":1,"method":"config.wait","params":{"path":"x","exists":true}}"#
            try await client.send(
                "[\(wait),{\"method\":\"plain\"},{\"method\":\"committed\"},{\"method\":\"plain\"}]\n")
            #expect(calls.names.isEmpty)
            try await client.end()
        }
        #expect(calls.names == ["committed"])
    }

    @Test("if a limit prevents a request from starting a task, the refusal handler of its reply is called")
    func refused() async throws {
        let calls = Calls()
        var limits = ConnectionLimits()
        limits.requestsInFlightPerUser = 1
        try await ConnectionFixture.with(
            methods(calls), limits: limits, peer: .stranger, access: Self.readers
        ) { client, _ in
            let wait = #"{"id":1,"method":"config.wait","params":{"path":"x","exists":true}}"#
            try await client.send("\(wait)\n{\"id\":2,\"method\":\"task\"}\n")
            let replies = try await client.output().map { try JSONValue(parsing: $0) }
            #expect(replies.map { $0["error"]?["data"]?["name"]?.string } == ["limitExceeded"])
        }
        #expect(calls.names == ["refused"])
    }

    @Test("when the deadline of a request passes, the expiry handler of its reply is called before the reply")
    func expired() async throws {
        let calls = Calls()
        var methods = MethodRegistry.agent
        let handler = MethodRegistry.Handler(lifetime: .connection, needsReply: false) {
            (dispatcher, request, slot, _) throws(WireError) in
            let end = AsyncStream<Never> { _ in }
            var reply = TaskReply(size: .small) { () async throws(WireError) in
                for await _ in end {}
                return AgentPing.Result()
            }
            reply.deadline = ReplyDeadline(
                time: .seconds(1), error: WireError(.timeout, "late"),
                onExpiry: {
                    calls.add(dispatcher.connection.requests.count == 0 ? "after the reply" : "before the reply")
                })
            try dispatcher.connection.requests.start(
                reply, id: request.id, request.params, Admission(method: "wait", requirement: .nothing), .connection,
                in: slot)
        }
        methods.add("wait", handler)
        try await ConnectionFixture.with(methods) { client, _ in
            try await client.send(#"{"id":1,"method":"wait"}"# + "\n")
            #expect(calls.names.isEmpty)
            await client.eventLoop.advanceTime(by: .seconds(1))
            let replies = try await client.output().map { try JSONValue(parsing: $0) }
            #expect(replies.map { $0["error"]?["data"]?["name"]?.string } == ["timeout"])
        }
        #expect(calls.names == ["before the reply"])
    }

    private static var readers: AccessRules {
        var rules = AccessRules()
        rules.general.others = Rights([.read])
        return rules
    }
}
