import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import Synchronization
import Testing

@testable import LarderServer

@Suite("Methods of feature flags", .timeLimit(.minutes(5)))
struct FlagMethodTests {
    @Test("a flag is evaluated for the context of the request")
    func outcomes() async throws {
        try await FlagFixture.with { fixture in
            let color = try await fixture.call("flag.evaluate", #"{"flag":"color"}"#)["result"]
            #expect(color?["value"] == "#f00" && color?["variant"] == "red" && color?["reason"] == "STATIC")
            #expect(color?["metadata"] == ["team": "web"])
            #expect(
                color?["revision"]?.int == fixture.context.namespaces["default"]?.publication.current.snapshot.revision)
            let beta = #"{"flag":"beta","context":{"email":"ann@example.org"}}"#
            #expect(try await fixture.evaluate(beta) == [true, "TARGETING_MATCH"])
            #expect(try await fixture.evaluate(#"{"flag":"beta"}"#) == [false, "TARGETING_MATCH"])
            let old = try await fixture.call("flag.evaluate", #"{"flag":"old","default":1.50}"#)
            #expect(old.compactText.contains(#""value":1.50,"reason":"DISABLED""#))
            #expect(try await fixture.evaluate(#"{"flag":"old"}"#) == [nil, "DISABLED"])
        }
    }

    @Test("a flag that is missing or of another type is an error in the result, which then has the default")
    func errors() async throws {
        try await FlagFixture.with { fixture in
            let missing = try await fixture.call("flag.evaluate", #"{"flag":"x","default":7}"#)["result"]
            #expect(missing?["errorCode"] == "FLAG_NOT_FOUND" && missing?["value"] == 7)
            let mismatch = try await fixture.call("flag.evaluate", #"{"flag":"color","type":"boolean"}"#)["result"]
            #expect(mismatch?["errorCode"] == "TYPE_MISMATCH" && mismatch?["value"] == nil)
            let context = try await fixture.call("flag.evaluate", #"{"flag":"color","context":[]}"#)
            #expect(context["error"]?["data"]?["name"] == "invalidParams")
        }
    }

    @Test("without the setting, each method fails with an error that names it")
    func noSetting() async throws {
        try await FlagFixture.with(settings: nil) { fixture in
            for (method, params) in [
                ("flag.evaluate", #"{"flag":"color"}"#), ("flag.evaluateAll", "{}"), ("flag.list", "{}"),
                ("flag.subscribe", #"{"flags":["color"]}"#),
            ] {
                let error = try await fixture.call(method, params)["error"]
                #expect(error?["data"]?["name"] == "notFound")
                #expect(error?["data"]?["detail"]?.string?.contains("namespaces.default.flags") == true)
            }
            #expect(fixture.context.flags.count == 0)
        }
    }

    @Test("a peer without the right `read` gets `denied`")
    func denied() async throws {
        try await FlagFixture.with(peer: .stranger, rights: []) { fixture in
            for method in ["flag.evaluateAll", "flag.list"] {
                let reply = try await fixture.call(method, "{}")
                #expect(reply["error"] != nil)
            }
            let evaluation = try await fixture.call("flag.evaluate", #"{"flag":"color"}"#)
            #expect(evaluation["error"] != nil)
            let subscription = try await fixture.call("flag.subscribe", #"{"flags":["color"]}"#)
            #expect(subscription["error"] != nil)
        }
    }

    @Test("a flag with a secret is hidden from a peer without the right `secrets`")
    func secrets() async throws {
        try await FlagFixture.with(peer: .stranger, rights: Rights([.read])) { fixture in
            for _ in 1...3 {
                let reply = try await fixture.call("flag.evaluate", #"{"flag":"secret"}"#)
                #expect(reply["result"]?["errorCode"] == "GENERAL")
                #expect(!reply.compactText.contains("abc"))
            }
            let all = try await fixture.call("flag.evaluateAll", "{}")
            #expect(all["result"]?["flags"]?.count == 6 && !all.compactText.contains("abc"))
            let list = try await fixture.call("flag.list", "{}")
            #expect(list.compactText.contains(#"{"flag":"secret","variants":[],"masked":true}"#))
        }
        try await FlagFixture.with(peer: .stranger, rights: Rights([.read, .secrets])) { fixture in
            let reply = try await fixture.call("flag.evaluate", #"{"flag":"secret"}"#)
            #expect(reply["result"]?["value"] == ["token": "abc"])
        }
    }

    @Test(
        "a repeated request gets the outcome of the current snapshot, of the current time and of the current settings")
    func repeated() async throws {
        try await FlagFixture.with { fixture in
            for _ in 1...3 {
                #expect(try await fixture.evaluate(#"{"flag":"color"}"#) == ["#f00", "STATIC"])
                #expect(try await fixture.evaluate(#"{"flag":"late"}"#) == [false, "TARGETING_MATCH"])
            }
            fixture.now.value.store(2_000_000, ordering: .relaxed)
            #expect(try await fixture.evaluate(#"{"flag":"late"}"#) == [true, "TARGETING_MATCH"])
            try await fixture.set("flags.color.defaultVariant", "blue")
            #expect(try await fixture.evaluate(#"{"flag":"color"}"#) == ["#00f", "STATIC"])
            var configuration = try #require(fixture.context.namespaces["default"]).configuration
            configuration.flags = FlagSettings(member: "others")
            for _ in 1...3 { _ = try await fixture.evaluate(#"{"flag":"color"}"#) }
            await fixture.context.namespaces.apply([configuration])
            #expect(try await fixture.evaluate(#"{"flag":"color"}"#) == [nil, "ERROR"])
        }
    }

    @Test("all flags, or some, are evaluated in one snapshot")
    func all() async throws {
        try await FlagFixture.with { fixture in
            let all = try await fixture.call("flag.evaluateAll", #"{"context":{"email":"ann@example.org"}}"#)["result"]
            let flags = try #require(all?["flags"]).elements.map { $0["flag"]?.string }
            #expect(flags == ["beta", "color", "late", "long", "old", "secret"])
            let some = try await fixture.call("flag.evaluateAll", #"{"flags":["none","color"]}"#)["result"]
            let outcomes = try #require(some?["flags"]).elements.map { $0["errorCode"] ?? $0["value"] }
            #expect(outcomes == ["FLAG_NOT_FOUND", "#f00"])
        }
    }

    @Test("flags are listed with their variants")
    func list() async throws {
        try await FlagFixture.with { fixture in
            let list = try await fixture.call("flag.list", "{}")["result"]
            #expect(list?["member"] == "flags")
            let expected: JSONValue = [
                "flag": "color", "enabled": true, "variants": ["red", "blue"], "defaultVariant": "red",
                "targeting": false, "usesTime": false,
            ]
            #expect(list?["flags"]?[1] == expected)
        }
    }

    @Test("a document in flagd's format is read as a whole if the setting names no member")
    func wholeDocument() async throws {
        try await FlagFixture.with(settings: FlagSettings(member: "")) { fixture in
            let shared = #"{"state":"ENABLED","variants":{"on":true},"targeting":{"if":[{"$ref":"staff"},"on",null]}}"#
            try await fixture.set("flags.shared", try JSONValue(parsing: shared))
            try await fixture.set(
                "$evaluators", try JSONValue(parsing: #"{"staff":{"==":[{"var":"role"},"staff"]}}"#))
            #expect(
                try await fixture.evaluate(#"{"flag":"shared","context":{"role":"staff"}}"#)
                    == [true, "TARGETING_MATCH"])
            let list = try await fixture.call("flag.list", "{}")
            #expect(list["result"]?["member"] == "")
        }
    }

    @Test("a long evaluation does not delay the next request, and ends at the limit of steps")
    func longEvaluation() async throws {
        try await FlagFixture.with { fixture in
            _ = try await fixture.evaluate(#"{"flag":"color"}"#)
            let list = "[" + [String](repeating: "1", count: 60).joined(separator: ",") + "]"
            let lists = "[" + [String](repeating: list, count: 60).joined(separator: ",") + "]"
            try await fixture.client.send(
                #"{"id":1,"method":"flag.evaluate","params":{"flag":"long","context":{"lists":\#(lists)}}}"# + "\n"
                    + #"{"id":2,"method":"agent.ping"}"# + "\n")
            let lines = try await fixture.lines(2)
            #expect(lines.map { $0["id"]?.int } == [2, 1])
            #expect(lines[1]["result"]?["errorCode"] == "GENERAL")
        }
    }

    @Test("flags are compiled for the first request, and released after the next publication")
    func cache() async throws {
        try await FlagFixture.with { fixture in
            #expect(fixture.context.flags.count == 0)
            _ = try await fixture.evaluate(#"{"flag":"color"}"#)
            #expect(fixture.context.flags.count == 1)
            try await fixture.set("other", 1)
            while fixture.context.flags.count > 0 { await Task.yield() }
        }
    }
}
