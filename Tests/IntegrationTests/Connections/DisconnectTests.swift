import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Clients that disconnect")
    struct DisconnectTests {
        private static let relaxed = "{ namespaces: { default: { durability: 'relaxed' } } }"

        @Test("connections that close at any point leave no socket open and do not affect other clients")
        func storm() throws {
            try AgentHome.with(settings: Self.relaxed) { home in
                let agent = try home.start()
                let observer = try agent.connect()
                try observer.call("config.set", ["path": "known", "value": "as it was set"])
                // Waits until `observer` is the only open connection.
                try observer.call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                let (before, acceptedBefore) = (try sockets(of: agent), try accepted(observer))
                let request = Array((LineClient.text(id: 1, "config.get", ["known"]) + "\n").utf8)
                let subscription = LineClient.text(id: 2, "config.subscribe")
                for number in 0..<1000 {
                    let client = try agent.connect()
                    switch number % 5 {
                    case 1: try client.send(bytes: request)
                    case 2: try client.send(bytes: Array(request.prefix(1 + number % (request.count - 2))))
                    case 3:
                        try client.send(bytes: request)
                        client.halfClose()
                        #expect(try client.readUntilClosed().map { $0["result"]?["value"] } == ["as it was set"])
                    case 4: try client.send(subscription)
                    default: break
                    }
                    client.close()
                    if number % 50 == 0 {
                        #expect(try observer.call("config.get", ["known"])["value"] == "as it was set")
                    }
                }
                // Waits, because closed connections can still be in the accept queue.
                try observer.call(
                    "agent.stats",
                    until: {
                        $0["connections"]?["accepted"]?.int == acceptedBefore + 1000
                            && $0["connections"]?["open"] == 1 && $0["subscriptions"]?["open"] == 0
                    })
                #expect(try sockets(of: agent) == before)
            }
        }

        @Test("each change of a client that is killed while it sends is applied completely or not at all")
        func killed() throws {
            try AgentHome.with(settings: Self.relaxed) { home in
                let agent = try home.start()
                let observer = try agent.connect()
                // The value is larger than the socket buffers, so that replies are still being sent when the client is
                // killed.
                let large = JSONValue.string(String(repeating: "x", count: 300_000))
                try observer.call("config.set", ["path": "large", "value": large])
                let reads = Array(repeating: LineClient.text(id: 1, "config.get", ["large"]) + "\n", count: 3).joined()
                let count = 100
                for number in 0..<count {
                    func change(_ part: String) -> String {
                        LineClient.text(
                            id: 2, "config.set", ["path": .string("\(part).k\(number)"), "value": .int(number)])
                    }
                    let half = change("half")
                    let part = half.prefix(1 + number % (half.count - 2))
                    let text = (number % 2 == 0 ? "" : reads) + change("whole") + "\n" + part
                    let before = try accepted(observer)
                    let client = try ChildProcess("socat", ["-u", "-", "UNIX-CONNECT:\(agent.socket)"], input: true)
                    try client.write(Array(text.utf8))
                    if number % 3 != 0 {
                        // Waits until the agent has accepted a client. It need not be the client of this iteration: a
                        // client that is killed immediately may be accepted late, or may never connect.
                        try observer.call(
                            "agent.stats", until: { ($0["connections"]?["accepted"]?.int ?? 0) > before })
                    }
                    client.kill()
                }
                try observer.call(
                    "agent.stats", until: { $0["connections"]?["open"] == 1 && $0["requests"]?["inFlight"] == 1 })
                let document = try observer.call("config.get")["value"] ?? .null
                #expect(document["half"] == nil)
                let whole = document["whole"] ?? .emptyObject
                for (name, value) in whole.members { #expect(name == "k\(value.int ?? -1)") }
                #expect(whole.members.contains { _ in true }, "no client sent a complete change")
            }
        }

        private func accepted(_ client: LineClient) throws -> Int {
            try require(try client.call("agent.stats")["connections"]?["accepted"]?.int, "number of connections")
        }

        /// The number of open sockets. The number of other descriptors varies, for example during a copy of the image
        /// index.
        private func sockets(of agent: AgentProcess) throws -> Int {
            let folder = "/proc/\(agent.pid)/fd"
            return try FileManager.default.contentsOfDirectory(atPath: folder).count { name in
                // The descriptor may have been closed since the folder was listed.
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(name)")
                return target?.hasPrefix("socket:") == true
            }
        }
    }
}
