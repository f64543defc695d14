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
        try await agent.clock.waitForSleepers()
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
        try await agent.clock.waitForSleepers()
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

    @Test("with failOnRefusal(), a stream whose client loses the right to read ends with the error `denied`")
    func deniedStream() async throws {
        let agent = try await TestAgent(["limit": 10])
        var snapshots = following(agent.client().config.snapshots(at: "limit").failOnRefusal()).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        // The clock stands still: the stream ends without a delay.
        agent.faults.deniedRights = [.read]
        let error = await #expect(throws: LarderClientError.self) { try await snapshots.next() }
        #expect(error?.remoteError?.code == .denied)
    }

    @Test("a stream whose client loses the right to read reports that once, and resumes when the right is restored")
    func deniedForAWhile() async throws {
        let agent = try await TestAgent(["limit": 10])
        let (reports, continuation) = AsyncStream.makeStream(of: LarderClientError?.self)
        let stream = agent.client().config.snapshots(at: "limit")
            .onInterruption { continuation.yield($0.error) }
            .onResumption { continuation.yield(nil) }
        var snapshots = following(stream).makeAsyncIterator()
        var reported = reports.makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        agent.faults.deniedRights = [.read]
        // The clock stands still: the stream reports the refusal without a delay.
        #expect(await reported.next()??.remoteError?.code == .denied)
        for _ in 0..<3 {
            try await agent.clock.waitForSleepers()
            agent.clock.advance(by: .seconds(1))
        }
        try await agent.publish(["limit": 20])
        agent.faults.deniedRights = []
        try await agent.clock.waitForSleepers()
        agent.clock.advance(by: .seconds(10))
        #expect(try await snapshots.next()?.value == 20)
        #expect(await reported.next() == .some(nil))
    }

    @Test("a delayed reply arrives when the clock has reached the delay")
    func delay() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.delay = .seconds(5)
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        try await agent.waitForDelayedMessages()
        agent.clock.advance(by: .seconds(5))
        #expect(try await value.value == 10)
    }

    @Test("a delay that is switched off lets the messages arrive that were held back")
    func endOfDelay() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.delay = .seconds(5)
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        try await agent.waitForDelayedMessages()
        agent.faults.delay = .zero
        #expect(try await value.value == 10)
    }

    @Test("a call whose reply is delayed for longer than its timeout fails with `timeout`")
    func timeout() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        agent.faults.delay = .seconds(60)
        let value = Task { try await client.config.value(at: "limit", as: Int.self) }
        try await agent.waitForDelayedMessages()
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
        try await slow.waitForDelayedMessages()
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
        let stream = agent.client().config.snapshots(at: "limit").onInterruption {
            interruptions.add($0.error.code)
        }
        var snapshots = following(stream).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        // The delay lets the test wait until the garbage has reached the client.
        agent.updateFaults { ($0.sendsGarbage, $0.delay) = (true, .seconds(1)) }
        try await agent.publish(["limit": 20])
        try await agent.waitForDelayedMessages()
        agent.faults = TestAgent.Faults()
        try await agent.clock.waitForSleepers()
        #expect(interruptions.codes == [.protocolViolation])
        agent.clock.advance(by: .seconds(1))
        #expect(try await snapshots.next()?.value == 20)
    }

    @Test("a stream does not deliver an event with an older revision")
    func oldRevision() async throws {
        let agent = try await TestAgent(["limit": 10])
        var snapshots = following(agent.client().config.snapshots(at: "limit")).makeAsyncIterator()
        #expect(try await snapshots.next()?.value == 10)
        agent.updateFaults { ($0.sendsOldRevisions, $0.delay) = (true, .seconds(1)) }
        try await agent.publish(["limit": 20])
        try await agent.waitForDelayedMessages()
        agent.faults = TestAgent.Faults()
        try await agent.publish(["limit": 30])
        #expect(try await snapshots.next()?.value == 30)
    }

    @Test("tasks that change different faults at the same time do not undo each other's changes")
    func concurrentChanges() async throws {
        let agent = try await TestAgent()
        await withTaskGroup { group in
            group.addTask {
                for number in 1...1000 {
                    agent.faults.delay = .nanoseconds(number)
                    #expect(agent.faults.delay == .nanoseconds(number))
                }
            }
            for right in [LarderRight.push, .administer] {
                group.addTask {
                    for _ in 1...1000 {
                        agent.faults.deniedRights.insert(right)
                        #expect(agent.faults.deniedRights.contains(right))
                        agent.faults.deniedRights.remove(right)
                        #expect(!agent.faults.deniedRights.contains(right))
                    }
                }
            }
            group.addTask {
                for _ in 1...1000 {
                    agent.updateFaults { faults in
                        faults.isUnreachable.toggle()
                        faults.sendsOldRevisions.toggle()
                    }
                    let faults = agent.faults
                    #expect(faults.isUnreachable == faults.sendsOldRevisions)
                }
            }
        }
        agent.faults = TestAgent.Faults()
        #expect(agent.faults == TestAgent.Faults())
    }

    @Test("a wait for a message that is not delayed fails after its limit")
    func noDelayedMessage() async throws {
        let agent = try await TestAgent()
        let error = await failure { () async throws(LarderClientError) in
            try await agent.waitForDelayedMessages(within: .milliseconds(1))
        }
        #expect(error?.code == .timeout && error?.reason.contains("is 0, not 1") == true)
    }

    @Test("a wait for a condition ends when the condition holds")
    func condition() async throws {
        let agent = try await TestAgent(["limit": 10])
        let client = agent.client()
        let change = Task { try await client.config.set(25, at: "limit") }
        try await agent.waitUntil { try await client.config.value(at: "limit", as: Int.self) == 25 }
        _ = try await change.value
    }

    @Test("a wait for a condition that never holds fails after its limit, with advice about the clock and the faults")
    func neverTrue() async throws {
        let agent = try await TestAgent(["limit": 10])
        func error() async throws -> LarderClientError? {
            await #expect(throws: LarderClientError.self) {
                try await agent.waitUntil(within: .milliseconds(1)) { false }
            }
        }
        var failure = try await error()
        #expect(failure?.code == .timeout && failure?.reason.contains("LarderTestingTests/FaultTests.swift:") == true)
        #expect(failure?.advice?.contains("agent.client()") == true)
        agent.faults.isUnreachable = true
        failure = try await error()
        #expect(failure?.advice?.contains("end the faults") == true)
        let sleep = Task { try await agent.clock.sleep(for: .seconds(5)) }
        try await agent.clock.waitForSleepers()
        failure = try await error()
        #expect(failure?.advice?.contains("the first one until 5.0 seconds: call agent.clock.advance(by:)") == true)
        sleep.cancel()
    }

    private final class Interruptions: Sendable {
        private let added = Mutex<[LarderClientError.Code]>([])

        var codes: [LarderClientError.Code] { added.withLock { $0 } }
        func add(_ code: LarderClientError.Code) { added.withLock { $0.append(code) } }
    }
}
