import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("How old a value may be")
    struct ConfigAgeTests {
        private func withOrigin(
            _ body: (AgentHome, AgentProcess, RawOrigin) throws -> Void
        ) throws {
            let origin = try RawOrigin.listening(.document(#"{"n":1}"#, etag: "a"))
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: { remote: { http: { url: "\(origin.documentURL)", intervalSeconds: 86400, \
                timeoutSeconds: 600 } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                try agent.ask("config.refresh")
                origin.forgetEvents()
                try body(home, agent, origin)
                origin.answer(.notModified())
            }
        }

        @Test("many who want a young value share one request, and those who do not care are answered meanwhile")
        func shared() throws {
            let origin = try RawOrigin.listening(.hang)
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: { remote: { http: { url: "\(origin.documentURL)", intervalSeconds: 86400, \
                timeoutSeconds: 600 } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                let clients = try (0..<30).map { _ in try agent.connect() }
                try clients[0].call("config.set", ["path": "n", "value": 0])
                // The agent has asked by itself, and that is young enough for all.
                try origin.request()
                let requests = try clients.map {
                    try $0.request("config.get", ["path": "n", "maximumAgeSeconds": 86400])
                }
                for client in clients { try client.call("agent.ping") }
                #expect(try clients[0].call("config.get", ["path": "n"])["value"] == 0)
                origin.answer(.document(#"{"r":1}"#))
                for (client, request) in zip(clients, requests) {
                    let result = try client.reply(to: request)
                    #expect(result["value"] == 0)
                    #expect(result["state"] == "fresh")
                }
                let refreshes = try agent.ask("agent.stats")["namespaces"]?["default"]?["refreshes"]
                #expect(refreshes?["attempted"] == 1)
            }
        }

        @Test("the same words are no reason to be given the same answer")
        func notRemembered() throws {
            try withOrigin { _, agent, origin in
                let client = try agent.connect()
                for number in 2...6 {
                    origin.answer(.document(#"{"n":\#(number)}"#, etag: "\(number)"))
                    #expect(
                        try client.call("config.get", ["path": "n", "maximumAgeSeconds": 0])["value"] == .int(number))
                }
            }
        }

        @Test("a copy from disk is as old as its document, and does where the source is down only if that is said")
        func afterRestart() throws {
            try withOrigin { home, agent, origin in
                #expect(try agent.stop() == .exit(0))
                origin.answer(.status("503 Service Unavailable", "no"))
                let next = try home.start()
                let client = try next.connect()
                let refusal = try client.refusal("config.get", ["path": "n", "maximumAgeSeconds": 0])
                #expect(refusal.name == "upstreamFailed")
                #expect(refusal.detail.contains("503"))
                let params: JSONValue = ["path": "n", "maximumAgeSeconds": 0, "staleIfErrorSeconds": 86400]
                #expect(try client.call("config.get", params)["value"] == 1)
                // It was written a moment ago, which is young enough for some.
                #expect(try client.call("config.get", ["path": "n", "maximumAgeSeconds": 86400])["value"] == 1)
            }
        }

        @Test("who waits for a young value can be cancelled, and its request ends with the last one")
        func cancel() throws {
            try withOrigin { _, agent, origin in
                origin.answer(.hang)
                let client = try agent.connect()
                let request = try client.request("config.get", ["path": "n", "maximumAgeSeconds": 0])
                try origin.request()
                #expect(try client.call("request.cancel", ["id": .int(request)]) == ["cancelled": true])
                let refusal = #expect(throws: LineClient.Refusal.self) { try client.reply(to: request) }
                #expect(refusal?.name == "cancelled")
                try origin.disconnection()
            }
        }
    }
}
