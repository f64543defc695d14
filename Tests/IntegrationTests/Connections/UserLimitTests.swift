import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Limits of a user")
    struct UserLimitTests {
        /// The ID of an unprivileged user that has the rights `read` and `write`.
        private static let user = 65534

        private static func settings(_ limits: String) -> String {
            """
            { socket: { mode: '0666' }, access: { others: ["read", "write"] }, limits: { \(limits) } }
            """
        }

        @Test(
            "connections above connectionsPerUser are rejected, except those of root", .needsRoot)
        func connections() throws {
            try AgentHome.with(settings: Self.settings("connectionsPerUser: 2")) { home in
                let agent = try home.start()
                let clients = try (0..<2).map { _ in try OtherUser.connect(Self.user, to: agent, home) }
                for client in clients { try client.call("agent.ping") }
                let third = try OtherUser.connect(Self.user, to: agent, home)
                let refusal = try third.message()
                #expect(refusal["id"]?.isNull == true)
                #expect(refusal["error"]?["data"]?["name"] == "limitExceeded")
                let detail = refusal["error"]?["data"]?["detail"]?.string ?? ""
                #expect(detail.contains("user 65534 has 2 connections"), "\(detail)")
                #expect(detail.contains("limits.connectionsPerUser"), "\(detail)")
                let another = try OtherUser.connect(65533, to: agent, home)
                #expect(try another.call("agent.ping") == ["pong": true])
                let own = try (0..<3).map { _ in try agent.connect() }
                for client in own { #expect(try client.call("agent.ping") == ["pong": true]) }
                let stats = try own[0].call("agent.stats")
                #expect(stats["refused"]?["connectionsPerUser"] == 1)
                #expect(stats["refused"]?["connections"] == 0)
                #expect(stats["connections"]?["refused"] == 1)
                let line = try agent.waitForLog("a client was refused")
                #expect(line.contains("peer_uid=65534") && line.contains("limit=connectionsPerUser"), "\(line)")
                clients[0].close()
                try own[0].call("agent.stats", until: { $0["connections"]?["open"] == 5 })
                let next = try OtherUser.connect(Self.user, to: agent, home)
                #expect(try next.call("agent.ping") == ["pong": true])
            }
        }

        @Test(
            "subscriptions and requests in flight are counted over all connections of a user", .needsRoot)
        func together() throws {
            let limits = "subscriptionsPerUser: 3, requestsInFlightPerUser: 2"
            try AgentHome.with(settings: Self.settings(limits)) { home in
                let agent = try home.start()
                let clients = try (0..<2).map { _ in try OtherUser.connect(Self.user, to: agent, home) }
                try clients[0].call("config.subscribe", ["a"])
                try clients[0].call("config.subscribe", ["b"])
                try clients[1].call("config.subscribe", ["a"])
                let refusal = try clients[1].refusal("config.subscribe", ["b"])
                #expect(refusal.name == "limitExceeded")
                #expect(refusal.detail.contains("limits.subscriptionsPerUser"), "\(refusal)")
                try clients[0].call("config.unsubscribe", ["subscription": 2])
                try clients[1].call("config.subscribe", ["b"])

                let forever: JSONValue = ["path": "never", "exists": true]
                let waits = try clients.map { try $0.request("config.wait", forever) }
                let own = try agent.connect()
                // The agent.stats request itself is also in flight.
                try own.call("agent.stats", until: { $0["requests"]?["inFlight"] == 3 })
                let full = try clients[0].refusal("config.set", ["path": "x", "value": 1])
                #expect(full.name == "limitExceeded")
                #expect(full.detail.contains("limits.requestsInFlightPerUser"), "\(full)")
                #expect(try clients[1].call("config.get")["value"] == [:], "a request that does not wait was rejected")
                try own.call("config.set", ["path": "y", "value": 1])
                #expect(try own.refusal("config.get", ["x"]).name == "notFound", "a rejected request was executed")
                #expect(try clients[1].call("request.cancel", ["id": .int(waits[1])])["cancelled"] == true)
                #expect(throws: (any Error).self) { try clients[1].reply(to: waits[1]) }
                try clients[0].call("config.set", ["path": "x", "value": 1])
                clients[0].close()
                try own.call("agent.stats", until: { $0["requests"]?["inFlight"] == 1 })
                for path in ["p", "q"] { try clients[1].call("config.set", ["path": .string(path), "value": 1]) }
                let refused = try own.call("agent.stats")["refused"] ?? .null
                #expect(refused["subscriptions"] == 1)
                #expect(refused["requests"] == 1)
            }
        }

        @Test("leases are counted over all connections of a user until they end", .needsRoot)
        func leases() throws {
            let settings = """
                {
                  socket: { mode: '0666' }, access: { others: ["images"] }, limits: { leasesPerUser: 2 },
                  images: { minimumFreeBytes: 0 },
                }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                let own = try agent.connect()
                func image(_ number: Int) -> JSONValue { .string("http://image.example/\(number).png") }
                for number in 0..<3 {
                    let data = Data(TestImage(seed: number, size: 1000).bytes).base64EncodedString()
                    try own.call("image.put", ["url": image(number), "data": .string(data)])
                }
                func parameters(_ number: Int) -> JSONValue { ["url": image(number), "policy": "cacheOnly"] }
                let clients = try (0..<2).map { _ in try OtherUser.connect(Self.user, to: agent, home) }
                for (number, client) in clients.enumerated() { try client.call("image.get", parameters(number)) }
                let refusal = try clients[0].refusal("image.get", parameters(2))
                #expect(refusal.name == "limitExceeded")
                #expect(refusal.detail.contains("limits.leasesPerUser"), "\(refusal)")
                // The connection has a lease on this image, so it needs no further one.
                #expect(try clients[0].call("image.get", parameters(0))["lease"] == 1)
                for number in 0..<3 { try own.call("image.get", parameters(number)) }
                #expect(try own.call("agent.info")["limits"]?["leasesPerUser"] == 2)
                #expect(try own.call("agent.stats")["refused"]?["requests"] == 1)
                _ = try agent.waitForLog("limit=leasesPerUser")
                clients[1].close()
                try own.call("agent.stats", until: { $0["connections"]?["open"] == 2 })
                try clients[0].call("image.get", parameters(2))
            }
        }

        @Test(
            "if a user exceeds queuedBytesPerUser, large replies fail, and clients that do not read are disconnected")
        func queuedBytes() throws {
            try AgentHome.with(settings: "{ limits: { queuedBytesPerUser: 1048576, sendTimeoutSeconds: 600 } }") {
                home in
                let agent = try home.start()
                let client = try agent.connect()
                let large = JSONValue.string(String(repeating: "x", count: 900_000))
                try client.call("config.set", ["path": "large", "value": large])
                try client.call("config.set", ["path": "small", "value": 1])
                var nonReaders: [LineClient] = []
                var refusal: String?
                // On a slow machine the agent may disconnect some of the clients that do not read before the limit is
                // reached.
                while refusal == nil {
                    nonReaders.append(try agent.connect())
                    _ = try nonReaders.last?.request("config.get", ["large"])
                    #expect(try client.call("config.get", ["small"])["value"] == 1)
                    let id = try client.request("config.get", ["large"])
                    let reply = try client.message()
                    #expect(reply["id"]?.int == id)
                    refusal = reply["error"]?["data"]?["detail"]?.string
                    if refusal == nil { #expect(reply["result"]?["value"] == large) }
                }
                #expect(refusal?.contains("limits.queuedBytesPerUser") == true, "\(refusal ?? "")")
                try client.call(
                    "agent.stats", until: { ($0["refused"]?["queuedConnections"]?.int ?? 0) > 0 })
                _ = try agent.waitForLog("its user exceeds limits.queuedBytesPerUser")
                let refused = try client.call("agent.stats")["refused"] ?? .null
                #expect((refused["queuedBytes"]?.int ?? 0) > 0)
                // Large replies are allowed again once the clients that do not read have disconnected.
                #expect(try client.call("agent.ping") == ["pong": true])
                for other in nonReaders { other.close() }
                try client.call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                #expect(try client.call("config.get", ["large"])["value"] == large)
            }
        }

        @Test(
            "replies that are not read, and those that are being made, take little more memory than queuedBytesPerUser",
            arguments: ["config.explain", "config.backup", "config.unset", "config.set"])
        func largeReplies(method: String) throws {
            let (limit, length) = (16 << 20, 4 << 20)
            let settings = """
                { limits: { queuedBytesPerUser: \(limit), lineBytes: 8388608, sendTimeoutSeconds: 600 } }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                // The validation of recorded messages expects the default of lineBytes.
                let client = try LineClient(path: home.socket, isRecorded: false)
                let large = JSONValue.string(String(repeating: "x", count: length))
                let revision = try client.call("config.set", ["path": "large", "value": large])["revision"]
                let parameters: [String: JSONValue] = [
                    "config.explain": [:], "config.backup": [:], "config.unset": ["path": "large", "dryRun": true],
                    "config.set": ["path": "large", "value": 1, "ifValue": 2],
                ]
                let before = try agent.anonymousBytes()
                let line = LineClient.text(id: 1, method, parameters[method] ?? [:])
                let nonReaders = try (0..<40).map { _ in try agent.connect() }
                for nonReader in nonReaders {
                    try nonReader.send(Array(repeating: line, count: 8).joined(separator: "\n"))
                }
                var most = 0
                // The request agent.stats itself is in flight, too. It is of the same user, and can be refused.
                try retrying {
                    try client.call(
                        "agent.stats",
                        until: { statistics in
                            most = max(most, (try? agent.anonymousBytes()) ?? 0)
                            return statistics["requests"]?["inFlight"] == 1
                                && (statistics["refused"]?["queuedBytes"]?.int ?? 0) > 0
                        })
                }
                // Without the reservations, the replies take more than a gigabyte. The limit is exceeded by memory that
                // the allocator has not reused, and by one reply. The largest reply contains the value twice, and is in
                // memory twice while it is queued.
                #expect(most - before < limit * 3 / 2 + 4 * length, "\(most - before)")
                for nonReader in nonReaders { nonReader.close() }
                try retrying { try client.call("agent.stats", until: { $0["connections"]?["open"] == 1 }) }
                // Requests of the closed connections can still have memory reserved, so this request can be refused,
                // too.
                let last = try retrying { try client.call("config.get", ["path": "large"])["revision"] }
                #expect(last == revision, "a refused request was executed")
            }
        }

        @Test(
            "concurrent lists of images each return a page, which is shorter if they exceed queuedBytesPerUser together"
        )
        func imageLists() throws {
            // Before it reads 64 images, a list reserves 2.4 MB. The first 128 of these images take 1.3 MB. The limit
            // has room for the first 64 images of each list whatever the other three lists have reserved, but not for
            // all images of four lists at once.
            let (count, lists) = (160, 4)
            let settings = "{ limits: { queuedBytesPerUser: 14000000 }, images: { minimumFreeBytes: 0 } }"
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                let own = try agent.connect()
                let data = JSONValue.string(Data(TestImage(seed: 1, size: 1000).bytes).base64EncodedString())
                let urls = (0..<count).map {
                    "http://image.example/\($0)/" + String(repeating: "x", count: 2000)
                }
                for url in urls { try own.call("image.put", ["url": .string(url), "data": data]) }
                let clients = try (0..<lists).map { _ in try agent.connect() }
                for client in clients { _ = try client.request("image.list", ["limit": 1000]) }
                let pages = try clients.map { try $0.message() }
                for (client, first) in zip(clients, pages) {
                    var (page, found) = (first["result"] ?? .null, Set<String>())
                    while true {
                        let listed = page["images"]?.elements.compactMap { $0["url"]?.string } ?? []
                        #expect(listed.count >= 64 || page["next"]?.isNull == true, "\(first["error"] ?? page)")
                        found.formUnion(listed)
                        guard let next = page["next"], !next.isNull else { break }
                        page = try client.call("image.list", ["limit": 1000, "after": next])
                    }
                    #expect(found == Set(urls))
                }
            }
        }

        private static let small = "{ limits: { queuedBytesPerUser: 1048576, sendTimeoutSeconds: 600 } }"

        @Test(
            "incomplete lines count towards queuedBytesPerUser; a line above it is rejected, and its connection stays open"
        )
        func unfinishedLines() throws {
            try AgentHome.with(settings: Self.small) { home in
                let agent = try home.start()
                let clients = try (0..<4).map { _ in try agent.connect() }
                let part = [UInt8](repeating: UInt8(ascii: "x"), count: 600_000)
                for client in clients { try client.send(bytes: part) }
                var refusals = 0
                for client in clients {
                    try client.send(bytes: [UInt8(ascii: "\n")])
                    let error = try client.message()["error"]?["data"] ?? .null
                    if error["detail"]?.string?.contains("limits.queuedBytesPerUser") == true {
                        refusals += 1
                    } else {
                        #expect(error["name"] == "parseError")
                    }
                    #expect(try client.call("agent.ping") == ["pong": true])
                }
                #expect(refusals > 0)
                #expect(try clients[0].call("agent.stats")["refused"]?["queuedBytes"]?.int == refusals)
            }
        }

        @Test("long requests count towards queuedBytesPerUser while they wait for a condition")
        func longRequests() throws {
            try AgentHome.with(settings: Self.small) { home in
                let agent = try home.start()
                let long = JSONValue.string(String(repeating: "x", count: 400_000))
                let wait: JSONValue = ["path": "never", "equals": long]
                var waiting: [LineClient] = []
                var refused: LineClient?
                while refused == nil, waiting.count < 4 {
                    let client = try agent.connect()
                    _ = try client.request("config.wait", wait)
                    let ping = try client.request("agent.ping")
                    let message = try client.message()
                    if message["id"]?.int == ping {
                        waiting.append(client)
                    } else {
                        let detail = message["error"]?["data"]?["detail"]?.string ?? ""
                        #expect(detail.contains("limits.queuedBytesPerUser"), "\(detail)")
                        try client.reply(to: ping)
                        refused = client
                    }
                }
                let client = try require(refused, "a rejected client")
                #expect(waiting.count == 2)
                for other in waiting { other.close() }
                try client.call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                _ = try client.request("config.wait", wait)
                #expect(try client.call("agent.ping") == ["pong": true])
            }
        }
    }
}
