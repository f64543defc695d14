import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Graceful stop")
    struct StopTests {
        /// Sends SIGTERM and waits until the agent exits. After 20 s, `TimeoutStopSec=` of the unit, systemd would kill
        /// the agent.
        private func stop(_ agent: AgentProcess) throws {
            agent.terminate()
            #expect(try agent.process.waitForEnd(until: .after(.seconds(20))) == .exit(0), "\(agent.log)")
        }

        @Test(
            "a stop sends each subscription an end event before it closes the connection, even a half-closed one"
        )
        func endEvents() throws {
            try AgentHome.with(settings: "{ namespaces: { default: {}, other: {} } }") { home in
                let agent = try home.start()
                let clients = try (0..<20).map { number in
                    let client = try agent.connect()
                    try client.call("config.subscribe", ["path": "n"])
                    try client.call("config.subscribe", ["namespace": "other", "mode": "patch"])
                    for _ in 0..<2 { #expect(try client.event()["sequence"] == 1) }
                    if number % 2 == 0 { client.halfClose() }
                    return client
                }
                let idle = try agent.connect()
                try idle.call("agent.ping")
                try stop(agent)
                for client in clients {
                    let events = try client.readUntilClosed().map { $0["params"] ?? .null }
                    #expect(events.map { $0["kind"] } == ["end", "end"])
                    #expect(events.map { $0["reason"] } == ["shutdown", "shutdown"])
                    #expect(Set(events.compactMap { $0["subscription"]?.int }) == [1, 2])
                    #expect(events.map { $0["sequence"] } == [2, 2])
                }
                #expect(try idle.readUntilClosed().isEmpty)
                #expect(!home.exists(home.socket))
            }
        }

        @Test("during a stop, the agent replies to pending changes, and acknowledged changes are on disk")
        func repliesFinished() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let clients = try (0..<8).map { _ in try agent.connect() }
                for (number, client) in clients.enumerated() {
                    for value in 1...40 { _ = try client.request("config.set", [.string("n\(number)"), .int(value)]) }
                }
                try stop(agent)
                var acknowledged: [Int] = []
                for client in clients {
                    let replies = try client.readUntilClosed(expectsAllReplies: false)
                    for reply in replies where reply["error"] != nil {
                        #expect(reply["error"]?["data"]?["name"] == "shuttingDown", "\(reply)")
                    }
                    acknowledged.append(replies.filter { $0["result"] != nil }.compactMap { $0["id"]?.int }.max() ?? 0)
                }
                let next = try home.start()
                for (number, value) in acknowledged.enumerated() where value > 0 {
                    let stored = try next.call("config.get", [.string("n\(number)")])["value"]?.int ?? 0
                    #expect(stored >= value)
                }
            }
        }

        @Test("new connections do not delay the stop", arguments: 1...10)
        func newConnections(_: Int) throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let clients = try (0..<60).map { _ in try agent.connect() }
                try stop(agent)
                for client in clients { #expect(try client.readUntilClosed().isEmpty) }
            }
        }

        @Test("a large reply that is being sent when the agent stops arrives completely")
        func largeReply() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let text = String(repeating: "x", count: 900_000)
                try agent.call("config.set", ["path": "large", "value": .string(text)])
                let client = try agent.connect()
                for _ in 0..<5 { _ = try client.request("config.get", ["large"]) }
                try wait(on: client.descriptor, until: .usual, "the beginning of a reply")
                agent.terminate()
                let messages = try client.readUntilClosed(expectsAllReplies: false)
                #expect(!messages.isEmpty)
                for message in messages { #expect(message["result"]?["value"]?.string?.utf8.count == 900_000) }
                #expect(try agent.process.waitForEnd() == .exit(0), "\(agent.log)")
            }
        }

        @Test("a client that never reads does not delay the stop")
        func clientThatNeverReads() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let text = String(repeating: "x", count: 900_000)
                try agent.call("config.set", ["path": "large", "value": .string(text)])
                let (nonReader, watcher) = try (agent.connect(), agent.connect())
                for _ in 0..<20 { _ = try nonReader.request("config.get", ["large"]) }
                try nonReader.send(LineClient.text(id: 99, "config.subscribe", ["large"]))
                try watcher.call("config.subscribe", ["n"])
                #expect(try watcher.event()["exists"] == false)
                try stop(agent)
                #expect(try watcher.readUntilClosed().last?["params"]?["kind"] == "end")
            }
        }

        @Test("SIGINT and SIGTERM stop the agent, even if it has just received another signal")
        func signals() throws {
            try AgentHome.with { home in
                for signals in [[SIGINT], [SIGTERM, SIGTERM], [SIGHUP, SIGTERM]] {
                    let agent = try home.start()
                    for signal in signals { agent.process.signal(signal) }
                    #expect(try agent.process.waitForEnd() == .exit(0), "\(agent.log)")
                }
            }
        }

        @Test("a service manager that does not read its socket does not delay the stop")
        func fullNotificationSocket() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                try agent.fillNotifications()
                try stop(agent)
            }
        }

        @Test("the service manager is notified of the stop, and the last log line is \"stopped\"")
        func notification() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                agent.terminate()
                try agent.waitForNotification("STOPPING=1")
                #expect(try agent.process.waitForEnd() == .exit(0))
                #expect(agent.log.split(separator: "\n").last?.contains("stopped") == true, "\(agent.log)")
            }
        }
    }
}
