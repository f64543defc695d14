import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Exhausted file descriptors")
    struct DescriptorTests {
        @Test("connections above the descriptor limit are refused with a reason, and existing connections are served")
        func exhausted() throws {
            try AgentHome.with { home in
                let agent = try home.start(wrapper: ["prlimit", "--nofile=128:128", "--"])
                let observer = try agent.connect()
                let limit = try require(
                    try observer.call("agent.info")["limits"]?["connections"]?.int, "limit of connections")
                #expect((10..<100).contains(limit))
                var details: Set<String> = []
                for _ in 0..<3 {
                    let clients = try (0..<(limit + 100)).map { _ in try agent.connect() }
                    let ids = clients.map { try? $0.request("agent.ping") }
                    var served: [LineClient] = []
                    for (client, id) in zip(clients, ids) {
                        let message = try client.message()
                        if message["id"]?.isNull == true {
                            #expect(message["error"]?["data"]?["name"] == "limitExceeded")
                            details.insert(message["error"]?["data"]?["detail"]?.string ?? "")
                        } else {
                            #expect(message["id"]?.int == id)
                            served.append(client)
                        }
                    }
                    // `observer` is connected, too.
                    #expect(served.count == limit - 1)
                    // The agent reserves a descriptor for writing changes.
                    try served[0].call("config.set", ["path": "n", "value": 1])
                    for client in clients { client.close() }
                    try observer.call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                }
                #expect(details.count == 1)
                #expect(details.allSatisfy { $0.contains("LimitNOFILE") && !$0.contains("limits.connections") })
                // 300 connections were refused. The agent logs at most one line every ten seconds.
                let lines = agent.log.split(separator: "\n").filter { $0.contains("refused") }
                #expect((1..<30).contains(lines.count), "\(lines.count) lines")
                #expect(lines.allSatisfy { $0.contains("open files") })
            }
        }

        @Test("after the agent ran out of descriptors, it serves changes and images again, and leaks no descriptor")
        func recovery() throws {
            try AgentHome.withImages { home, origin in
                let agent = try home.start(wrapper: ["prlimit", "--nofile=128:128", "--"])
                let limit = try require(
                    try agent.call("agent.info")["limits"]?["connections"]?.int, "limit of connections")
                // Uses everything that opens descriptors on demand: journal, image index and connection to the origin.
                func use(_ number: Int) throws {
                    let client = try agent.connect()
                    defer { client.close() }
                    try client.call("config.set", ["path": "n", "value": .int(number)])
                    let image = try client.image(origin.url("svg", "kept.png"))
                    try client.call("image.release", ["lease": image["lease"] ?? .null])
                }
                func openDescriptors() throws -> Int {
                    try FileManager.default.contentsOfDirectory(atPath: "/proc/\(agent.pid)/fd").count
                }
                func waitForSingleConnection() throws {
                    try agent.connect().call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                }
                try use(0)
                try waitForSingleConnection()
                let before = try openDescriptors()
                for number in 1...3 {
                    let clients = try (0..<(limit + 50)).map { _ in try agent.connect() }
                    for client in clients { _ = try? client.request("agent.ping") }
                    for client in clients { _ = try client.message() }
                    for client in clients { client.close() }
                    // The agent refuses new clients until it has closed its ends of the connections that the clients of
                    // this iteration have closed.
                    let deadline = Deadline.usual
                    while (try? waitForSingleConnection()) == nil, !deadline.hasPassed { _ = poll(nil, 0, 5) }
                    try use(number)
                }
                try waitForSingleConnection()
                // Waits, because the agent can have descriptors open for a background copy of the image index.
                let deadline = Deadline.usual
                while try openDescriptors() > before, !deadline.hasPassed { _ = poll(nil, 0, 5) }
                #expect(try openDescriptors() <= before)
                #expect(try agent.stop() == .exit(0))
                let next = try home.start()
                #expect(try next.call("config.get", ["n"])["value"] == 3)
            }
        }
    }
}
