import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Maximum age of values (maximumAgeSeconds)")
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
                // The agent requests the document at its start. No other poll is due during the test.
                try origin.request()
                try agent.call("config.refresh")
                origin.discardEvents()
                try body(home, agent, origin)
                origin.answer(.notModified())
            }
        }

        @Test("requests with maximumAgeSeconds share one refresh, and requests without it do not wait")
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
                // The agent requests the document at its start. The response to that request is recent enough for all
                // clients.
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
                let refreshes = try agent.call("agent.stats")["namespaces"]?["default"]?["refreshes"]
                #expect(refreshes?["attempted"] == 1)
            }
        }

        @Test("identical requests with maximumAgeSeconds are not answered from the reply cache")
        func uncachedReplies() throws {
            try withOrigin { _, agent, origin in
                let client = try agent.connect()
                for number in 2...6 {
                    origin.answer(.document(#"{"n":\#(number)}"#, etag: "\(number)"))
                    #expect(
                        try client.call("config.get", ["path": "n", "maximumAgeSeconds": 0])["value"] == .int(number))
                }
            }
        }

        @Test(
            "a restored document keeps its age; in an outage, one that is too old is returned only with staleIfErrorSeconds"
        )
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
                // The document is younger than a day.
                #expect(try client.call("config.get", ["path": "n", "maximumAgeSeconds": 86400])["value"] == 1)
            }
        }

        @Test("cancelling a request that waits for a recent value ends the request to the source")
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
