import Foundation
import LarderClientCore
import LarderFlagRules
import LarderHTTPGateway
import LarderJSON
import LarderSnapshotFile
import LarderTesting
import NIOCore
import Testing

@Suite("Values over HTTP", .timeLimit(.minutes(15)))
struct ConfigRequestTests {
    private static let settings = #""access": "anyone", "namespaces": { "default": { "config": true } }"#
    private static let document: JSONValue = ["search": ["limit": 10, "hosts": ["a", "b"], "a.b": 1], "ü": "x"]

    @Test(
        "a value has the path of its URL, dotted or as a JSON Pointer",
        arguments: [
            ("/search.limit", "10"), ("/search.hosts.1", #""b""#), ("//search/a.b", "1"), ("/%2Fsearch%2Fa.b", "1"),
            ("/%C3%BC", #""x""#), ("/search", #"{"limit":10,"hosts":["a","b"],"a.b":1}"#),
        ])
    func paths(path: String, value: String) async throws {
        let gateway = try await GatewayUnderTest(TestAgent(Self.document), Self.settings)
        try await gateway.waitUntilReady()
        let received = try await gateway.get("/v1/config/default\(path)")
        #expect(received.status == 200 && received.body == value && received["larder-state"] == nil)
        let head = try await gateway.exchange("HEAD", "/v1/config/default\(path)")
        #expect(head.status == 200 && head["content-length"] == String(value.utf8.count) && head.body.isEmpty)
        await gateway.shutDown()
    }

    @Test("the whole document has an empty path")
    func document() async throws {
        let gateway = try await GatewayUnderTest(TestAgent(Self.document), Self.settings)
        try await gateway.waitUntilReady()
        for target in ["/v1/config/default", "/v1/config/default/", "/v1/config/default/?a=b"] {
            #expect(try await JSONValue(parsing: gateway.get(target).body) == Self.document)
        }
        await gateway.shutDown()
    }

    @Test("the entity tag gives 304 until the value changes, whatever else changes")
    func tags() async throws {
        let agent = try await TestAgent(Self.document)
        let gateway = try await GatewayUnderTest(agent, Self.settings)
        try await gateway.waitUntilReady()
        let first = try await gateway.get("/v1/config/default/search.limit")
        let condition = ["If-None-Match: \(try #require(first["etag"]))"]
        try await agent.publish(["search": ["limit": 10], "new": true])
        _ = try await gateway.wait(for: "/v1/config/default/new") { $0.status == 200 }
        #expect(try await gateway.get("/v1/config/default/search.limit", condition).status == 304)
        try await agent.publish(["search": ["limit": 20]])
        let next = try await gateway.wait(for: "/v1/config/default/search.limit", condition) { $0.status != 304 }
        #expect(next.status == 200 && next.body == "20")
        await gateway.shutDown()
    }

    @Test(
        "a request for nothing is refused",
        arguments: [
            ("GET", "/v1/config/default/nothing", 404), ("GET", "/v1/config/other/search", 404),
            ("GET", "/v1/config/../default/search", 404), ("GET", "/v1/config/%2e%2e/search", 404),
            ("GET", "/v1/config/default/..", 400), ("GET", "/v1/config/default/a..b", 400),
            ("GET", "/v1/config/default/%ff", 400), ("GET", "/v1/config/default/%4", 400),
            ("GET", "/v1/config/default/%+4", 400), ("GET", "/v1/config/default/%2F~2", 400),
            ("GET", "/", 404), ("GET", "/v1", 404), ("GET", "//", 404), ("GET", "/etc/passwd", 404),
            ("PUT", "/v1/config/default/search", 405), ("DELETE", "/v1/config/default/search", 405),
            ("POST", "/v1/config/default/search", 405), ("OPTIONS", "/v1/config/default/search", 405),
        ])
    func refused(method: String, target: String, status: Int) async throws {
        let gateway = try await GatewayUnderTest(TestAgent(Self.document), Self.settings)
        try await gateway.waitUntilReady()
        let received = try await gateway.exchange(method, target)
        #expect(received.status == status)
        #expect(try JSONValue(parsing: received.body)["errorDetails"] != nil)
        if status == 405 { #expect(received["allow"] == "GET, HEAD") }
        await gateway.shutDown()
    }

    @Test("a stream sends the value at once, and again when it changes")
    func stream() async throws {
        let agent = try await TestAgent(Self.document)
        let gateway = try await GatewayUnderTest(agent, Self.settings)
        try await gateway.waitUntilReady()
        let wire = try Wire(gateway.port)
        try wire.send(
            "GET /v1/config/default/search.limit HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        let reader = wire
        let head = try await onThread { try reader.response() }
        #expect(head.status == 200 && head["content-type"] == "text/event-stream")
        #expect(head["transfer-encoding"] == "chunked")
        #expect(try await onThread { try reader.read(until: "data: 10\n\n") }.contains("event: value\nid: \""))
        // A change elsewhere causes no event.
        try await agent.publish(["search": ["limit": 10], "new": true])
        _ = try await gateway.wait(for: "/v1/config/default/new") { $0.status == 200 }
        try await agent.publish(["search": ["limit": 20]])
        let next = try await onThread { try reader.read(until: "data: 20\n\n") }
        #expect(next.components(separatedBy: "event: ").count == 2)
        try await agent.publish(["search": [:]])
        _ = try await onThread { try reader.read(until: "event: missing\n") }
        await gateway.shutDown()
        try await onThread { try reader.waitForEnd() }
    }

    @Test("while the agent is away, the last snapshot is served as stale; after a restart, the newest is served")
    func stale() async throws {
        let agent = try await TestAgent(Self.document)
        let gateway = try await GatewayUnderTest(agent, Self.settings)
        try await gateway.waitUntilReady()
        agent.faults.isUnreachable = true
        await agent.disconnect()
        let target = "/v1/config/default/search.limit"
        let stale = try await gateway.wait(for: target) { $0["larder-state"] == "stale" }
        #expect(stale.status == 200 && stale.body == "10")
        try await agent.restart()
        try await agent.publish(["search": ["limit": 30]])
        agent.faults.isUnreachable = false
        let fresh = try await gateway.wait(for: target) { $0["larder-state"] == nil }
        #expect(fresh.status == 200)
        #expect(try await gateway.wait(for: target) { $0.body == "30" }.status == 200)
        await gateway.shutDown()
    }

    @Test("a namespace that the agent refuses to send is not served until the agent sends it again")
    func denied() async throws {
        let agent = try await TestAgent(Self.document)
        let gateway = try await GatewayUnderTest(agent, Self.settings)
        try await gateway.waitUntilReady()
        agent.faults.deniedRights = [.read]
        await agent.disconnect()
        _ = try await gateway.wait(for: "/v1/config/default/search.limit") { $0.status == 500 }
        agent.faults.deniedRights = []
        let again = try await gateway.wait(for: "/v1/config/default/search.limit") { $0.status == 200 }
        #expect(again.body == "10" && again["larder-state"] == nil)
        await gateway.shutDown()
    }

    // MARK: Secrets

    private static func snapshot(_ value: JSONValue, secrets: [String]?, flags: String? = nil) throws -> ServedSnapshot
    {
        let file = try SnapshotFileWriter.file(of: value, revision: 1, epoch: "0000000000000001", name: "test")
        let reader = try SnapshotFileReader(descriptor: file.descriptor, secretPaths: secrets)
        return ServedSnapshot(MappedSnapshot(reader), flagsIn: flags)
    }

    @Test("a secret path is refused whether it exists or not, and secrets in a value are masked")
    func secrets() throws {
        let snapshot = try Self.snapshot(
            ["db": ["user": "u", "password": "p"], "n": 1], secrets: ["db.password", "**.token"])
        for path in ["db.password", "db.password.x", "token", "a.b.token"] {
            guard case .secret = snapshot.value(at: try JSONPath(parsing: path)) else {
                Issue.record("\(path) is not secret")
                continue
            }
        }
        guard case .found(let value) = snapshot.value(at: try JSONPath(parsing: "db")) else {
            Issue.record("the value is missing")
            return
        }
        #expect(value.isMasked && String(buffer: value.body) == #"{"user":"u","password":"<masked>"}"#)
        guard case .secret = try Self.snapshot(["n": 1], secrets: nil).value(at: try JSONPath(parsing: "n")) else {
            Issue.record("a value is served although its secrets are unknown")
            return
        }
    }

    @Test("a flag that contains a secret, or may refer to one, is an error")
    func secretFlags() throws {
        let flag: JSONValue = ["state": "ENABLED", "variants": ["on": "x"], "defaultVariant": "on"]
        let rule: JSONValue = [
            "state": "ENABLED", "variants": ["on": "x"], "targeting": ["if": [true, "on"]],
        ]
        let document: JSONValue = ["f": ["a": flag, "b": rule], "$evaluators": ["e": true]]
        let one = try Self.snapshot(document, secrets: ["f.a.variants.on"], flags: "f")
        #expect(one.evaluate("a", .init(), now: 0).errorCode == .general)
        #expect(one.evaluate("b", .init(), now: 0).value == "x" && !one.areFlagsSecret)
        let shared = try Self.snapshot(document, secrets: ["$evaluators.e"], flags: "f")
        #expect(shared.evaluate("a", .init(), now: 0).value == "x")
        #expect(shared.evaluate("b", .init(), now: 0).errorCode == .general)
        for secrets in [["f"], ["**"], nil] {
            let all = try Self.snapshot(document, secrets: secrets, flags: "f")
            #expect(all.areFlagsSecret)
            for name in ["a", "b", "none"] {
                #expect(all.evaluate(name, .init(), now: 0).errorCode == .general)
            }
        }
    }

    @Test("flags whose metadata is secret are not served, because every outcome has the metadata")
    func secretMetadata() throws {
        let flag: JSONValue = ["state": "ENABLED", "variants": ["on": "x"], "defaultVariant": "on"]
        let document: JSONValue = ["flags": ["a": flag], "metadata": ["owner": "o"]]
        let served = try Self.snapshot(document, secrets: ["metadata.other"], flags: "")
        #expect(!served.areFlagsSecret && served.evaluate("a", .init(), now: 0).metadata == ["owner": "o"])
        let secret = try Self.snapshot(document, secrets: ["metadata.owner"], flags: "")
        #expect(secret.areFlagsSecret && secret.evaluate("a", .init(), now: 0).metadata == [:])
    }

    @Test("a value over the limit is refused, and the values in it are served")
    func tooLarge() throws {
        let text = JSONValue.string(String(repeating: "x", count: ServedSnapshot.maxValueBytes))
        let snapshot = try Self.snapshot(["big": text, "small": 1], secrets: [])
        for path in ["", "big"] {
            guard case .tooLarge = snapshot.value(at: try JSONPath(parsing: path)) else {
                Issue.record("\"\(path)\" is served")
                continue
            }
        }
        guard case .found = snapshot.value(at: try JSONPath(parsing: "small")) else {
            Issue.record("the small value is not served")
            return
        }
        guard case .missing = snapshot.value(at: try JSONPath(parsing: "none.a.b")) else {
            Issue.record("a missing value is found")
            return
        }
    }
}
