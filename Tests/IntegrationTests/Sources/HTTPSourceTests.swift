import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("HTTP sources with long polls, GraphQL and stale limits")
    struct HTTPSourceTests {
        private static func settings(_ origin: RawOrigin, _ more: String) -> String {
            """
            { namespaces: { default: { remote: { http: { url: "\(origin.documentURL)", intervalSeconds: 86400, \(more) } } } } }
            """
        }

        @Test("a pending long poll does not delay a push or a refresh")
        func longPoll() throws {
            let path = "/config.json?wait=3000"
            let origin = try RawOrigin.listening(.document(#"{"v":1}"#, etag: "1"))
            defer { origin.stop() }
            origin.answer(.hang, to: path)
            let more = "longPoll: { waitSeconds: 3000, queryMember: \"wait\" }"
            try AgentHome.with(settings: Self.settings(origin, more)) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                try origin.request(for: path)
                #expect(try client.call("config.push", ["document": ["v": 2]])["changed"] == true)
                try client.events(until: 2)
                try origin.disconnection()
                try origin.request(for: path)
                origin.answer(.document(#"{"v":3}"#, etag: "3"))
                #expect(try client.call("config.refresh")["changed"] == true)
                try client.events(until: 3)
                try origin.request(for: path)
            }
        }

        @Test(
            "a query parameter or the Prefer header requests a long poll, which ends when the document changes",
            arguments: [false, true])
        func change(_ hasMember: Bool) throws {
            let path = hasMember ? "/config.json?wait=3000" : "/config.json"
            let origin = try RawOrigin.listening(.document(#"{"v":1}"#, etag: "1"))
            defer { origin.stop() }
            // Without the query parameter, a long poll has the same path as other requests, so the origin responds to
            // it immediately.
            if hasMember { origin.answer(.hang, to: path) }
            let more = "longPoll: { waitSeconds: 3000\(hasMember ? ", queryMember: \"wait\"" : "") }"
            try AgentHome.with(settings: Self.settings(origin, more)) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                if hasMember {
                    let request = try origin.request(for: path)
                    #expect(request["prefer"] == nil)
                    #expect(request["if-none-match"] == "\"1\"")
                    try client.status { $0["state"] == "fresh" }
                    origin.answer(.document(#"{"v":2}"#, etag: "2"), to: path)
                    try client.events(until: 2)
                } else {
                    while try origin.request()["prefer"] != "wait=3000" {}
                }
            }
        }

        @Test("the `data` of a GraphQL response is the document, and `errors` in the response make the refresh fail")
        func graphQL() throws {
            let origin = try RawOrigin.listening(.document(#"{"data":{"config":{"version":"1","v":1}}}"#))
            defer { origin.stop() }
            let more = """
                method: "POST", body: { query: "{ config { v } }" }, responsePath: "/data/config"
                """
            try AgentHome.with(settings: Self.settings(origin, more)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try client.call("config.refresh")["upstreamVersion"] == "1")
                let request = try origin.request()
                #expect(request[":method"] == "POST")
                #expect(request["content-type"] == "application/json")
                #expect(request[":body"] == #"{"query":"{ config { v } }"}"#)
                for (answer, name, words) in [
                    (#"{"errors":[{"message":"no\nsuch field"}]}"#, "upstreamFailed", "an error: no such"),
                    (#"{"data":null,"errors":[{"message":"no such field"},{}]}"#, "upstreamFailed", "no such field"),
                    (
                        #"{"data":{"config":{"v":null}},"errors":[{"message":"v is down"}]}"#, "upstreamFailed",
                        "v is down"
                    ),
                    (#"{"data":{}}"#, "rejected", "no value at"), (#"{"data":{"config":[]}}"#, "rejected", "array"),
                    ("[]", "rejected", "no value at"),
                ] {
                    origin.answer(.document(answer))
                    let refusal = try client.refusal("config.refresh")
                    #expect(refusal.name == name)
                    #expect(refusal.detail.contains(words), "\(refusal)")
                    #expect(!refusal.detail.contains("\n"))
                    #expect(try client.call("config.get", ["v"])["value"] == 1)
                }
                origin.answer(.document(#"{"data":{"config":{"version":"2","v":2}},"errors":[]}"#))
                #expect(try client.call("config.refresh")["upstreamVersion"] == "2")
            }
        }

        @Test("a second change within one second is fetched from a source that sends only Last-Modified")
        func changesInOneSecond() throws {
            func answer(_ body: String, sentAt second: Int) -> RawOrigin.Answer {
                let day = "Sun, 06 Nov 1994 08:49:"
                let fields = ["Last-Modified: \(day)37 GMT", "Date: \(day)\(second) GMT"]
                return .status("200 OK", body, fields: fields)
            }
            let origin = try RawOrigin.listening(answer(#"{"v":1}"#, sentAt: 37))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin, "timeoutSeconds: 60")) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                try origin.request()
                origin.answer(answer(#"{"v":2}"#, sentAt: 38))
                #expect(try client.call("config.refresh")["changed"] == true)
                #expect(try origin.request()["if-modified-since"] == nil)
                #expect(try client.call("config.get", ["v"])["value"] == 2)
                try client.call("config.refresh")
                #expect(try origin.request()["if-modified-since"] == "Sun, 06 Nov 1994 08:49:37 GMT")
            }
        }

        @Test("the state turns from stale to failed after staleIfErrorSeconds, and the value is still served")
        func staleIfError() throws {
            let origin = try RawOrigin.listening(.document(#"{"v":1}"#))
            defer { origin.stop() }
            try AgentHome.with(settings: Self.settings(origin, "staleIfErrorSeconds: 0")) { home in
                let client = try home.start().connect()
                try client.call("config.refresh")
                origin.answer(.status("503 Busy", ""))
                try client.status { status in
                    _ = try? client.refusal("config.refresh")
                    return status["state"] == "failed"
                }
                let current = try client.call("config.get", ["v"])
                #expect(current["value"] == 1)
                #expect(current["state"] == "failed" || current["state"] == "refreshing")
            }
        }
    }
}
