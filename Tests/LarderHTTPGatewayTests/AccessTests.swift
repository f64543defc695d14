import Foundation
import LarderHTTPGateway
import LarderJSON
import LarderTesting
import Logging
import TestSupport
import Testing

@Suite("Access to the gateway", .timeLimit(.minutes(15)))
struct AccessTests {
    private static let namespaces = #""namespaces": { "default": { "flags": "flags", "config": true } }"#
    private static let token = "0123456789abcdef0123456789abcdef"

    private static func gateway(_ settings: String) async throws -> GatewayUnderTest {
        let gateway = try await GatewayUnderTest(TestAgent(["a": 1]), "\(settings), \(namespaces)")
        try await gateway.waitUntilReady()
        return gateway
    }

    private static func write(_ token: String, to path: String, mode: mode_t = 0o600) throws {
        try token.write(toFile: path, atomically: false, encoding: .utf8)
        chmod(path, mode)
    }

    @Test("a TCP port needs a token or the access of anyone, and must be a loopback address")
    func listening() async throws {
        let agent = try await TestAgent()
        let error = await #expect(throws: GatewaySettingsError.self) {
            try await GatewayUnderTest(agent, Self.namespaces)
        }
        #expect(error?.description.contains("tokenFile") == true)
        let text = #"{ listen: "0.0.0.0:0", access: "anyone", \#(Self.namespaces) }"#
        let outside = await #expect(throws: GatewaySettingsError.self) {
            try await Gateway(
                .parse(Array(text.utf8), ""), sockets: [], client: agent.client(), logger: .init(label: "test"))
        }
        #expect(outside?.description.contains("loopback") == true)
    }

    @Test("with a token, every request but a health check needs it")
    func tokens() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/token"
        try Self.write("\(Self.token)\n", to: path)
        let gateway = try await Self.gateway(#""tokenFile": "\#(path)""#)
        let target = "/v1/config/default/a"
        #expect(try await gateway.get(target, ["Authorization: Bearer \(Self.token)"]).status == 200)
        #expect(try await gateway.get(target, ["authorization: bearer \(Self.token)"]).status == 200)
        #expect(try await gateway.get(target, ["X-API-Key: \(Self.token)"]).status == 200)
        let wrong = [
            [], ["Authorization: Bearer"], ["Authorization: Bearer x"], ["Authorization: Basic \(Self.token)"],
            ["X-API-Key: \(Self.token.dropLast())"], ["X-API-Key: \(Self.token)", "Authorization: Bearer x"],
        ]
        for fields in wrong {
            let received = try await gateway.get(target, fields)
            #expect(received.status == 401 && received["www-authenticate"] == "Bearer")
            #expect(try await gateway.get("/nowhere", fields).status == 401)
            #expect(try await gateway.post("/ofrep/v1/evaluate/flags/a", "{}", fields).status == 401)
        }
        await gateway.shutDown()
    }

    @Test("a token that is short, missing, not text or readable by other users is an error")
    func badTokens() async throws {
        let directory = try TemporaryDirectory()
        for (number, content) in ["", "short", "0123456789abcde\u{1}f", "0123456789 abcdef"].enumerated() {
            let path = "\(directory.path)/\(number)"
            try Self.write(content, to: path)
            await #expect(throws: GatewaySettingsError.self) { try await Self.gateway(#""tokenFile": "\#(path)""#) }
        }
        await #expect(throws: GatewaySettingsError.self) { try await Self.gateway(#""tokenFile": "/nowhere""#) }
        let path = directory.path + "/exposed"
        try Self.write(Self.token, to: path, mode: 0o644)
        let error = await #expect(throws: GatewaySettingsError.self) {
            try await Self.gateway(#""tokenFile": "\#(path)""#)
        }
        #expect(error?.description.contains("other users") == true)
        await #expect(throws: GatewaySettingsError.self) { try await Self.gateway(#""tokenCredential": "none""#) }
    }

    @Test("the Host header must be a configured name")
    func hosts() async throws {
        let gateway = try await Self.gateway(#""access": "anyone", "hosts": ["localhost", "flags.internal", "[::1]"]"#)
        for host in ["localhost", "LOCALHOST:8016", "flags.internal:1", "[::1]:8016", "[::1]"] {
            #expect(try await gateway.get("/healthz", ["Host: \(host)"]).status == 200)
        }
        for host in [
            "evil.example", "127.0.0.1", "localhost.evil.example", "localhost:x", "localhost@evil", "", "[::1",
        ] {
            #expect(try await gateway.get("/healthz", ["Host: \(host)"]).status == 421)
        }
        #expect(try await gateway.get("/healthz", ["Host: localhost", "Host: localhost"]).status == 400)
        #expect(try await gateway.raw(Array("GET /healthz HTTP/1.1\r\n\r\n".utf8)).status == 400)
        for (target, status) in [
            ("http://evil/healthz", 421), ("HTTP://localhost:1/healthz", 200), ("ftp://localhost/", 400),
        ] {
            let request = "GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n"
            #expect(try await gateway.raw(Array(request.utf8)).status == status)
        }
        await gateway.shutDown()
    }

    @Test("web pages of other origins are refused, and those of configured origins are allowed")
    func origins() async throws {
        let gateway = try await Self.gateway(#""access": "anyone", "origins": ["https://shop.example"]"#)
        let target = "/v1/config/default/a"
        let allowed = try await gateway.get(target, ["Origin: https://shop.example"])
        #expect(allowed.status == 200 && allowed["access-control-allow-origin"] == "https://shop.example")
        #expect(allowed["vary"] == "Origin")
        let preflight = try await gateway.exchange(
            "OPTIONS", "/ofrep/v1/evaluate/flags",
            ["Origin: https://shop.example", "Access-Control-Request-Method: POST"])
        #expect(preflight.status == 204 && preflight["access-control-allow-methods"] == "GET, HEAD, POST")
        for origin in ["https://evil.example", "http://shop.example", "null", "https://shop.example.evil"] {
            for method in ["GET", "OPTIONS"] {
                let refused = try await gateway.exchange(method, target, ["Origin: \(origin)"])
                #expect(refused.status == 403 && refused["access-control-allow-origin"] == nil)
            }
        }
        await gateway.shutDown()
    }
}
