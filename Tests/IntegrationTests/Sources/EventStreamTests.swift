import LarderJSON
import TestSupport
import Testing

/// An invalid event stream, and the error that the agent must report.
private struct BadStream: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let answer: RawOrigin.Answer
    let error: String
    let message: String

    static let all = [
        BadStream(
            testDescription: "an error status", answer: .status("503 Busy", ""), error: "upstreamFailed", message: "503"
        ),
        BadStream(
            testDescription: "an HTML page", answer: .status("200 OK", "<html>", fields: ["Content-Type: text/html"]),
            error: "upstreamFailed", message: "\"text/html\""),
        BadStream(
            testDescription: "an event that is not JSON", answer: .stream(event("{")), error: "rejected",
            message: "not JSON"),
        BadStream(
            testDescription: "an event with an array", answer: .stream(event("[]")), error: "rejected",
            message: "array"),
        BadStream(
            testDescription: "an empty event", answer: .stream("data:\n\n"), error: "rejected", message: "comment"),
        BadStream(
            testDescription: "a patch before any whole document", answer: .stream(event("{}", type: "patch")),
            error: "rejected", message: "before any whole document"),
        BadStream(
            testDescription: "an event over the limit",
            answer: .stream(event("{\"v\":\"" + String(repeating: "x", count: 5000) + "\"}")), error: "rejected",
            message: "4096"),
        BadStream(
            testDescription: "a line that never ends", answer: .stream(String(repeating: "data", count: 2000)),
            error: "rejected", message: "4096"),
        BadStream(
            testDescription: "an older version", answer: .stream(event(#"{"version":"4"}"#)), error: "rejected",
            message: "older"),
        BadStream(
            testDescription: "half an event, then the end of the stream",
            answer: .text("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {", thenClose: true),
            error: "upstreamFailed", message: "ended its stream"),
        BadStream(
            testDescription: "half a chunk, then the end of the connection",
            answer: .text(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n40\r\ndata: {",
                thenClose: true),
            error: "upstreamFailed", message: "closed the connection"),
        BadStream(
            testDescription: "no document",
            answer: .stream(event("{}", type: "config")), error: "upstreamFailed",
            message: "events of type \"config\""),
        BadStream(testDescription: "silence", answer: .stream(), error: "upstreamFailed", message: "sent no"),
        BadStream(
            testDescription: "the status for no reconnection", answer: .text("HTTP/1.1 204 No Content\r\n\r\n"),
            error: "upstreamFailed", message: "204"),
    ]
}

extension Integration {
    @Suite("Event streams as a source")
    struct EventStreamTests {
        private static func settings(_ origin: RawOrigin, _ more: String = "") -> String {
            """
            { limits: { documentBytes: 4096 }, namespaces: { default: { remote: { sse: { url: "\(origin.streamURL)", \
            intervalSeconds: 86400, \(more) } } } } }
            """
        }

        @Test("whole documents and patches are published as they arrive")
        func events() throws {
            let origin = try RawOrigin.listening(.stream(": hello\n\n" + event("{\"v\":\n1,\"a\":{\"b\":1}}", id: "1")))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe")
                try client.events(until: ["v": 1, "a": ["b": 1]])
                let request = try origin.request()
                #expect(request["accept"] == "text/event-stream")
                #expect(request["last-event-id"] == nil)
                origin.send(event(#"{"v":2,"a":{"b":null,"c":2}}"#, type: "patch", id: "2"))
                try client.events(until: ["v": 2, "a": ["c": 2]])
                origin.send(event("ignored", type: "news"))
                // An event that arrives in two pieces.
                origin.send("data: {\"v\":")
                origin.send("3}\r\n\r\n")
                try client.events(until: ["v": 3])
                let status = try client.status { $0["state"] == "fresh" }
                #expect(status["upstream"]?["kind"] == "sse")
                #expect(status["upstream"]?["location"]?.string == origin.streamURL)
                #expect(status["lastError"]?.isNull == true)
            }
        }

        @Test("a stream that is down when the agent starts is connected once the stream is up")
        func downAtStart() throws {
            let origin = try RawOrigin(.stream(event(#"{"v":1}"#)))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                #expect(try client.refusal("config.get", ["v"]).name == "unavailable")
                try agent.waitForLog("no valid document from the source; it has not delivered")
                // Waits, because the state is `refreshing` during another attempt to connect.
                try client.status { $0["state"] == "failed" }
                origin.listen()
                try client.events(until: 1)
                try client.status { $0["state"] == "fresh" }
            }
        }

        @Test("after a stream ends within an event, the last good snapshot is served until the next one arrives")
        func endWithinEvent() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#, id: "first")))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                try client.status { $0["state"] == "fresh" }
                origin.discardEvents()
                // While the stream is down, the origin closes connections without a response.
                origin.answer(.text("", thenClose: true))
                origin.send("id: second\ndata: {\"v\"")
                origin.disconnect()
                try client.status { $0["state"] == "stale" }
                #expect(try client.call("config.get", ["v"])["value"] == 1)
                #expect(try origin.request()["last-event-id"] == "first", "the ID of an incomplete event was used")

                origin.answer(.stream(event(#"{"v":2}"#, type: "patch", id: "second")))
                try client.events(until: 2)
                try client.status { $0["state"] == "fresh" }
                #expect(try client.call("config.get", ["v"])["value"] == 2)
            }
        }

        @Test("when a stream resumes after the last event, the namespace is fresh as soon as the stream is connected")
        func resumption() throws {
            let origin = try RawOrigin.listening(.stream("retry: 1\n" + event(#"{"v":1}"#, id: "1")))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.status { $0["state"] == "fresh" }
                origin.discardEvents()
                origin.answer(.hang)
                // The end of the stream counts as a failure, because the last event is incomplete.
                origin.send("data: {")
                origin.disconnect()
                try client.status { $0["state"] == "stale" }
                #expect(try origin.request()["last-event-id"] == "1")
                origin.answer(.stream(": nothing is new\n\n"))
                try client.status { $0["state"] == "fresh" }
                origin.send(event(#"{"w":2}"#, type: "patch", id: "2"))
                try client.call("config.get") { $0["value"] == ["v": 1, "w": 2] }
            }
        }

        @Test("the agent reconnects a stream that ends between two events, and does not report a failure")
        func cleanEnds() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                for number in 2...4 {
                    try client.status { $0["state"] == "fresh" }
                    origin.answer(.stream(event(#"{"v":\#(number)}"#)))
                    origin.disconnect()
                    try client.events(until: .int(number))
                }
                #expect(!agent.log.contains("no valid document"), "\(agent.log)")
                #expect(try agent.status()["upstream"]?["consecutiveFailures"] == 0)
            }
        }

        @Test("the agent replaces the connection of a stream that sends nothing for heartbeatSeconds")
        func heartbeat() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin, "heartbeatSeconds: 0.5")) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                origin.answer(.stream(event(#"{"v":2}"#)))
                try origin.disconnection()
                #expect(try client.call("config.get", ["v"])["value"] != .null)
                try client.events(until: 2)
                #expect(agent.log.contains("sent nothing for 0.5 seconds"))
            }
        }

        @Test(
            "an invalid stream is reported in config.status, and the last good snapshot stays", arguments: BadStream.all
        )
        fileprivate func badStream(_ bad: BadStream) throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"version":"5","v":5}"#, id: "5")))
            defer { origin.stop() }
            // The timeout is short only in the cases in which it must expire. Even then, a busy machine gets the other
            // responses within the timeout.
            let isSilent = ["no document", "silence"].contains(bad.testDescription)
            let settings = Self.settings(origin, isSilent ? "timeoutSeconds: 2" : "timeoutSeconds: 60")
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 5)
                origin.answer(bad.answer)
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == bad.error, "\(refusal)")
                #expect(refusal.detail.contains(bad.message), "\(refusal)")
                #expect(refusal.detail.contains("127.0.0.1:\(origin.port)") || bad.message == "older", "\(refusal)")
                let status = try client.status { $0["state"] == "stale" }
                #expect(status["lastError"]?["name"]?.string == bad.error)
                #expect(try client.call("config.get", ["v"])["value"] == 5)

                // The next valid event is published.
                origin.answer(.stream(event(#"{"version":"6","v":6}"#, id: "6")))
                if bad.message == "204" {
                    #expect(try client.call("config.refresh")["upstreamVersion"] == "6")
                } else {
                    // An older version does not end the connection, so the next event arrives over the same connection.
                    if bad.message == "older" { origin.send(event(#"{"version":"6","v":6}"#)) }
                    try client.events(until: 6)
                }
                try client.status { $0["state"] == "fresh" && $0["rejected"]?.isNull == true }
            }
        }

        @Test("a refresh gets the whole document over a new connection; a forced one accepts an older version")
        func refresh() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"version":"5"}"#, id: "5")))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let client = try home.start().connect()
                #expect(try client.call("config.refresh")["upstreamVersion"] == "5")
                origin.discardEvents()
                origin.answer(.stream(event(#"{"version":"6"}"#, id: "6")))
                #expect(try client.call("config.refresh")["upstreamVersion"] == "6")
                #expect(try origin.request()["last-event-id"] == nil)
                origin.answer(.stream(event(#"{"version":"4"}"#, id: "4")))
                #expect(try client.refusal("config.refresh").name == "rejected")
                #expect(try client.call("config.refresh", ["force": true])["upstreamVersion"] == "4")
                let push = try client.call("config.push", ["document": ["version": "7"], "version": "7"])
                #expect(push["changed"] == true)
            }
        }

        @Test("a refresh that is cancelled while it connects leaves no error, and the stream uses the new connection")
        func cancellation() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin, "timeoutSeconds: 600")) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                origin.discardEvents()
                origin.answer(.hang)
                let refresh = try client.request("config.refresh")
                try origin.request()
                try client.call("request.cancel", ["id": .int(refresh)])
                #expect(throws: LineClient.Refusal.self) { try client.reply(to: refresh) }
                let status = try client.status { $0["state"] != "refreshing" }
                #expect(status["lastError"]?.isNull == true)
                // The connection is established despite the cancellation.
                origin.answer(.stream(event(#"{"v":2}"#)))
                try client.events(until: 2)
            }
        }

        @Test("with a poll URL, the whole document is requested from that URL, at the start and after each reconnect")
        func poll() throws {
            let origin = try RawOrigin.listening(.stream())
            defer { origin.stop() }
            origin.answer(.document(#"{"v":1}"#, etag: "1").closing, to: "/config.json")
            try AgentHome.with(settings: Self.settings(origin, "pollUrl: \"\(origin.documentURL)\"")) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                try origin.request(for: "/events")
                try client.status { $0["state"] == "fresh" }
                // A patch is applied to the document from the poll URL.
                origin.send(event(#"{"v":2}"#, type: "patch"))
                try client.events(until: 2)

                origin.answer(.document(#"{"v":3}"#, etag: "3").closing, to: "/config.json")
                #expect(try client.call("config.refresh")["changed"] == true)
                try client.events(until: 3)
                origin.answer(.document(#"{"v":4}"#, etag: "4").closing, to: "/config.json")
                origin.disconnect()
                try client.events(until: 4)
                try client.status { $0["state"] == "fresh" }

                // If the stream fails permanently, the poll URL still delivers new documents.
                origin.answer(.status("500 Gone mad", "").closing, to: "/events")
                origin.disconnect()
                try client.status { $0["state"] == "stale" }
                origin.answer(.document(#"{"v":5}"#, etag: "5").closing, to: "/config.json")
                #expect(try client.call("config.refresh")["changed"] == true)
                try client.events(until: 5)
            }
        }

        @Test("with a poll URL, the stream does not resume, so no older event replaces a polled document")
        func noReplayAfterPoll() throws {
            let origin = try RawOrigin.listening(.stream())
            defer { origin.stop() }
            origin.answer(.document(#"{"v":1}"#).closing, to: "/config.json")
            try AgentHome.with(settings: Self.settings(origin, "pollUrl: \"\(origin.documentURL)\"")) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                try origin.request(for: "/events")
                origin.send(event(#"{"v":2}"#, type: "patch", id: "2"))
                try client.events(until: 2)
                origin.discardEvents()
                origin.answer(.document(#"{"v":5}"#).closing, to: "/config.json")
                origin.disconnect()
                #expect(try origin.request(for: "/events")["last-event-id"] == nil, "the stream was resumed")
                #expect(try client.event()["value"] == 5)
                try client.status { $0["state"] == "fresh" }

                origin.discardEvents()
                origin.answer(.document(#"{"v":8}"#).closing, to: "/config.json")
                #expect(try client.call("config.refresh")["changed"] == true)
                #expect(try client.event()["value"] == 8)
                #expect(try origin.request(for: "/events")["last-event-id"] == nil)
                origin.send(event(#"{"v":9}"#, type: "patch", id: "9"))
                #expect(try client.event()["value"] == 9)
            }
        }

        @Test("after a restart, the stored document is served while the stream is down")
        func downAtRestart() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let first = try home.start()
                let refresh = try first.call("config.refresh")
                #expect(try first.stop() == .exit(0))
                origin.stop()
                let value = try home.start().call("config.get", ["v"])
                #expect(value["value"] == 1)
                #expect(value["revision"] == refresh["revision"])
            }
        }

        @Test("a refresh connects immediately, even if a stored document delays the first connection")
        func refreshAtStart() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let first = try home.start()
                try first.call("config.refresh")
                #expect(try first.stop() == .exit(0))
                origin.answer(.stream(event(#"{"v":2}"#)))
                let second = try home.start()
                #expect(try second.call("config.refresh")["changed"] == true)
                #expect(try second.call("config.get", ["v"])["value"] == 2)
            }
        }

        @Test("a reload with another URL closes the connection to the old URL and connects to the new one")
        func reload() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            let other = try RawOrigin.listening(.stream(event(#"{"v":2}"#)))
            defer { origin.stop() }
            defer { other.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                try home.write(settings: Self.settings(other))
                try agent.reload()
                try client.events(until: 2)
                try origin.disconnection()
            }
        }
    }
}
