import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("A crowd of subscribers")
    struct FanOutTests {
        /// Publishes and has the crowd read meanwhile. While it does, somebody else asks for a sign of life each time.
        private func publish(_ count: Int, to crowd: Crowd, by writer: LineClient, beside pinger: LineClient) throws
            -> Int
        {
            let filling = String(repeating: "x", count: 1_000)
            var revision = 0
            for value in 1...count {
                let set = LineClient.text(
                    id: value, "config.set", ["n", ["value": .int(value), "filling": .string(filling)]])
                try writer.send(set)
                let reply = try answer(writer, crowd)
                #expect(reply["id"]?.int == value)
                revision = try require(reply["result"]?["revision"]?.int, "revision in \(reply)")
                try pinger.send(LineClient.text(id: value, "agent.ping"))
                #expect(try answer(pinger, crowd)["id"]?.int == value)
            }
            try crowd.read(upTo: revision)
            return revision
        }

        private func answer(_ client: LineClient, _ crowd: Crowd) throws -> JSONValue {
            while true {
                if let line = client.linesSoFar().first { return try JSONValue(parsing: line) }
                try crowd.read(orWaitFor: client.descriptor)
            }
        }

        /// Connects a crowd, publishes, and goes away again.
        private func round(_ agent: AgentProcess, readers: Int, deaf: Int, publishes: Int) throws {
            let (writer, pinger) = try (agent.connect(), agent.connect())
            let clients = try (0..<(readers + deaf)).map { number in
                let client = try LineClient(path: agent.socket)
                try client.send(LineClient.text(id: 0, "config.subscribe", ["n"]))
                return client
            }
            let crowd = Crowd(Array(clients.prefix(readers)))
            let last = try publish(publishes, to: crowd, by: writer, beside: pinger)
            #expect(crowd.hasSeenEverything)
            #expect(try writer.call("config.get", ["n"])["revision"]?.int == last)
            for client in clients { client.close() }
            // Whoever asks is the last one left.
            try writer.call("agent.stats", until: { $0["connections"]?["open"] == 2 })
        }

        @Test(
            "1,000 subscribers, of whom 100 never read, and 200 publishes: all the others see the last one and no gap")
        func crowd() throws {
            raiseDescriptorLimit()
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                try agent.ask("config.set", ["path": "n", "value": 0])
                // A crowd brings in code that nobody needed before it.
                try round(agent, readers: 900, deaf: 100, publishes: 20)
                let before = try agent.anonymousBytes()
                try round(agent, readers: 900, deaf: 100, publishes: 200)
                try round(agent, readers: 900, deaf: 100, publishes: 200)
                // Memory is given back a while after the crowd has gone, unless a sanitizer keeps it to watch over it.
                if ChildProcess.sanitizerVariables["ASAN_OPTIONS"] == nil {
                    try agent.connect().call(
                        "agent.stats",
                        until: { _ in (try? agent.anonymousBytes()).map { $0 < before + 4_000_000 } ?? false })
                }
                #expect(try agent.ask("agent.stats")["subscriptions"]?["open"] == 0)
            }
        }

        @Test("subscribers come and go while others write, and the agent keeps no trace of them")
        func comingAndGoing() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                let writer = try agent.connect()
                for value in 1...300 {
                    let client = try LineClient(path: home.socket)
                    for path in 0..<5 {
                        try client.send(LineClient.text(id: path, "config.subscribe", [.string("p\(path)")]))
                    }
                    try writer.call("config.set", [.string("p\(value % 5)"), .int(value)])
                    if value % 3 == 0 { _ = try client.line() }
                    client.close()
                }
                try writer.call("agent.stats", until: { $0["subscriptions"]?["open"] == 0 })
            }
        }

        @Test("a change of state that publishes nothing shows in the first event of whoever comes next")
        func currentState() throws {
            let origin = try RawOrigin.listening(.document(#"{"a":1}"#, etag: "1"))
            defer { origin.stop() }
            let remote = "{ http: { url: '\(origin.documentURL)', intervalSeconds: 86400 } }"
            try AgentHome.with(settings: "{ namespaces: { default: { remote: \(remote) } } }") { home in
                let agent = try home.start()
                let clients = try (0..<2).map { _ in try agent.connect() }
                try clients[0].call("config.refresh")
                origin.answer(.status("500 Internal Server Error", ""))
                _ = try clients[0].refusal("config.refresh")
                #expect(try clients[0].call("config.subscribe", ["a"])["state"] == "stale")
                #expect(try clients[0].event()["state"] == "stale")
                origin.answer(.notModified())
                try clients[1].call("config.refresh")
                #expect(try clients[1].call("config.subscribe", ["a"])["state"] == "fresh")
                #expect(try clients[1].event()["state"] == "fresh")
            }
        }

        @Test("a value that was the same for long is patched from what the client holds")
        func quietPath() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                let (writer, client) = try (agent.connect(), agent.connect())
                try writer.call("config.set", ["path": "p", "value": ["a": 1]])
                try client.call("config.subscribe", ["path": "p", "mode": "patch"])
                for round in 1...3 {
                    let held = try require(try client.event()["revision"]?.int, "revision")
                    for value in 1...40 { try writer.call("config.set", ["path": "n", "value": .int(value)]) }
                    try writer.call("config.set", ["path": "p.k", "value": .int(round)])
                    let event = try client.event()
                    #expect(event["kind"] == "patch")
                    #expect(event["from"]?.int == held)
                    #expect(event["patch"] == ["k": .int(round)])
                    try writer.call("config.set", ["path": "p.k", "value": .int(-round)])
                }
            }
        }
    }
}
