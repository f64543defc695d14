import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Requests that wait for an unresponsive source")
    struct CancellationTests {
        /// Runs `body` with an agent that has a document and whose source no longer responds.
        private func withHangingSource(_ body: (AgentProcess, RawOrigin) throws -> Void) throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"1","n":1}"#, etag: "a"))
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: { remote: { http: { url: "\(origin.documentURL)", intervalSeconds: 86400, \
                timeoutSeconds: 600 } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                // The agent requests the document at its start. No other poll is due during the test.
                try origin.request()
                #expect(try agent.call("config.refresh")["upstreamVersion"] == "1")
                origin.answer(.hang)
                origin.discardEvents()
                try body(agent, origin)
                origin.answer(.notModified())
            }
        }

        /// The number of requests to the source of the default namespace.
        private func attempts(_ agent: AgentProcess) throws -> Int {
            let refreshes = try agent.call("agent.stats")["namespaces"]?["default"]?["refreshes"]
            return try require(refreshes?["attempted"]?.int, "number of refreshes")
        }

        @Test("request.cancel cancels a refresh and closes the agent's connection to the source")
        func cancel() throws {
            try withHangingSource { agent, origin in
                let client = try agent.connect()
                let refresh = try client.request("config.refresh")
                try origin.request()
                #expect(try client.call("config.get", ["n"])["state"] == "refreshing")
                #expect(try client.call("request.cancel", ["id": .int(refresh)]) == ["cancelled": true])
                let refusal = #expect(throws: LineClient.Refusal.self) { try client.reply(to: refresh) }
                #expect(refusal?.name == "cancelled")
                try origin.disconnection()
                let value = try client.call("config.get", ["n"])
                #expect(value["value"] == 1)
                #expect(value["state"] == "fresh")
            }
        }

        @Test("a refresh is cancelled when its client disconnects")
        func clientDisconnects() throws {
            try withHangingSource { agent, origin in
                let client = try agent.connect()
                _ = try client.request("config.refresh")
                try origin.request()
                client.close()
                try origin.disconnection()
                #expect(try agent.call("config.get", ["n"])["value"] == 1)
            }
        }

        @Test("a refresh continues after its client half-closes the connection")
        func clientHalfCloses() throws {
            try withHangingSource { agent, origin in
                let client = try agent.connect()
                let refresh = try client.request("config.refresh")
                client.halfClose()
                try origin.request()
                #expect(try agent.call("agent.ping") == ["pong": true])
                origin.answer(.document(#"{"version":"2","n":2}"#, etag: "b"))
                #expect(try client.reply(to: refresh)["upstreamVersion"] == "2")
                #expect(try client.readUntilClosed().isEmpty)
            }
        }

        @Test(
            "concurrent refreshes share one request to the source, and cancelling one does not affect the other refreshes"
        )
        func shared() throws {
            try withHangingSource { agent, origin in
                let before = try attempts(agent)
                let clients = try (0..<5).map { _ in try agent.connect() }
                let first = try clients[0].request("config.refresh")
                let fields = try origin.request()
                #expect(fields["if-none-match"] == "\"a\"")
                let others = try clients.dropFirst().map { try $0.request("config.refresh") }
                // The replies show that the agent has read the refresh requests.
                for client in clients { try client.call("agent.ping") }
                try clients[0].call("request.cancel", ["id": .int(first)])
                #expect(throws: LineClient.Refusal.self) { try clients[0].reply(to: first) }
                clients[1].close()
                origin.answer(.document(#"{"version":"2","n":2}"#, etag: "b"))
                for (client, id) in zip(clients.dropFirst(2), others.dropFirst()) {
                    #expect(try client.reply(to: id)["upstreamVersion"] == "2")
                }
                #expect(try attempts(agent) == before + 1, "the refreshes did not share one request")
            }
        }

        @Test("a push waits for a pending refresh, then replaces the refreshed document; a set does not wait")
        func pushAfterRefresh() throws {
            try withHangingSource { agent, origin in
                let (refresher, pusher) = try (agent.connect(), agent.connect())
                let refresh = try refresher.request("config.refresh")
                try origin.request()
                let push = try pusher.request("config.push", ["document": ["version": "9", "n": 9], "version": "9"])
                try pusher.call("config.set", ["path": "local", "value": true])
                #expect(try pusher.call("config.get", ["n"])["value"] == 1)
                origin.answer(.document(#"{"version":"2","n":2}"#, etag: "b"))
                let first = try refresher.reply(to: refresh)["revision"]?.int ?? 0
                let second = try pusher.reply(to: push)["revision"]?.int ?? 0
                #expect(first < second)
                #expect(try pusher.call("config.get")["value"] == ["version": "9", "n": 9, "local": true])
            }
        }

        @Test("the agent stops while its source hangs, and waiting clients get an error")
        func stop() throws {
            try withHangingSource { agent, origin in
                let (client, halfClosed) = try (agent.connect(), agent.connect())
                for client in [client, halfClosed] { _ = try client.request("config.refresh") }
                halfClosed.halfClose()
                try origin.request()
                try client.call("agent.ping")
                agent.terminate()
                for client in [client, halfClosed] {
                    let replies = try client.readUntilClosed()
                    let names = replies.compactMap { $0["error"]?["data"]?["name"]?.string }
                    #expect(names.count == 1 && ["cancelled", "shuttingDown"].contains(names[0]), "\(replies)")
                }
                #expect(try agent.process.waitForEnd() == .exit(0), "\(agent.log)")
            }
        }
    }
}
