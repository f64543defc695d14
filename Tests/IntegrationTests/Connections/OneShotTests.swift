import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("One-shot clients")
    struct OneShotTests {
        @Test("200 requests through one pipe get 200 replies, in order")
        func manyReads() throws {
            try AgentHome.with { home in
                _ = try home.start()
                let requests = (1...200).map { LineClient.text(id: $0, $0 % 2 == 0 ? "agent.ping" : "config.get") }
                let replies = try Socat.pipe(requests.joined(separator: "\n"), to: home.socket)
                #expect(try replies.map { try JSONValue(parsing: $0)["id"]?.int } == Array(1...200))
            }
        }

        @Test("200 changes through one pipe are all answered")
        func manyWrites() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let requests = (1...200).map {
                    LineClient.text(id: $0, "config.set", ["path": "n", "value": .int($0)])
                }
                let replies = try Socat.pipe(requests.joined(separator: "\n"), to: home.socket)
                    .map { try JSONValue(parsing: $0) }
                #expect(replies.compactMap { $0["id"]?.int }.sorted() == Array(1...200))
                #expect(replies.allSatisfy { $0["result"] != nil })
                #expect(try agent.call("config.get", ["n"])["value"] == 200)
            }
        }

        @Test("large replies that fill the socket buffer are each sent once", arguments: [3_000, 100_000, 700_000])
        func largeReplies(size: Int) throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let text = String(repeating: "x", count: size)
                try agent.call("config.set", ["path": "large", "value": .string(text)])
                let client = try agent.connect()
                let count = min(2_000, 30_000_000 / size)
                let requests = (1...count).map { LineClient.text(id: $0, "config.get", ["large"]) }
                try client.send(bytes: Array(requests.joined(separator: "\n").utf8))
                client.halfClose()
                for id in 1...count {
                    let reply = try require(try client.line(), "reply \(id)")
                    #expect(reply.starts(with: #"{"jsonrpc":"2.0","id":\#(id),"result":{"value":"xxx"#.utf8))
                    #expect((size + 60..<size + 200).contains(reply.count))
                }
                #expect(try client.readUntilClosed().isEmpty)
            }
        }

        @Test("a subscription continues after its client half-closes the connection")
        func watch() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let socat = try ChildProcess(
                    "socat", ["-t", "86400", "-", "UNIX-CONNECT:\(home.socket)"], input: true)
                try socat.write(Array(LineClient.text(id: 1, "config.subscribe", ["n"]).utf8))
                socat.closeInput()
                func next() throws -> JSONValue {
                    try JSONValue(
                        parsing: require(socat.output.line(until: .usual, "a line from socat"), "line from socat"))
                }
                #expect(try next()["result"]?["subscription"] == 1)
                #expect(try next()["params"]?["exists"] == false)
                for value in 1...3 {
                    try agent.call("config.set", ["path": "n", "value": .int(value)])
                    #expect(try next()["params"]?["value"]?.int == value)
                }
                #expect(try agent.stop() == .exit(0))
                #expect(try next()["params"]?["kind"] == "end")
                #expect(try socat.output.line(until: .usual, "the end of socat") == nil)
            }
        }

        @Test("a change is made even if its client disconnects without waiting for the reply")
        func fireAndForget() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let watcher = try agent.connect()
                try watcher.call("config.subscribe", ["n"])
                #expect(try watcher.event()["exists"] == false)
                for value in 1...50 {
                    let client = try agent.connect()
                    try client.notify("config.set", ["path": "n", "value": .int(value)])
                    client.close()
                    #expect(try watcher.event()["value"]?.int == value)
                }
            }
        }

        @Test("a half-closed connection stays open until its pending request is answered")
        func deferredAfterHalfClose() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                for value in 1...50 {
                    let client = try agent.connect()
                    let id = try client.request("config.set", ["path": "n", "value": .int(value)])
                    client.halfClose()
                    #expect(try client.reply(to: id)["changed"] == true)
                    #expect(try client.readUntilClosed().isEmpty)
                }
            }
        }
    }
}
