import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Fan-out to many subscribers")
    struct FanOutTests {
        /// Publishes `count` changes while the subscribers read. After each change, checks that `pinger` gets a reply.
        /// - Returns: The last revision.
        private func publish(
            _ count: Int, to subscribers: SubscriberGroup, by writer: LineClient, beside pinger: LineClient
        ) throws -> Int {
            let filling = String(repeating: "x", count: 1_000)
            var revision = 0
            for value in 1...count {
                let set = LineClient.text(
                    id: value, "config.set", ["n", ["value": .int(value), "filling": .string(filling)]])
                try writer.send(set)
                let reply = try message(writer, subscribers)
                #expect(reply["id"]?.int == value)
                revision = try require(reply["result"]?["revision"]?.int, "revision in \(reply)")
                try pinger.send(LineClient.text(id: value, "agent.ping"))
                #expect(try message(pinger, subscribers)["id"]?.int == value)
            }
            try subscribers.read(upTo: revision)
            return revision
        }

        /// Waits for the next message of `client`. The subscribers keep reading.
        private func message(_ client: LineClient, _ subscribers: SubscriberGroup) throws -> JSONValue {
            while true {
                if let line = client.availableLines().first { return try JSONValue(parsing: line) }
                try subscribers.read(orWaitFor: client.descriptor)
            }
        }

        /// Connects subscribers, publishes, and disconnects them.
        /// - Parameter stalled: The number of subscribers that never read.
        private func fanOut(_ agent: AgentProcess, readers: Int, stalled: Int, publishes: Int) throws {
            let (writer, pinger) = try (agent.connect(), agent.connect())
            let clients = try (0..<(readers + stalled)).map { number in
                let client = try LineClient(path: agent.socket)
                try client.send(LineClient.text(id: 0, "config.subscribe", ["n"]))
                return client
            }
            let subscribers = SubscriberGroup(Array(clients.prefix(readers)))
            let last = try publish(publishes, to: subscribers, by: writer, beside: pinger)
            #expect(subscribers.hasNoGaps)
            #expect(try writer.call("config.get", ["n"])["revision"]?.int == last)
            for client in clients { client.close() }
            // Only `writer` and `pinger` are still connected.
            try writer.call("agent.stats", until: { $0["connections"]?["open"] == 2 })
        }

        @Test(
            "if 100 of 1,000 subscribers never read, the other 900 get the last of 200 changes and correct skip counts")
        func manySubscribers() throws {
            raiseDescriptorLimit()
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                try agent.call("config.set", ["path": "n", "value": 0])
                // The first run is not measured, because serving many clients maps code pages that were not in use
                // before.
                try fanOut(agent, readers: 900, stalled: 100, publishes: 20)
                let before = try agent.anonymousBytes()
                try fanOut(agent, readers: 900, stalled: 100, publishes: 200)
                try fanOut(agent, readers: 900, stalled: 100, publishes: 200)
                // The agent releases memory some time after the clients have disconnected. The address sanitizer delays
                // the release, so memory is not checked under it.
                if ChildProcess.sanitizerVariables["ASAN_OPTIONS"] == nil {
                    try agent.connect().call(
                        "agent.stats",
                        until: { _ in (try? agent.anonymousBytes()).map { $0 < before + 4_000_000 } ?? false })
                }
                #expect(try agent.call("agent.stats")["subscriptions"]?["open"] == 0)
            }
        }

        @Test("subscribers connect and disconnect during writes, and none of their subscriptions remains")
        func shortConnections() throws {
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

        @Test("if the state of a namespace changes without a new snapshot, new subscriptions start with the new state")
        func currentState() throws {
            let origin = try RawOrigin.listening(.document(#"{"a":1}"#, etag: "1"))
            defer { origin.stop() }
            let remote = "{ http: { url: '\(origin.documentURL)', intervalSeconds: 86400 } }"
            try AgentHome.with(settings: "{ namespaces: { default: { remote: \(remote) } } }") { home in
                let agent = try home.start()
                let clients = try (0..<2).map { _ in try agent.connect() }
                // The agent requests the document at its start. No other poll is due during the test.
                try origin.request()
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

        @Test("after many changes at other paths, a patch is based on the last revision that the client received")
        func quietPath() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                let (writer, client) = try (agent.connect(), agent.connect())
                try writer.call("config.set", ["path": "p", "value": ["a": 1]])
                try client.call("config.subscribe", ["path": "p", "mode": "patch"])
                for round in 1...3 {
                    let last = try require(try client.event()["revision"]?.int, "revision")
                    for value in 1...40 { try writer.call("config.set", ["path": "n", "value": .int(value)]) }
                    try writer.call("config.set", ["path": "p.k", "value": .int(round)])
                    let event = try client.event()
                    #expect(event["kind"] == "patch")
                    #expect(event["from"]?.int == last)
                    #expect(event["patch"] == ["k": .int(round)])
                    try writer.call("config.set", ["path": "p.k", "value": .int(-round)])
                }
            }
        }
    }
}
