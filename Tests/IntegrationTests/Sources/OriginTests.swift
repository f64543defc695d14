import LarderJSON
import TestSupport
import Testing

/// A response that must not be applied, and the expected error.
struct BadAnswer: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let answer: RawOrigin.Answer
    /// The name of the expected error.
    let error: String
    /// A part of the expected message.
    let message: String
    /// Whether the document was rejected, which `config.status` shows as `refused`.
    var isRefused: Bool { error == "rejected" }
    /// The version of the rejected document; nil if it has none.
    var version: String?

    init(
        _ description: String, _ answer: RawOrigin.Answer, _ error: String, _ message: String = "",
        version: String? = nil
    ) {
        (testDescription, self.answer, self.error, self.message) = (description, answer, error, message)
        self.version = version
    }

    private static let tag = ["ETag: \"bad\""]

    static let all = [
        BadAnswer("500", .status("500 Internal Server Error", "{}", fields: tag), "upstreamFailed", "500"),
        BadAnswer(
            "503 with Retry-After", .status("503 Service Unavailable", "", fields: ["Retry-After: 1"]),
            "upstreamFailed", "503"),
        BadAnswer("404", .status("404 Not Found", #"{"n":0}"#, fields: tag), "upstreamFailed", "404"),
        BadAnswer("401", .status("401 Unauthorized", #"{"n":0}"#, fields: tag), "upstreamFailed", "401"),
        BadAnswer("silence", .hang, "upstreamFailed"),
        BadAnswer("a closed connection", .text("", thenClose: true), "upstreamFailed"),
        BadAnswer("a truncated head", .text("HTTP/1.1 200 OK\r\nContent-Le", thenClose: true), "upstreamFailed"),
        BadAnswer(
            "a close in the middle of the body",
            .text(
                "HTTP/1.1 200 OK\r\nETag: \"bad\"\r\nContent-Length: 100\r\n\r\n{\"version\":\"6\"}", thenClose: true),
            "upstreamFailed"),
        BadAnswer(
            "a close in the middle of a chunk",
            .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"version\":\"6\"}", thenClose: true),
            "upstreamFailed"),
        BadAnswer(
            "a close before the last chunk",
            .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", thenClose: true),
            "upstreamFailed"),
        BadAnswer(
            "a truncated body and then silence", .text("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
            "upstreamFailed"),
        BadAnswer("a response that is not HTTP", .text("SSH-2.0-OpenSSH_9.2\r\n", thenClose: true), "upstreamFailed"),
        BadAnswer("a truncated object", .status("200 OK", "{", fields: tag), "rejected"),
        BadAnswer("a truncated document", .status("200 OK", #"{"version":"6","n":"#, fields: tag), "rejected"),
        BadAnswer(
            "HTML with status 200",
            .status("200 OK", "<!DOCTYPE html><title>Sign in</title>", fields: tag + ["Content-Type: text/html"]),
            "rejected"),
        BadAnswer("an empty body", .status("200 OK", "", fields: tag), "upstreamFailed", "empty"),
        BadAnswer("an array", .status("200 OK", #"[{"version":"6"}]"#, fields: tag), "rejected", "array"),
        BadAnswer("null", .status("200 OK", "null", fields: tag), "rejected", "null"),
        BadAnswer("two documents", .status("200 OK", "{}{}", fields: tag), "rejected"),
        BadAnswer(
            "a document that is not UTF-8",
            .bytes(
                Array("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"n\":\"".utf8) + [0xFF] + Array("\"}".utf8),
                thenClose: false),
            "rejected"),
        BadAnswer("an older version", .document(#"{"version":"4","n":0}"#, etag: "bad"), "rejected", "4", version: "4"),
        BadAnswer(
            "a document over the limit",
            .document("{\"n\":\"" + String(repeating: "x", count: 5_000) + "\"}", etag: "bad"),
            "upstreamFailed", "4096"),
        BadAnswer(
            "200 levels of nesting",
            .document(String(repeating: "{\"a\":", count: 200) + "1" + String(repeating: "}", count: 200), etag: "bad"),
            "rejected"),
        BadAnswer("no content", .text("HTTP/1.1 204 No Content\r\n\r\n"), "upstreamFailed", "204"),
        BadAnswer(
            "a redirect to itself", .status("302 Found", "", fields: ["Location: /config.json"]), "upstreamFailed"),
        BadAnswer(
            "a redirect to a file", .status("302 Found", "", fields: ["Location: file:///etc/passwd"]), "upstreamFailed"
        ),
        BadAnswer(
            "a partial response", .status("206 Partial Content", #"{"n":0}"#, fields: tag), "upstreamFailed", "206"),
    ]
}

extension Integration {
    @Suite("Faults of an HTTP origin")
    struct OriginTests {
        private static func settings(_ origin: RawOrigin, interval: Double = 86_400, timeout: Double = 60) -> String {
            """
            { limits: { documentBytes: 4096 }, namespaces: { default: { remote: { http: { url: "\(origin.documentURL)", \
            intervalSeconds: \(interval), timeoutSeconds: \(timeout) } } } } }
            """
        }

        @Test(
            "after a bad response the last good snapshot is served, and config.status has the error",
            arguments: BadAnswer.all)
        func badAnswer(_ bad: BadAnswer) throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"5","n":5}"#, etag: "good"))
            defer { origin.stop() }
            // The timeout is short only in the cases in which the origin does not respond. Even then, a busy machine
            // gets the other responses within the timeout.
            let isSilent = bad.testDescription.contains("silence")
            try AgentHome.with(settings: Self.settings(origin, timeout: isSilent ? 2 : 60)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                // The agent requests the document at its start. No other poll is due during the test.
                try origin.request()
                let good = try client.call("config.refresh")
                #expect(good["upstreamVersion"] == "5")

                origin.answer(bad.answer)
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == bad.error)
                #expect(refusal.detail.contains(bad.message), "\(refusal)")

                let value = try client.call("config.get")
                #expect(value["value"] == ["version": "5", "n": 5])
                #expect(value["revision"] == good["revision"])
                #expect(value["state"] == "stale")
                let status = try agent.status()
                #expect(status["state"] == "stale")
                #expect(status["lastError"]?["name"]?.string == bad.error)
                let message = try require(status["lastError"]?["message"]?.string, "message")
                #expect(message.contains(bad.message))
                #expect(
                    message.split(separator: "http://127", omittingEmptySubsequences: false).count <= 2, "\(message)")
                #expect(status["rejected"]?.isNull == !bad.isRefused, "\(status)")
                #expect(status["rejected"]?["version"]?.string == bad.version)
                #expect(status["upstream"]?["version"] == "5")
                #expect(status["upstream"]?["etag"] == "\"good\"")
                #expect(status["upstream"]?["consecutiveFailures"] == 1)

                // The validator of the bad response was not stored.
                origin.discardEvents()
                origin.answer(.document(#"{"version":"6","n":6}"#, etag: "better"))
                #expect(try client.call("config.refresh")["upstreamVersion"] == "6")
                #expect(try origin.request()["if-none-match"] == "\"good\"")
                let recovered = try agent.status()
                #expect(recovered["state"] == "fresh")
                #expect(recovered["lastError"]?.isNull == true)
                #expect(recovered["rejected"]?.isNull == true)
                #expect(recovered["upstream"]?["consecutiveFailures"] == 0)
            }
        }

        @Test("a 304 confirms the current document, with or without an entity tag, and even with a Location field")
        func notModified() throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"5","n":5}"#, etag: "good"))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                let revision = try client.call("config.refresh")["revision"]
                for fields in [["ETag: \"good\""], ["Location: http://127.0.0.1:1/elsewhere"], []] {
                    origin.discardEvents()
                    origin.answer(
                        .text((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n"))
                    let result = try client.call("config.refresh")
                    #expect(try origin.request()["if-none-match"] == "\"good\"")
                    #expect(result["notModified"] == true)
                    #expect(result["changed"] == false)
                    #expect(result["revision"] == revision)
                    #expect(result["state"] == "fresh")
                }
                #expect(try client.call("config.get", ["n"])["value"] == 5)
            }
        }

        @Test("a forced refresh sends no validator, and applies an older version as a new revision")
        func forced() throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"5","n":5}"#, etag: "good"))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let client = try home.start().connect()
                let before = try client.call("config.refresh")
                origin.discardEvents()
                origin.answer(.document(#"{"version":"4","n":4}"#, etag: "old"))
                let after = try client.call("config.refresh", ["force": true])
                #expect(try origin.request()["if-none-match"] == nil)
                #expect(after["upstreamVersion"] == "4")
                #expect((after["revision"]?.int ?? 0) > (before["revision"]?.int ?? 0))
            }
        }

        @Test("an unreachable origin does not delay the start, and its document is published when it is back")
        func downAtStart() throws {
            let origin = try RawOrigin(.document(#"{"version":"5","n":5}"#, etag: "good"))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                let subscribed = try client.call("config.subscribe", ["n"])
                #expect(subscribed["revision"] == 0)
                #expect(try client.refusal("config.refresh").name == "upstreamFailed")
                #expect(try client.refusal("config.get", ["n"]).name == "unavailable")
                let status = try agent.status()
                #expect(["failed", "refreshing"].contains(status["state"]?.string))
                #expect(status["lastError"]?["name"] == "upstreamFailed")
                #expect(status["digest"]?.isNull == true)
                try agent.waitForLog("no valid document from the source; it has not delivered")

                origin.listen()
                let event = try client.event()
                #expect(event["value"] == 5)
                #expect(event["reason"] == "initial")
                #expect(event["state"] == "fresh", "the state of the first document is not fresh")
                #expect(try agent.status()["state"] == "fresh")
            }
        }

        @Test("after a restart, the stored document is served with its revision while the origin is down")
        func downAtRestart() throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"5","n":5}"#, etag: "good"))
            try AgentHome.with(settings: Self.settings(origin)) { home in
                let first = try home.start()
                let stored = try first.call("config.refresh")
                #expect(try first.stop() == .exit(0))
                origin.stop()
                let second = try home.start()
                let value = try second.call("config.get", ["n"])
                #expect(value["value"] == 5)
                #expect(value["revision"] == stored["revision"])
                #expect(value["epoch"] == stored["epoch"])
                #expect(["stale", "refreshing"].contains(value["state"]?.string))
            }
        }

        @Test("polling finds a new document, even after the source has failed")
        func polling() throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"1"}"#, etag: "1"))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin, interval: 0.2)) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe", ["version"])
                var version = "0"
                while version != "1" { version = try client.event()["value"]?.string ?? "0" }
                origin.answer(.status("500 Oops", ""))
                origin.discardEvents()
                for _ in 0..<2 { try origin.request() }
                origin.answer(.document(#"{"version":"2"}"#, etag: "2"))
                #expect(try client.event()["value"] == "2")
            }
        }

        @Test("the log contains no secrets and no values, and other users cannot read the state directory")
        func secrets() throws {
            let origin = try RawOrigin.listening(.document(#"{"password":"hidden-value"}"#, etag: "hidden-tag"))
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: { remote: { http: { url: "http://127.0.0.1:\(origin.port)/a?hidden-query", \
                headers: { Authorization: "hidden-token" } } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start(logLevel: "trace")
                let client = try agent.connect()
                try client.call("config.refresh")
                #expect(try origin.request()["authorization"] == "hidden-token")
                try client.call("config.set", ["path": "key", "value": "hidden-set"])
                origin.answer(.status("200 OK", "hidden-garbage"))
                let refusal = try client.refusal("config.refresh")
                #expect(!refusal.detail.contains("hidden"), "\(refusal)")
                #expect(!(try agent.status().compactText.replacing("hidden-tag", with: "").contains("hidden")))
                #expect(try agent.stop() == .exit(0))
                #expect(!agent.log.contains("hidden"), "\(agent.log)")
                let find = try Command.run("find", [home.state, "-perm", "/077"])
                #expect(find.output.isEmpty, "\(find.output)")
            }
        }
    }
}
