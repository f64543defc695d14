import LarderJSON
import LarderTesting
import Testing

@Suite("OpenFeature Remote Evaluation Protocol", .timeLimit(.minutes(15)))
struct FlagRequestTests {
    /// A document in flagd's format. Its member `flags` has the flags by name, as in a document with other configuration.
    private static let flags: JSONValue = [
        "flags": [
            "bool": ["state": "ENABLED", "variants": ["on": true, "off": false], "defaultVariant": "on"],
            "text": ["state": "ENABLED", "variants": ["a": "b/c"], "defaultVariant": "a"],
            "number": ["state": "ENABLED", "variants": ["big": 12345678901234567], "defaultVariant": "big"],
            "object": [
                "state": "ENABLED", "variants": ["one": ["list": [1, 2]]], "defaultVariant": "one",
                "metadata": ["team": "shop"],
            ],
            "rule": [
                "state": "ENABLED", "variants": ["on": true, "off": false], "defaultVariant": "off",
                "targeting": ["if": [["ends_with": [["var": "email"], "@example.org"]], "on", .null]],
            ],
            "off": ["state": "DISABLED", "variants": ["on": true], "defaultVariant": "on"],
            "code": ["state": "ENABLED", "variants": ["on": true]],
            "broken": [
                "state": "ENABLED", "variants": ["on": true], "defaultVariant": "on", "targeting": ["nonsense": 1],
            ],
        ]
    ]
    private static let settings =
        #""access": "anyone", "namespaces": { "default": { "flags": "flags" }, "ui": { "flags": "" } }"#

    private static func gateway() async throws -> GatewayUnderTest {
        let agent = try await TestAgent(namespaces: ["default": flags, "ui": flags])
        let gateway = try await GatewayUnderTest(agent, settings)
        try await gateway.waitUntilReady()
        return gateway
    }

    private static func evaluate(_ gateway: GatewayUnderTest, _ key: String, _ context: String = "{}") async throws -> (
        Int, JSONValue
    ) {
        let received = try await gateway.post("/ofrep/v1/evaluate/flags/\(key)", #"{"context":\#(context)}"#)
        #expect(received["content-type"] == "application/json")
        return (received.status, try JSONValue(parsing: received.body))
    }

    @Test("a flag of each type has its value, with the text of numbers, and its reason and variant")
    func types() async throws {
        let gateway = try await Self.gateway()
        #expect(
            try await Self.evaluate(gateway, "bool")
                == (200, ["key": "bool", "value": true, "reason": "STATIC", "variant": "on"]))
        #expect(try await Self.evaluate(gateway, "text").1["value"]?.string == "b/c")
        #expect(try await Self.evaluate(gateway, "number").1["value"]?.numberText == "12345678901234567")
        let object = try await Self.evaluate(gateway, "object").1
        #expect(object["value"] == ["list": [1, 2]] && object["metadata"] == ["team": "shop"])
        await gateway.shutDown()
    }

