import LarderClient
import LarderProtocol
import LarderTesting
import Synchronization
import Testing

@Suite("Events of a client", .timeLimit(.minutes(15)))
struct EventTests {
    /// Collects the events of a client as text.
    private final class Events: Sendable {
        private let texts = Mutex<[String]>([])

        var all: [String] { texts.withLock(\.self) }

        func add(_ event: LarderClientEvent) {
            let text =
                switch event {
                case .connected: "connected"
                case .disconnected(let error): "disconnected \(error.code)"
                case .retry(let method, let error, _): "retry \(method ?? "run") \(error.code)"
                case .closed: "closed"
                case .slowCall(let method, let duration): "slow \(method) \(duration.components.seconds)"
                case .skippedSnapshots(let count, let path, let namespace): "skipped \(count) \(path) \(namespace)"
                case .ignoredEvent(let kind): "ignored \(kind)"
                case .invalidFile(let error): "invalid file \(error.code)"
                }
            texts.withLock { $0.append(text) }
        }
    }

    @Test("a client reports connects, disconnects and retries of calls, in order")
    func retriedCall() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let events = Events()
            let client = agent.client { $0.onEvent = { events.add($0) } }
            async let value = client.config.value(at: "limit", as: Int.self)
            let connection = try await agent.accept()
            _ = try await connection.request("config.get")
            connection.close()
            let next = try await agent.accept()
            try await next.reply(
                next.request("config.get"), ["value": 25, "revision": 2, "epoch": "e1", "state": "fresh"])
            #expect(try await value == 25)
            // The script may close the connection at its end.
            let expected = ["connected", "disconnected disconnected", "retry config.get disconnected", "connected"]
            #expect(events.all.prefix(4) == expected[...])
        }
    }

    @Test("a client reports retries of streams, skipped snapshots and ignored events")
    func stream() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let events = Events()
            let client = agent.client { $0.onEvent = { events.add($0) } }
            var iterator = client.config.snapshots(at: "a.b").makeAsyncIterator()
            async let script: Void = {
                let connection = try await agent.accept()
                for _ in 0..<2 {
                    try await connection.fail(connection.request("config.subscribe"), .denied, "no right")
                }
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, 1)
                let ping = try await connection.request("agent.ping")
                try await connection.event(2, revision: 1, #""kind":"digest""#)
                try await connection.snapshot(3, revision: 5, 5, skipped: 3)
                try await connection.reply(ping, ["pong": true])
            }()
            #expect(try await iterator.next()?.revision == 1)
            try await client.agent.ping()
            #expect(try await iterator.next()?.revision == 5)
            try await script
            // The script may close the connection at its end, which may be before the last snapshot is delivered.
            let expected = ["connected", "retry config.subscribe remote", "ignored digest", "skipped 3 /a/b default"]
            #expect(events.all.filter { !$0.hasPrefix("disconnected") && $0 != "closed" } == expected)
        }
    }

    @Test("an outage gives one event for each cause, and not one for each attempt")
    func outage() async throws {
        let agent = try await TestAgent()
        let events = Events()
        var configuration = agent.clientConfiguration
        configuration.onEvent = { events.add($0) }
        let client = agent.client(configuration: configuration)
        try await client.agent.ping()
        agent.faults.isUnreachable = true
        let running = Task { try await client.run() }
        for _ in 0..<2 {
            await agent.disconnect()
            for _ in 0..<5 {
                try await agent.clock.waitForSleepers()
                agent.clock.advance(by: .seconds(10))
            }
            try await agent.clock.waitForSleepers()
            agent.faults.isUnreachable = false
            try await client.agent.ping()
            agent.faults.isUnreachable = true
            agent.clock.advance(by: .seconds(10))
        }
        running.cancel()
        try await running.value
        let cycle = ["connected", "disconnected disconnected", "retry run unreachable"]
        // The end of `run()` may report its disconnect later.
        #expect(events.all.prefix(7) == (cycle + cycle + ["connected"])[...])
    }

    @Test("the end of a connection that the client closes is not reported as an interruption")
    func intendedEnd() async throws {
        let agent = try await TestAgent()
        let events = Events()
        var configuration = agent.clientConfiguration
        configuration.onEvent = { events.add($0) }
        let client = agent.client(configuration: configuration)
        try await client.agent.ping()
        let running = Task { try await client.run() }
        running.cancel()
        try await running.value
        try await agent.waitUntil { events.all.count == 2 }
        #expect(events.all == ["connected", "closed"])
    }

    @Test("the texts of events have short durations")
    func texts() {
        let error = LarderClientError(.unreachable, "there is no socket at /run/a.sock", advice: "start the agent")
        let texts: [(LarderClientEvent, String)] = [
            (
                .retry(method: "config.subscribe", error: error, delay: .microseconds(1_249_999)),
                "config.subscribe failed, next attempt in 1.2 s: there is no socket at /run/a.sock; start the agent"
            ),
            (
                .retry(method: nil, error: error, delay: .microseconds(34_600)),
                "not connected, next attempt in 35 ms: there is no socket at /run/a.sock; start the agent"
            ),
            (
                .retry(method: "config.get", error: LarderClientError(.disconnected, "the agent ended"), delay: .zero),
                "config.get failed and is sent again: the agent ended"
            ),
            (
                .retry(
                    method: nil, error: LarderClientError(.disconnected, "the agent ended"), delay: .microseconds(9)),
                "not connected, next attempt at once: the agent ended"
            ),
            (
                .retry(
                    method: "config.subscribe", error: LarderClientError(remote: RemoteError(.denied, "no right")),
                    delay: .microseconds(9)),
                "config.subscribe was refused, and is tried again until it is allowed: "
                    + LarderClientError(remote: RemoteError(.denied, "no right")).description
            ),
            (.slowCall(method: "config.set", duration: .milliseconds(61_234)), "config.set took 61 s"),
            (.slowCall(method: "config.set", duration: .microseconds(1_999_999)), "config.set took 2 s"),
        ]
        for (event, text) in texts { #expect(event.description == text) }
        #expect(
            ConfigInterruption(error: error, delay: .seconds(5)).description
                == "interrupted, next attempt in 5 s: there is no socket at /run/a.sock; start the agent")
    }

    @Test("calls that take longer than a second are reported, except for waits")
    func slowCalls() async throws {
        let agent = try await TestAgent()
        let events = Events()
        var configuration = agent.clientConfiguration
        configuration.onEvent = { events.add($0) }
        let client = agent.client(configuration: configuration)
        try await client.agent.ping()
        agent.faults.delay = .seconds(3)
        let calls = Task {
            async let ping: Void = client.agent.ping()
            async let wait = client.config.wait(for: .exists(false), at: "none")
            _ = try await (ping, wait)
        }
        try await agent.waitForDelayedMessages(2)
        agent.clock.advance(by: .seconds(3))
        try await calls.value
        #expect(events.all == ["connected", "slow agent.ping 3"])
    }
}
