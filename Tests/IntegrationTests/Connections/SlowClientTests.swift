import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Clients that do not read")
    struct SlowClientTests {
        private static let shortStallLimit =
            "{ limits: { sendTimeoutSeconds: 1 }, namespaces: { default: { durability: 'relaxed' } } }"

        /// A value that is larger than a socket buffer.
        private static let large = JSONValue.string(String(repeating: "x", count: 900_000))

        @Test(
            "a client that does not read is disconnected and logged with pid and command; other clients are not affected"
        )
        func stalled() throws {
            try AgentHome.with(settings: Self.shortStallLimit) { home in
                let agent = try home.start()
                let (client, nonReader, idle) = try (agent.connect(), agent.connect(), agent.connect())
                try client.call("config.set", ["path": "large", "value": Self.large])
                _ = try nonReader.request("config.subscribe", ["large"])
                try idle.call("config.subscribe", ["n"])
                let line = try agent.waitForLog("disconnected a client that does not read")
                let command = try String(contentsOfFile: "/proc/self/comm", encoding: .utf8).trimmingCharacters(
                    in: .newlines)
                #expect(line.contains("peer_pid=\(getpid())"), "\(line)")
                #expect(
                    line.contains("peer_command=\(command)") || line.contains("peer_command=\"\(command)\""), "\(line)")
                let stats = try client.call("agent.stats")
                #expect(stats["connections"]?["stalled"] == 1)
                #expect(stats["subscriptions"]?["open"] == 1, "an idle subscriber was dropped")
                #expect(try idle.call("agent.ping") == ["pong": true])
                nonReader.close()
            }
        }

        @Test("requests that wait behind an unread reply are not executed if their client is disconnected")
        func requestsBehindUnreadReply() throws {
            try AgentHome.with(settings: Self.shortStallLimit) { home in
                let agent = try home.start()
                let (client, nonReader) = try (agent.connect(), agent.connect())
                try client.call("config.set", ["path": "large", "value": Self.large])
                let requests = [
                    LineClient.text(id: 1, "config.get", ["large"]),
                    LineClient.text(id: 2, "config.set", ["path": "late", "value": 1]),
                ]
                try nonReader.send(requests.joined(separator: "\n"))
                _ = try agent.waitForLog("disconnected a client that does not read")
                try client.call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                #expect(try client.refusal("config.get", ["late"]).name == "notFound")
                nonReader.close()
            }
        }

        @Test("a client that reads slowly is not disconnected")
        func slow() throws {
            // `sendTimeoutSeconds` must be longer than any delay of the reads of this test on a busy machine.
            try AgentHome.with(settings: "{ limits: { sendTimeoutSeconds: 3 } }") { home in
                let agent = try home.start()
                let slow = try LineClient(path: home.socket)
                try agent.call("config.set", ["path": "large", "value": Self.large])
                for _ in 0..<2 { _ = try slow.request("config.get", ["large"]) }
                // Reads for longer than sendTimeoutSeconds in total, with pauses shorter than sendTimeoutSeconds.
                let end = Deadline.after(.seconds(5))
                while !end.hasPassed {
                    _ = slow.readChunk(6_000)
                    _ = poll(nil, 0, 50)
                }
                for id in 1...2 { #expect(try slow.reply(to: id)["value"] == Self.large) }
                #expect(try agent.call("agent.stats")["connections"]?["stalled"] == 0)
            }
        }

        @Test(
            "while a client does not read replies, the agent does not read more of its requests, so they use no memory",
            arguments: ["config.get", "agent.info"])
        func backPressure(method: String) throws {
            try AgentHome.with { home in
                let agent = try home.start()
                try agent.call("config.set", ["path": "large", "value": Self.large])
                let (client, observer) = try (agent.connect(), agent.connect())
                try client.call(method)
                let before = try agent.anonymousBytes()
                let bytes = Array((LineClient.text(id: 7, method) + "\n").utf8)
                // Sends until the agent has queued replies and stopped reading, so that the socket stays full.
                var (sent, isFull, waiting) = (0, 0, 0)
                let deadline = Deadline.usual
                while isFull < 20 {
                    let count = try client.sendWithoutBlocking(bytes[(sent % bytes.count)...])
                    sent += count
                    if count > 0 { continue }
                    let clients = try observer.call("agent.clients")["clients"] ?? .null
                    waiting = clients.elements.compactMap { $0["pendingBytes"]?.int }.max() ?? 0
                    isFull = waiting > 0 ? isFull + 1 : 0
                    if deadline.hasPassed { throw HarnessError.timeout("queued replies") }
                }
                #expect(sent > 10 * bytes.count)
                let after = try agent.anonymousBytes()
                #expect(
                    after < before + 32_000_000,
                    "memory grew from \(before) to \(after) bytes after \(sent) bytes of requests")
                #expect(waiting < 2_000_000)
                client.close()
                #expect(try observer.call("agent.ping") == ["pong": true])
            }
        }

        @Test("a subscriber that resumes reading gets the newest snapshot and the number of skipped snapshots")
        func resumedReading() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                let writer = try agent.connect()
                try writer.call("config.set", ["path": "large", "value": Self.large])
                let subscribers = try ["snapshot", "patch"].map { mode in
                    let client = try agent.connect()
                    _ = try client.request("config.subscribe", ["mode": .string(mode)])
                    return client
                }
                // The subscribers do not read even the reply, because a read could also return the event that the agent
                // is writing.
                try writer.call(
                    "agent.clients",
                    until: { $0["clients"]?.elements.count { ($0["pendingBytes"]?.int ?? 0) > 0 } == 2 })
                for value in 1...30 { try writer.call("config.set", ["path": "n", "value": .int(value)]) }
                for client in subscribers {
                    let first = try client.event()
                    #expect(first["sequence"] == 1)
                    var (sequence, revision) = (1, try require(first["revision"]?.int, "revision"))
                    var value = first["value"]?["n"]?.int ?? 0
                    while value < 30 {
                        let event = try client.event()
                        sequence += 1
                        #expect(event["sequence"]?.int == sequence)
                        let next = try require(event["revision"]?.int, "revision")
                        #expect(next == revision + 1 + (event["skipped"]?.int ?? 0))
                        if event["kind"] == "patch" { #expect(event["from"]?.int == revision) }
                        revision = next
                        value = (event["patch"] ?? event["value"])?["n"]?.int ?? 0
                    }
                    #expect(sequence < 30, "missed snapshots were sent")
                    #expect(client.takeBufferedEvents().isEmpty)
                }
            }
        }

        @Test("when the reply to a batch reaches the maximum size, the remaining requests of the batch fail")
        func largeBatch() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let writer = try agent.connect()
                for part in 0..<8 {
                    try writer.call("config.set", ["path": .string("part\(part)"), "value": Self.large])
                }
                let (client, before) = try (agent.connect(), agent.anonymousBytes())
                let requests = (1...60).map { LineClient.text(id: $0, "config.get") }
                let tail = [
                    LineClient.text(id: nil, "config.set", ["path": "n", "value": 1]),
                    LineClient.text(id: 61, "config.set", ["path": "m", "value": 1]),
                    LineClient.text(id: 62, "agent.clients"),
                    LineClient.text(id: 63, "agent.ping"),
                ]
                try client.send("[" + (requests + tail).joined(separator: ",") + "]")
                try writer.call(
                    "agent.clients",
                    until: { clients in
                        clients["clients"]?.elements.contains { ($0["pendingBytes"]?.int ?? 0) > 0 } ?? false
                    })
                let after = try agent.anonymousBytes()
                #expect(after < before + 150_000_000, "memory grew from \(before) to \(after) bytes")
                #expect(
                    try writer.call("config.get", ["n"])["value"] == 1, "a notification of the batch was not executed")

                let reply = try client.message()
                #expect(reply.elements.map { $0["id"]?.int } == Array(1...63))
                let errors = reply.elements.map { $0["error"]?["data"]?["name"]?.string }
                // Three documents of 7.2 MB exceed the maximum size of 16 MiB, so the requests after them fail.
                #expect(errors == [nil, nil, nil] + Array(repeating: "limitExceeded", count: 60))
                #expect(reply[59]?["error"]?["data"]?["detail"]?.string?.contains("batch") == true)
                #expect(try writer.refusal("config.get", ["m"]).name == "notFound", "a rejected request was executed")

                // A change that starts before the limit is reached is made and acknowledged.
                let early = [
                    LineClient.text(id: 1, "agent.clients"),
                    LineClient.text(id: 2, "config.set", ["path": "m", "value": 1]),
                ]
                try client.send("[" + (early + requests[2..<5]).joined(separator: ",") + "]")
                let replies = try client.message().elements
                #expect(replies.map { $0["id"]?.int } == Array(1...5))
                let refusals = replies.map { $0["error"]?["data"]?["name"]?.string }
                // The reply to agent.clients is asynchronous. If the documents reach the maximum size first,
                // agent.clients gets an error instead of a result.
                #expect([nil, "limitExceeded"].contains(refusals[0]))
                #expect(refusals.dropFirst() == [nil, nil, nil, nil])
                #expect(try client.call("agent.ping") == ["pong": true])
            }
        }

        @Test("subscribers that do not read share one copy of the queued event")
        func sharedBody() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                try agent.call("config.set", ["path": "large", "value": Self.large])
                func subscribe(_ count: Int) throws -> [LineClient] {
                    try (0..<count).map { _ in
                        let client = try agent.connect()
                        try client.call("config.subscribe", ["large"])
                        return client
                    }
                }
                let first = try subscribe(2)
                let before = try agent.anonymousBytes()
                let others = try subscribe(60)
                let after = try agent.anonymousBytes()
                #expect(after < before + 15_000_000, "memory grew from \(before) to \(after) bytes")
                for client in first + others {
                    let event = try client.event()
                    #expect(event["value"] == Self.large)
                    #expect(event["sequence"] == 1)
                }
            }
        }

        @Test(
            "`skipped` of a delayed first event is counted from the revision in the reply to the subscription")
        func lateFirstEvent() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                let writer = try agent.connect()
                try writer.call("config.set", ["path": "large", "value": Self.large])
                let client = try agent.connect()
                let requests = [
                    LineClient.text(id: 1, "config.get"), LineClient.text(id: 2, "config.subscribe", ["n"]),
                ]
                try client.send("[" + requests.joined(separator: ",") + "]")
                try writer.call("agent.stats", until: { $0["subscriptions"]?["open"] == 1 })
                for value in 1...5 { try writer.call("config.set", ["path": "n", "value": .int(value)]) }
                let announced = try require(try client.message()[1]?["result"]?["revision"]?.int, "revision")
                let event = try client.event()
                #expect(event["sequence"] == 1)
                #expect(event["revision"]?.int == announced + 5)
                #expect(event["value"] == 5)
                #expect(event["skipped"] == 5, "the snapshot of the reply was not counted")
            }
        }
    }
}
