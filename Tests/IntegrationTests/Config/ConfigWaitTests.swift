import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("config.wait")
    struct ConfigWaitTests {
        /// Sends a `config.wait` request, and returns the id of the request once the agent has read the request.
        private func wait(_ client: LineClient, _ params: JSONValue) throws -> Int {
            let request = try client.request("config.wait", params)
            try client.call("agent.ping")
            return request
        }

        @Test("a wait ends when its condition holds, whatever kind of change causes this")
        func kinds() throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"1","r":1}"#))
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: { host: { directory: "@/host" }, remote: { http: { url: "\(origin.documentURL)", \
                intervalSeconds: 86400 } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                try home.makeDirectory("host")
                let agent = try home.start()
                let (client, writer) = try (agent.connect(), agent.connect())
                try writer.call("config.refresh")
                func check(_ path: String, _ value: JSONValue?, by change: () throws -> Void) throws {
                    let condition: (String, JSONValue) = value.map { ("equals", $0) } ?? ("exists", false)
                    let request = try wait(client, .object([("path", .string(path)), condition]))
                    try change()
                    let result = try client.reply(to: request)
                    #expect(result["value"] == value)
                    #expect(result["exists"] == .bool(value != nil))
                }
                try check("a", 1) { try writer.call("config.set", ["path": "a", "value": 1]) }
                try check("a", nil) { try writer.call("config.unset", ["path": "a"]) }
                try check("a", 2) { try writer.call("config.set", ["path": "a", "value": 2]) }
                try check("a", nil) {
                    try writer.call("config.set", ["path": "a", "value": 3, "ttlMilliseconds": 100])
                }
                try check("h", true) { try home.write("host/10.json", #"{"h":true}"#) }
                origin.answer(.document(#"{"version":"2","r":2}"#))
                try check("r", 2) { try writer.call("config.refresh") }
                let before = try writer.call("config.get")["revision"] ?? 0
                try check("r", 3) {
                    try writer.call("config.push", ["document": ["version": "3", "r": 3], "version": "3"])
                }
                try check("r", 2) { try writer.call("config.rollback", ["revision": before]) }
                try check("r", 3) { try writer.call("config.rollback", ["release": true]) }
            }
        }

        @Test("a wait ends when its client disconnects")
        func clientDisconnects() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let (client, other) = try (agent.connect(), agent.connect())
                for _ in 0..<10 { _ = try wait(client, ["path": "a", "exists": true]) }
                #expect(try other.call("agent.stats")["requests"]?["inFlight"] == 11)
                client.close()
                try other.call("agent.stats") { $0["requests"]?["inFlight"] == 1 }
                try other.call("config.set", ["path": "a", "value": 1])
                #expect(try other.call("agent.stats")["requests"]?["errors"] == 0)
            }
        }

        @Test("a wait in a namespace that is removed from the settings fails, and other waits continue")
        func namespaceRemoved() throws {
            try AgentHome.with(settings: "{ namespaces: { old: {} } }") { home in
                let agent = try home.start()
                let client = try agent.connect()
                let old = try wait(client, ["path": "a", "namespace": "old", "exists": true])
                let other = try wait(client, ["path": "a", "exists": true])
                try home.write(settings: "{}")
                try agent.reload()
                let refusal = #expect(throws: LineClient.Refusal.self) { try client.reply(to: old) }
                #expect(refusal?.name == "unknownNamespace")
                try client.call("config.set", ["path": "a", "value": 1])
                #expect(try client.reply(to: other)["value"] == 1)
            }
        }

        @Test("when the agent stops, each pending wait gets an error, even on a half-closed connection and in a batch")
        func stop() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let clients = try (0..<3).map { _ in try agent.connect() }
                for client in clients.prefix(2) { _ = try wait(client, ["path": "a", "exists": true]) }
                clients[1].halfClose()
                try clients[2].send(#"[{"id":"batched","method":"config.wait","params":{"path":"a","exists":true}}]"#)
                try clients[2].call("agent.ping")
                agent.terminate()
                for client in clients {
                    let last = try client.readUntilClosed().last
                    let reply = last?[0] ?? last
                    #expect(reply?["error"]?["data"]?["name"] == "shuttingDown")
                }
                #expect(try agent.process.waitForEnd() == .exit(0), "\(agent.log)")
            }
        }

        @Test("each of 1,000 waits returns the revision that it waits for, or a newer one")
        func many() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let clients = try (0..<20).map { _ in try agent.connect() }
                var requests: [(client: LineClient, id: Int, number: Int)] = []
                for number in 0..<1000 {
                    let client = clients[number % clients.count]
                    let params: JSONValue = ["path": "n", "revisionAtLeast": .int(number / 20 + 2)]
                    requests.append((client, try client.request("config.wait", params), number / 20 + 2))
                }
                for client in clients { _ = try client.request("agent.ping") }
                let writer = try agent.connect()
                for number in 1...60 { try writer.call("config.set", ["path": "n", "value": .int(number)]) }
                for request in requests {
                    let revision = try request.client.reply(to: request.id)["revision"]?.int ?? 0
                    #expect(revision >= request.number)
                }
            }
        }
    }
}