    @Test("a rule is evaluated for the context of the request")
    func rule() async throws {
        let gateway = try await Self.gateway()
        let (_, match) = try await Self.evaluate(gateway, "rule", #"{"targetingKey":"u","email":"a@example.org"}"#)
        #expect(match["value"] == true && match["reason"] == "TARGETING_MATCH")
        let (_, other) = try await Self.evaluate(gateway, "rule", #"{"email":"a@example.com"}"#)
        #expect(other["value"] == false && other["reason"] == "DEFAULT")
        await gateway.shutDown()
    }

    @Test("a disabled flag and a code default have neither a value nor a variant")
    func noValue() async throws {
        let gateway = try await Self.gateway()
        #expect(try await Self.evaluate(gateway, "off") == (200, ["key": "off", "reason": "DISABLED"]))
        #expect(try await Self.evaluate(gateway, "code") == (200, ["key": "code", "reason": "DEFAULT"]))
        await gateway.shutDown()
    }

    @Test(
        "an invalid request or flag has the status and the error code of the specification",
        arguments: [
            ("none", "{}", 404, "FLAG_NOT_FOUND"), ("broken", "{}", 400, "PARSE_ERROR"),
            ("bool", "[]", 400, "INVALID_CONTEXT"), ("bool", #"{"context":1}"#, 400, "INVALID_CONTEXT"),
            ("bool", #"{"context":{"targetingKey":1}}"#, 400, "INVALID_CONTEXT"), ("bool", "{", 400, "PARSE_ERROR"),
            ("bool", "", 400, "PARSE_ERROR"),
        ])
    func errors(key: String, body: String, status: Int, code: String) async throws {
        let gateway = try await Self.gateway()
        let received = try await gateway.post("/ofrep/v1/evaluate/flags/\(key)", body)
        let error = try JSONValue(parsing: received.body)
        #expect(received.status == status && error["errorCode"]?.string == code && error["key"]?.string == key)
        #expect(error["errorDetails"]?.string?.isEmpty == false)
        await gateway.shutDown()
    }

    @Test("all flags are evaluated at once, and the entity tag gives 304 until an outcome changes")
    func bulk() async throws {
        let agent = try await TestAgent(Self.flags)
        let gateway = try await GatewayUnderTest(
            agent, #""access": "anyone", "namespaces": { "default": { "flags": "flags" } }"#)
        try await gateway.waitUntilReady()
        let (target, body) = ("/ofrep/v1/evaluate/flags", #"{"context":{"targetingKey":"u"}}"#)
        let first = try await gateway.post(target, body)
        let flags = try JSONValue(parsing: first.body)["flags"]
        #expect(first.status == 200 && flags?.count == 8)
        #expect(flags?.elements.first { $0["key"] == "broken" }?["errorCode"] == "PARSE_ERROR")
        let etag = try #require(first["etag"])
        for tag in [etag, "W/\(etag)", "\"x\", \(etag)", "*"] {
            let second = try await gateway.post(target, body, ["If-None-Match: \(tag)"])
            #expect(second.status == 304 && second.body.isEmpty && second["etag"] == etag)
        }
        try await agent.publish(["flags": ["bool": ["state": "DISABLED", "variants": ["on": true]]]])
        let next = try await gateway.repeated {
            try await gateway.post(target, body, ["If-None-Match: \(etag)"])
        } until: {
            $0.status != 304
        }
        #expect(next.status == 200 && next.body == #"{"flags":[{"key":"bool","reason":"DISABLED"}]}"#)
        await gateway.shutDown()
    }

    @Test("a namespace is selected by a prefix; a namespace that the settings do not name is not found")
    func namespaces() async throws {
        let gateway = try await Self.gateway()
        #expect(try await gateway.post("/ui/ofrep/v1/evaluate/flags/bool", "{}").status == 200)
        #expect(try await gateway.post("/ui/ofrep/v1/evaluate/flags", "{}").status == 200)
        for name in ["other", "..", "%2e%2e", "UI", "ui%00"] {
            let one = try await gateway.post("/\(name)/ofrep/v1/evaluate/flags/bool", "{}")
            let error = try JSONValue(parsing: one.body)
            #expect(one.status == 404 && error["errorCode"] == "FLAG_NOT_FOUND" && error["key"] == "bool")
            #expect(try await gateway.post("/\(name)/ofrep/v1/evaluate/flags", "{}").status == 404)
        }
        // The settings do not serve values.
        #expect(try await gateway.get("/v1/config/default/flags").status == 404)
        // The provider for Python requires an error code with the status 400.
        let malformed = try await gateway.post("/ofrep/v1/evaluate/flags/%zz", "{}")
        #expect(try malformed.status == 400 && JSONValue(parsing: malformed.body)["errorCode"] == "GENERAL")
        await gateway.shutDown()
    }

    @Test("without a snapshot, the response is 500 with details, and the gateway is not ready")
    func noSnapshot() async throws {
        let agent = try await TestAgent()
        agent.faults.isUnreachable = true
        let gateway = try await GatewayUnderTest(agent, Self.settings)
        for target in ["/ofrep/v1/evaluate/flags/bool", "/ofrep/v1/evaluate/flags"] {
            let received = try await gateway.post(target, "{}")
            #expect(received.status == 500)
            #expect(try JSONValue(parsing: received.body)["errorDetails"]?.string != nil)
        }
        #expect(try await gateway.get("/readyz").status == 503)
        #expect(try await gateway.get("/healthz").status == 200)
        await gateway.shutDown()
    }

    @Test("a large set of flags is evaluated while other requests are answered")
    func large() async throws {
        let rule: JSONValue = ["fractional": [["on", 50], ["off", 50]]]
        let members = (0..<2000).map { number -> (String, JSONValue) in
            ("f\(number)", ["state": "ENABLED", "variants": ["on": true, "off": false], "targeting": rule])
        }
        let agent = try await TestAgent(["flags": .object(members)])
        let gateway = try await GatewayUnderTest(
            agent, #""access": "anyone", "namespaces": { "default": { "flags": "flags" } }"#)
        try await gateway.waitUntilReady()
        async let bulk = gateway.post("/ofrep/v1/evaluate/flags", #"{"context":{"targetingKey":"u"}}"#)
        #expect(try await gateway.get("/healthz").status == 200)
        #expect(try await JSONValue(parsing: bulk.body)["flags"]?.count == 2000)
        await gateway.shutDown()
    }
}
