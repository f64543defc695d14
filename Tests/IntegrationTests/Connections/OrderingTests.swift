import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Order of replies and events")
    struct OrderingTests {
        private static let relaxed = "{ namespaces: { default: { durability: 'relaxed' } } }"

        @Test("during constant writes, the reply to a subscription precedes its first event")
        func replyBeforeEvent() throws {
            try AgentHome.with(settings: Self.relaxed) { home in
                let agent = try home.start()
                let (writer, client) = try (agent.connect(), agent.connect())
                var sequences: [Int: Int] = [:]
                for round in 0..<40 {
                    for step in 0..<10 {
                        try writer.notify("config.set", ["path": "n", "value": .int(round * 10 + step)])
                    }
                    try client.send(LineClient.text(id: round, "config.subscribe", ["n"]))
                    while true {
                        let message = try client.message()
                        if let number = message["params"]?["subscription"]?.int {
                            let sequence = try require(
                                sequences[number], "reply before an event of subscription \(number)")
                            #expect(message["params"]?["sequence"]?.int == sequence + 1)
                            sequences[number] = sequence + 1
                        } else {
                            #expect(message["id"]?.int == round)
                            let number = try require(
                                message["result"]?["subscription"]?.int, "subscription in \(message)")
                            #expect(sequences.updateValue(0, forKey: number) == nil)
                            break
                        }
                    }
                }
            }
        }

        @Test("during constant writes, no event follows the reply to an unsubscription")
        func unsubscribeSilence() throws {
            try AgentHome.with(settings: Self.relaxed) { home in
                let agent = try home.start()
                let (writer, client) = try (agent.connect(), agent.connect())
                for round in 0..<100 {
                    let number = try require(try client.call("config.subscribe")["subscription"], "subscription")
                    for step in 0..<10 {
                        try writer.notify("config.set", ["path": "n", "value": .int(round * 10 + step)])
                    }
                    try client.call("config.unsubscribe", ["subscription": number])
                    for event in client.takeBufferedEvents() { #expect(event["subscription"] == number) }
                    try writer.call("agent.ping")
                    try client.call("agent.ping")
                    #expect(client.takeBufferedEvents().isEmpty)
                }
            }
        }

        @Test("pipelined changes of one connection are made in the order of the requests")
        func pipelinedChanges() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let (writer, watcher) = try (agent.connect(), agent.connect())
                try watcher.call("config.subscribe", ["n"])
                #expect(try watcher.event()["exists"] == false)
                var ids: [Int] = []
                for value in 1...60 {
                    ids.append(try writer.request("config.set", ["path": "n", "value": .int(value)]))
                    if value % 7 == 0 { ids.append(try writer.request("config.unset", ["path": "n"])) }
                    if value % 30 == 0 {
                        var revision = 0
                        for id in ids {
                            let next = try require(try writer.reply(to: id)["revision"]?.int, "revision")
                            #expect(next >= revision)
                            revision = next
                        }
                        ids = []
                    }
                }
                var (last, value) = (0, 0)
                while value < 60 {
                    let event = try watcher.event()
                    let revision = try require(event["revision"]?.int, "revision")
                    #expect(revision > last)
                    last = revision
                    guard event["exists"] != false else { continue }
                    let next = try require(event["value"]?.int, "value")
                    #expect(next > value)
                    value = next
                }
                #expect(try writer.call("config.get", ["n"])["value"] == 60)
            }
        }

        @Test("each pipelined request gets exactly one reply, even above the limit of requests in flight")
        func manyInFlight() throws {
            try AgentHome.with(settings: "{ limits: { requestsInFlightPerConnection: 8 } }") { home in
                let client = try home.start().connect()
                let sets = try (1...500).map {
                    try client.request("config.set", ["path": .string("n\($0 % 50)"), "value": .int($0)])
                }
                let stats = try (1...100).map { _ in try client.request("agent.stats") }
                try client.call("agent.ping")
                for id in sets + stats { try client.reply(to: id) }
                client.halfClose()
                #expect(try client.readUntilClosed().isEmpty)
            }
        }

        @Test("connections that share an event loop receive only their own messages")
        func noCrosstalk() throws {
            try AgentHome.with(settings: Self.relaxed) { home in
                let agent = try home.start()
                let watchers = try (0..<8).map { _ in try agent.connect() }
                for watcher in watchers { try watcher.call("config.subscribe", ["n"]) }
                let (writer, client) = try (agent.connect(), agent.connect())
                var (expected, written) = (0, 0)
                for round in 0..<200 {
                    var burst = ""
                    for step in 0..<20 {
                        burst +=
                            LineClient.text(id: round * 20 + step, "config.set", ["n", .int(round * 20 + step)]) + "\n"
                    }
                    try writer.send(bytes: Array(burst.utf8))
                    written += 20
                    // Subscribes while replies are waiting to be written.
                    var requests = ""
                    for _ in 0..<10 {
                        requests += LineClient.text(id: expected, "agent.ping") + "\n"
                        requests += LineClient.text(id: expected + 1, "config.subscribe", ["n"]) + "\n"
                        requests +=
                            LineClient.text(id: expected + 2, "config.unsubscribe", [.int(expected / 3 + 1)]) + "\n"
                        expected += 3
                    }
                    try client.send(bytes: Array(requests.utf8))
                    for id in (expected - 30)..<expected {
                        var message = try client.message()
                        while message["method"] == "config.event" { message = try client.message() }
                        try #require(message["id"]?.int == id)
                        try #require(message["result"] != nil, "\(message)")
                    }
                    while written > 0 {
                        #expect(try writer.message()["id"] != nil)
                        written -= 1
                    }
                    for watcher in watchers {
                        for line in watcher.availableLines() {
                            let message = try JSONValue(parsing: line)
                            try #require(
                                message["method"] == "config.event", "a message of another connection: \(message)")
                        }
                    }
                }
            }
        }

        @Test(
            "a batch has one reply, in the order of its requests, and events of a subscription in the batch follow the reply"
        )
        func batch() throws {
            try AgentHome.with { home in
                let client = try home.start().connect()
                let requests = [
                    LineClient.text(id: 1, "config.set", ["n", 1]), LineClient.text(id: 2, "config.subscribe", ["n"]),
                    LineClient.text(id: nil, "config.set", ["m", 1]), LineClient.text(id: 3, "agent.ping"),
                ]
                try client.send("[" + requests.joined(separator: ",") + "]")
                let reply = try client.message()
                #expect(reply.elements.map { $0["id"]?.int } == [1, 2, 3])
                #expect(try client.event()["sequence"] == 1)
            }
        }

        @Test("the requests of a batch count towards the limit of requests in flight, and all are answered")
        func batchInFlight() throws {
            let origin = try RawOrigin.listening(.hang)
            defer { origin.stop() }
            let remote = "{ http: { url: '\(origin.documentURL)', intervalSeconds: 86400, timeoutSeconds: 600 } }"
            let limits = "{ requestsInFlightPerConnection: 2 }"
            try AgentHome.with(settings: "{ limits: \(limits), namespaces: { default: { remote: \(remote) } } }") {
                home in
                let agent = try home.start()
                let (client, observer) = try (agent.connect(), agent.connect())
                let waiting = (1...20).map { LineClient.text(id: $0, "config.refresh") }
                let (subscribe, ping) = (
                    LineClient.text(id: 21, "config.subscribe"), LineClient.text(id: 22, "agent.ping")
                )
                let batch = "[" + (waiting + [subscribe, ping]).joined(separator: ",") + "]"
                try client.send(bytes: Array((batch + "\n" + LineClient.text(id: 23, "agent.ping")).utf8))
                client.halfClose()
                // The agent.stats request itself is also in flight.
                try observer.call("agent.stats", until: { ($0["requests"]?["inFlight"]?.int ?? 0) > 2 })
                let stats = try observer.call("agent.stats")
                #expect(stats["requests"]?["inFlight"] == 3)
                #expect(stats["subscriptions"]?["open"] == 0, "a request of the batch has started above the limit")
                origin.answer(.document("{}"))
                var (replies, pings, events) = ([[Int?]](), 0, 0)
                while replies.count + pings + events < 3 {
                    let message = try client.message()
                    if message.kind == .array {
                        replies.append(message.elements.map { $0["id"]?.int })
                    } else if message["id"] == 23 {
                        pings += 1
                    } else {
                        events += 1
                        #expect(replies.count == 1, "an event precedes the reply")
                    }
                }
                #expect(replies == [Array(1...22)])
                #expect(pings == 1)
            }
        }

        @Test("a received batch is executed completely, even if its client disconnects immediately")
        func batchOfDisconnectedClient() throws {
            try AgentHome.with(settings: "{ limits: { requestsInFlightPerConnection: 1 } }") { home in
                let agent = try home.start()
                for round in 0..<10 {
                    let names = (0..<20).map { "n\($0)" }
                    let sets = names.map { name in
                        LineClient.text(id: 1, "config.set", ["path": .string(name), "value": .int(round)])
                    }
                    let client = try agent.connect()
                    try client.send("[" + sets.joined(separator: ",") + "]")
                    client.close()
                    let observer = try agent.connect()
                    try observer.call(
                        "config.get", until: { found in names.allSatisfy { found["value"]?[$0]?.int == round } })
                    observer.close()
                }
            }
        }

        @Test(
            "when the agent stops, the reply to a batch has an error for each request that is running or not yet started"
        )
        func batchAtShutdown() throws {
            let origin = try RawOrigin.listening(.hang)
            defer { origin.stop() }
            let remote = "{ http: { url: '\(origin.documentURL)', intervalSeconds: 86400, timeoutSeconds: 600 } }"
            let limits = "{ requestsInFlightPerConnection: 1 }"
            try AgentHome.with(settings: "{ limits: \(limits), namespaces: { default: { remote: \(remote) } } }") {
                home in
                let agent = try home.start()
                let (client, observer) = try (agent.connect(), agent.connect())
                let requests = [
                    LineClient.text(id: 1, "config.refresh"), LineClient.text(id: 2, "config.set", ["n", 1]),
                ]
                try client.send("[" + requests.joined(separator: ",") + "]")
                try observer.call("agent.stats", until: { ($0["requests"]?["inFlight"]?.int ?? 0) > 1 })
                agent.terminate()
                let names = try client.message().elements.map { $0["error"]?["data"]?["name"] }
                #expect(names == ["cancelled", "shuttingDown"])
                #expect(try client.readUntilClosed().isEmpty)
            }
        }
    }
}
