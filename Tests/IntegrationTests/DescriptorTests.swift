import JSON
import Testing

extension Integration {
    @Suite("Descriptors that run out")
    struct DescriptorTests {
        @Test("clients that are too many for the descriptors are turned away with a reason, and the others are served")
        func exhausted() throws {
            try AgentHome.with { home in
                let agent = try home.start(wrapper: ["prlimit", "--nofile=128:128", "--"])
                let limit = try require(
                    try agent.ask("agent.info")["limits"]?["connections"]?.int, "limit of connections")
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
                    #expect(served.count == limit)
                    // There is always one left to write a change down.
                    try served[0].call("config.set", ["path": "n", "value": 1])
                    for client in clients.dropFirst() { client.close() }
                    try served[0].call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                    served[0].close()
                }
                #expect(details.count == 1)
                #expect(details.allSatisfy { $0.contains("LimitNOFILE") && !$0.contains("limits.connections") })
                // 300 were refused, and a line comes every ten seconds at most.
                let lines = agent.log.split(separator: "\n").filter { $0.contains("refused") }
                #expect((1..<30).contains(lines.count), "\(lines.count) lines")
                #expect(lines.allSatisfy { $0.contains("open files") })
            }
        }
    }
}
