import LarderJSON
import LarderClient
import LarderProtocol
import LarderTesting
import Synchronization
import Testing

@Suite("Cancelled calls and timeouts", .timeLimit(.minutes(15)))
struct CallTimeoutTests {
    @Test("a cancelled call ends at once, sends request.cancel, and its late reply is ignored")
    func cancellation() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let call = Task { await error { try await client.config.refresh() } }
            let connection = try await agent.accept()
            let request = try await connection.request("config.refresh")
            call.cancel()
            #expect(await call.value?.code == .cancelled)
            let cancel = try await connection.request("request.cancel")
            #expect(cancel.id == nil)
            #expect(cancel.params?["id"] == request.id)
            try await connection.fail(request, .cancelled, "cancelled")

            async let ping: Void = client.agent.ping()
            try await connection.reply(connection.request("agent.ping"), ["pong": true])
            try await ping
        }
    }

    @Test("a cancelled change may have been executed, and a cancelled read may not, as their errors explain")
    func cancelledChange() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let change = Task { await error { try await client.config.set(1, at: "a") } }
            let connection = try await agent.accept()
            _ = try await connection.request("config.set")
            change.cancel()
            let changed = await change.value
            #expect(changed?.code == .cancelled && changed?.mayHaveBeenExecuted == true)
            #expect(
                changed?.description == "the task was cancelled; config.set may have been executed: check its effect "
                    + "before you repeat it")
            _ = try await connection.request("request.cancel")

            let read = Task { await error { try await client.config.snapshot() } }
            _ = try await connection.request("config.get")
            read.cancel()
            let failure = await read.value
            #expect(failure?.code == .cancelled && failure?.mayHaveBeenExecuted == false)
            #expect(failure?.advice == nil)
        }
    }

    @Test("a call in a task that is already cancelled sends nothing")
    func cancelledBefore() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let call = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await error { try await client.config.refresh() }
            }
            let failure = await call.value
            #expect(failure?.code == .cancelled && failure?.mayHaveBeenExecuted == false)
        }
    }

    @Test("a call that times out fails, and the client cancels its request at the agent")
    func timeout() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        async let failure = error { try await client.call("config.wait", params: ["path": "a", "exists": true]) }
        try await waitForRequestsInFlight(1, at: agent)
        agent.clock.advance(by: .seconds(30))
        #expect(await failure?.code == .timeout)
        try await waitForRequestsInFlight(0, at: agent)
    }

    @Test("the timeout of a call does not start before its request is sent")
    func timeoutOfWaitingCall() async throws {
        let agent = try await TestAgent()
        var configuration = agent.clientConfiguration
        configuration.maximumRequestsInFlight = 1
        let client = agent.client(configuration: configuration)
        async let wait = client.call("config.wait", params: ["path": "a", "exists": true], timeout: .seconds(60))
        try await waitForRequestsInFlight(1, at: agent)
        let ping = Task.immediate { try await client.agent.ping() }
        // This cancelled call is queued after the ping, so the ping is queued as well when it ends.
        let last = Task.immediate { await error { try await client.call("last") } }
        last.cancel()
        _ = await last.value
        agent.clock.advance(by: .seconds(31))
        try await agent.publish(["a": 1])
        try await ping.value
        #expect(try await wait["value"] == 1)
    }

    @Test("if the agent does not respond, calls that wait in the client time out as well")
    func timeoutOfHungAgent() async throws {
        let agent = try await TestAgent()
        var configuration = agent.clientConfiguration
        configuration.maximumRequestsInFlight = 1
        let client = agent.client(configuration: configuration)
        agent.faults.delay = .seconds(1000)
        let sent = Task { await error { try await client.agent.ping() } }
        try await agent.waitForDelayedMessages()
        let before = Task.immediate { await error { try await client.agent.ping() } }
        agent.clock.advance(by: .seconds(30))
        #expect(await sent.value?.reason == "the agent did not reply to agent.ping within 30 s")
        let after = Task.immediate { await error { try await client.call("later", timeout: .seconds(5)) } }
        // This cancelled call is queued last, so the calls above are queued as well when it ends.
        let last = Task.immediate { await error { try await client.call("last") } }
        last.cancel()
        _ = await last.value
        agent.clock.advance(by: .seconds(30))
        for call in [before, after] {
            let failure = await call.value
            #expect(failure?.code == .timeout)
            #expect(failure?.reason.contains("was not sent") == true)
        }
    }

    @Test("calls that wait in the client have no timeout any more once the agent responds again")
    func timeoutOfResponsiveAgent() async throws {
        let agent = try await TestAgent()
        var configuration = agent.clientConfiguration
        configuration.maximumRequestsInFlight = 2
        let client = agent.client(configuration: configuration)
        let wait = { @Sendable (timeout: Duration) async throws in
            _ = try await client.call("config.wait", params: ["path": "a", "exists": true], timeout: timeout)
        }
        let short = Task.immediate { await error { try await wait(.seconds(5)) } }
        let long = Task.immediate { try await wait(.seconds(600)) }
        try await waitForRequestsInFlight(2, at: agent)
        let ping = Task.immediate { try await client.agent.ping() }
        let next = Task.immediate { try await wait(.seconds(600)) }
        let last = Task.immediate { try await wait(.seconds(30)) }
        agent.clock.advance(by: .seconds(5))
        #expect(await short.value?.code == .timeout)
        // The ping is sent when the agent has confirmed that it has cancelled `short`.
        try await ping.value
        agent.clock.advance(by: .seconds(31))
        try await agent.publish(["a": 1])
        for call in [long, next, last] { try await call.value }
    }
}
