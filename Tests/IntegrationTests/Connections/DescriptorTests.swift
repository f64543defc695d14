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

        @Test("when the agent has run out of descriptors, other users are refused and root is served", .needsRoot)
        func roomForRoot() throws {
            try AgentHome.with(settings: "{ socket: { mode: '0666' }, access: { others: ['read'] } }") { home in
                let agent = try home.start()
                let observer = try agent.connect()
                try observer.call("agent.ping")
                let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(agent.pid)/fd").compactMap(
                    Int.init)
                let limit = try require(open.max(), "an open descriptor") + 1
                let lowered = try Command.run("prlimit", ["--pid", "\(agent.pid)", "--nofile=\(limit):\(limit)"])
                #expect(lowered.status == 0, "\(lowered.log)")
                // The descriptors below the limit that are not in use are used first.
                var clients: [LineClient] = []
                var isRefused = false
                while !isRefused, clients.count <= limit {
                    let client = try OtherUser.connect(65534, to: agent, home)
                    clients.append(client)
                    _ = try? client.request("agent.ping")
                    // The relay may end before it has passed on the refusal, because it cannot pass on the request.
                    let message = try? client.message()
                    isRefused = message?["result"] == nil
                }
                #expect(isRefused)
                try agent.waitForLog("the limit of open files is reached")
                for _ in 0..<3 {
                    let own = try agent.connect()
                    #expect(try own.call("agent.ping") == ["pong": true])
                    clients.append(own)
                }
            }
        }

        @Test("if clients do not receive their descriptors, others get an error instead of no reply", .needsRoot)
        func descriptorsInFlight() throws {
            try AgentHome.with(settings: "{ images: { enabled: false } }") { home in
                let agent = try home.start(as: 65_010, limit: "--nofile=128:128")
                let observer = try agent.connect()
                let revision = try observer.call("config.set", ["path": "n", "value": 1])["revision"]
                // Each connection may have four descriptors in flight, and the kernel permits about 128 in total.
                let silent = try (0..<40).map { _ in try agent.connect() }
                for client in silent { for _ in 0..<4 { _ = try client.request("config.open") } }
                try observer.call("agent.stats", until: { ($0["requests"]?["total"]?.int ?? 0) > 160 })
                #expect(try observer.refusal("config.open").name == "limitExceeded")
                for client in silent { client.close() }
                try observer.call("agent.stats", until: { $0["connections"]?["open"] == 1 })
                #expect(try observer.call("config.open")["revision"] == revision)
            }
        }

        @Test("a client does not keep a lease on an image whose descriptor could not be sent", .needsRoot)
        func leaseWithoutDescriptor() throws {
            let settings = """
                {
                  socket: { mode: '0666' }, access: { others: ["images"] }, limits: { leasesPerUser: 1 },
                  images: { minimumFreeBytes: 0 },
                }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start(as: 65_011, limit: "--nofile=256:256")
                let observer = try agent.connect()
                let data = Data(TestImage(seed: 1, size: 1000).bytes).base64EncodedString()
                let url: JSONValue = "http://image.example/a.png"
                try observer.call("image.put", ["url": url, "data": .string(data)])
                let silent = try (0..<80).map { _ in try agent.connect() }
                for client in silent { for _ in 0..<4 { _ = try client.request("config.open") } }
                try observer.call("agent.stats", until: { ($0["requests"]?["total"]?.int ?? 0) > 320 })
                let other = try OtherUser.connect(65_534, to: agent, home)
                for _ in 0..<3 {
                    let refusal = try other.refusal(
                        "image.get", ["url": url, "policy": "cacheOnly", "as": "descriptor"])
                    #expect(refusal.name == "limitExceeded")
                    #expect(refusal.detail.contains("in transit to clients that do not read"), "\(refusal)")
                }
                try other.call("image.get", ["url": url, "policy": "cacheOnly"])
            }
        }

        @Test("a reload that adds namespaces warns of fewer connections, and is refused if too few would remain")
        func namespaces() throws {
            func settings(_ count: Int) -> String {
                let namespaces = (0..<count).map { "n\($0): {}" }.joined(separator: ", ")
                return "{ images: { enabled: false }, limits: { connections: 100 }, namespaces: { \(namespaces) } }"
            }
            try AgentHome.with(settings: settings(1)) { home in
                let agent = try home.start(wrapper: ["prlimit", "--nofile=256:256", "--"])
                func connections() throws -> Int? { try agent.call("agent.info")["limits"]?["connections"]?.int }
                #expect(try connections() == 100)
                try home.write(settings: settings(60))
                try agent.reload()
                let lowered = try require(try connections(), "limit of connections")
                #expect((32..<100).contains(lowered))
                let line = try agent.waitForLog("allows fewer connections than limits.connections")
                #expect(line.contains("connections=\(lowered)"), "\(line)")
                try home.write(settings: settings(200))
                try agent.reload()
                #expect(try connections() == lowered)
                let refusal = try agent.waitForLog("the previous ones stay in effect")
                #expect(refusal.contains("open files") && refusal.contains("LimitNOFILE="), "\(refusal)")
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
