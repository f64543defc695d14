import Glibc
import LarderClient
import LarderTesting
import Synchronization
import Testing

@Suite("Test agents: faults", .timeLimit(.minutes(15)))
struct FaultTests {
    @Test("after a disconnect, the next call connects, and a stream resumes without a snapshot that it has delivered")
    func disconnect() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        var snapshots = following(client.config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        await agent.disconnect()
        try await client.agent.ping()
        await agent.clock.waitForSleepers()
        agent.clock.advance(by: .seconds(1))
        try await agent.publish(["limit": 20])
        #expect(try await snapshots.next()?.value == 20)
    }

    @Test("while the agent is unreachable, new connections are refused and existing ones work")
    func unreachable() async throws {
        let agent = try await TestAgent(["limit": 10])
        let (connected, other) = (agent.client(), agent.client())
        try await connected.agent.ping()
        agent.faults.isUnreachable = true
        try await connected.agent.ping()
        let error = await failure { () async throws(LarderClientError) in try await other.agent.ping() }
        #expect(error?.code == .unreachable)
        #expect(error?.systemError == ECONNREFUSED)
        agent.faults.isUnreachable = false
        try await other.agent.ping()
    }

    @Test("a stream delivers newer snapshots once an unreachable agent is reachable again")
    func outage() async throws {
        let agent = try await TestAgent(["limit": 10])
        var snapshots = following(agent.client().config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        agent.faults.isUnreachable = true
        await agent.disconnect()
        await agent.clock.waitForSleepers()
        try await agent.publish(["limit": 20])
        agent.faults.isUnreachable = false
        agent.clock.advance(by: .seconds(1))
        #expect(try await snapshots.next()?.value == 20)
    }

    @Test("a call without a right is denied until the right is restored")
    func deniedCall() async throws {
        let agent = try await TestAgent(["limit": 10])
        let config = agent.client().config
        agent.faults.deniedRights = [.write]
        let error = await failure { () async throws(LarderClientError) in try await config.set(25, at: "limit") }
        #expect(error?.remoteError?.code == .denied)
        #expect(try await config.value(at: "limit", as: Int.self) == 10)
        agent.faults.deniedRights = []
        try await config.set(25, at: "limit")
    }

    @Test("a stream whose client loses the right to read ends with the error `denied`")
    func deniedStream() async throws {
        let agent = try await TestAgent(["limit": 10])
        var snapshots = following(agent.client().config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        agent.faults.deniedRights = [.read]
        await agent.clock.waitForSleepers()
        agent.clock.advance(by: .seconds(1))
        let error = await #expect(throws: LarderClientError.self) { try await snapshots.next() }
        #expect(error?.remoteError?.code == .denied)
    }

    @Test("a delayed reply arrives when the clock has reached the delay")
    func delay() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.delay = .seconds(5)
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        await agent.waitForDelayedMessages()
        agent.clock.advance(by: .seconds(5))
        #expect(try await value.value == 10)
    }

    @Test("a delay that is switched off lets the messages arrive that were held back")
    func endOfDelay() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.delay = .seconds(5)
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        await agent.waitForDelayedMessages()
        agent.faults.delay = .zero
        #expect(try await value.value == 10)
    }

    @Test("a call whose reply is delayed for longer than its timeout fails with `timeout`")
    func timeout() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.delay = .seconds(60)
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        await agent.waitForDelayedMessages()
        agent.clock.advance(by: .seconds(30))
        let error = await #expect(throws: LarderClientError.self) { try await value.value }
        #expect(error?.code == .timeout)
    }

    @Test("the delay of one agent does not delay the clients of another")
    func delayOfOneAgent() async throws {
        let (slow, other) = (try await TestAgent(["limit": 10]), try await TestAgent(["limit": 20]))
        slow.faults.delay = .seconds(5)
        let client = slow.client()
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        await slow.waitForDelayedMessages()
        #expect(try await other.client().config.value(at: "limit", as: Int.self) == 20)
        slow.clock.advance(by: .seconds(5))
        #expect(try await value.value == 10)
    }

    @Test("garbage fails a call with `protocolViolation`, and the next call uses a new connection")
    func garbage() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.sendsGarbage = true
        let error = await failure { () async throws(LarderClientError) in try await client.agent.ping() }
        #expect(error?.code == .protocolViolation)
        agent.faults.sendsGarbage = false
        try await client.agent.ping()
    }

    @Test("garbage in place of an event interrupts a stream, which then delivers the snapshot of the event")
    func garbageEvent() async throws {
        let agent = try await TestAgent(["limit": 10])
        let interruptions = Interruptions()
        let stream = agent.client().config.snapshots(at: "limit") { interruptions.add($0.error.code) }
        var snapshots = following(stream).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        // The delay lets the test wait until the garbage has reached the client.
        (agent.faults.sendsGarbage, agent.faults.delay) = (true, .seconds(1))
        try await agent.publish(["limit": 20])
        await agent.waitForDelayedMessages()
        agent.faults = TestAgent.Faults()
        await agent.clock.waitForSleepers()
        #expect(interruptions.codes == [.protocolViolation])
        agent.clock.advance(by: .seconds(1))
        #expect(try await snapshots.next()?.value == 20)
    }

    @Test("a stream does not deliver an event with an older revision")
    func oldRevision() async throws {
        let agent = try await TestAgent(["limit": 10])
        var snapshots = following(agent.client().config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        (agent.faults.sendsOldRevisions, agent.faults.delay) = (true, .seconds(1))
        try await agent.publish(["limit": 20])
        await agent.waitForDelayedMessages()
        agent.faults = TestAgent.Faults()
        try await agent.publish(["limit": 30])
        #expect(try await snapshots.next()?.value == 30)
    }

    private final class Interruptions: Sendable {
        private let added = Mutex<[LarderClientError.Code]>([])

        var codes: [LarderClientError.Code] { added.withLock { $0 } }
        func add(_ code: LarderClientError.Code) { added.withLock { $0.append(code) } }
    }
}
