import LarderJSON
import LarderTesting
import TestSupport
import Testing

@Suite("Hostile clients of the gateway", .timeLimit(.minutes(15)))
struct HostileClientTests {
    private static func gateway(_ limits: String = "{}") async throws -> GatewayUnderTest {
        let agent = try await TestAgent(["a": 1, "flags": [:]])
        let settings = #""access": "anyone", "namespaces": { "default": { "flags": "flags", "config": true } }"#
        let gateway = try await GatewayUnderTest(agent, "\(settings), \"limits\": \(limits)")
        try await gateway.waitUntilReady()
        return gateway
    }

    @Test("a body over the limit is refused, with and without its length in the header")
    func bodies() async throws {
        let gateway = try await Self.gateway(#"{ "bodyBytes": 1024 }"#)
        let target = "/ofrep/v1/evaluate/flags/x"
        #expect(try await gateway.post(target, String(repeating: " ", count: 1022) + "{}").status == 404)
        #expect(try await gateway.post(target, String(repeating: " ", count: 1023) + "{}").status == 413)
        let head = "POST \(target) HTTP/1.1\r\nHost: localhost\r\n"
        #expect(try await gateway.raw(Array("\(head)Content-Length: 99999999999\r\n\r\n".utf8)).status == 413)
        let chunk = "400\r\n\(String(repeating: "x", count: 1024))\r\n"
        let chunked = try await gateway.raw(Array("\(head)Transfer-Encoding: chunked\r\n\r\n\(chunk)\(chunk)".utf8))
        #expect(chunked.status == 413 && chunked["connection"] == "close")
        // The body of a request that is refused counts, too.
        #expect(try await gateway.post("/nowhere", String(repeating: "x", count: 2000)).status == 413)
        await gateway.shutDown()
    }

    @Test("a header over the limit, or that is not HTTP, is refused")
    func headers() async throws {
        let gateway = try await Self.gateway()
        let long = String(repeating: "x", count: 20_000)
        #expect(try await gateway.get("/healthz", ["X-Long: \(long)"]).status == 431)
        #expect(try await gateway.get("/healthz", (0..<100).map { "X-\($0): y" }).status == 431)
        for bytes in ["hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n"] {
            #expect(try await gateway.raw(Array(bytes.utf8)).status == 400)
        }
        let smuggled =
            "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        #expect(try await gateway.raw(Array(smuggled.utf8)).status == 400)
        #expect(try await gateway.get("/healthz").status == 200)
        await gateway.shutDown()
    }

    @Test("deep contexts, invalid UTF-8 and control characters are harmless")
    func contents() async throws {
        let gateway = try await Self.gateway()
        let target = "/ofrep/v1/evaluate/flags/x"
        let deep = String(repeating: "[", count: 30_000)
        #expect(try await gateway.post(target, #"{"context":{"a":"# + deep).status == 400)
        #expect(
            try await gateway.exchange(
                "POST", target, [], Array(#"{"context":{"a":""#.utf8) + [0xFF, 0x22, 0x7D, 0x7D]
            ).status == 400)
        #expect(
            try await gateway.raw(Array("GET /v1/config/default/\u{e4} HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
                .status == 400)
        let path = Array(repeating: "a", count: 2000).joined(separator: ".")
        #expect(try await gateway.get("/v1/config/default/\(path)").status == 400)
        #expect(try await gateway.get("/healthz").status == 200)
        await gateway.shutDown()
    }

    @Test("if the limit of connections is reached, the one that has stalled for the longest time is closed")
    func connections() async throws {
        let gateway = try await Self.gateway(#"{ "connections": 4 }"#)
        let idle = try (0..<4).map { _ in try Wire(gateway.port) }
        try idle[1].send("POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: loc")
        let newer = try (0..<4).map { _ in try Wire(gateway.port) }
        for wire in 0..<4 {
            try newer[wire].send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try await onThread { try newer[wire].response() }.status == 200)
        }
        for wire in 0..<4 { try await onThread { try idle[wire].waitForEnd() } }
        await gateway.shutDown()
    }

    @Test(
        "a request to change the protocol is answered, and nothing after it is read",
        arguments: [
            ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
            (
                "POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: x\r\n"
                    + "Content-Length: 2\r\n\r\n{}", 200
            ), ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ])
    func upgrades(request: String, status: Int) async throws {
        let gateway = try await Self.gateway()
        let wire = try Wire(gateway.port)
        try wire.send(request)
        let response = try await onThread { try wire.response() }
        #expect(response.status == status && response["connection"] == "close")
        try await onThread { try wire.waitForEnd() }
        await gateway.shutDown()
    }

    @Test("streams use at most half of the connections")
    func streams() async throws {
        let gateway = try await Self.gateway(#"{ "connections": 4 }"#)
        let request = "GET /v1/config/default/a HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        let wires = try (0..<3).map { _ in try Wire(gateway.port) }
        for (wire, status) in zip(wires.indices, [200, 200, 503]) {
            try wires[wire].send(request)
            #expect(try await onThread { try wires[wire].response() }.status == status)
        }
        await gateway.shutDown()
    }

    @Test("pipelined requests are answered in order, and a request that arrives in single bytes is answered")
    func pieces() async throws {
        let gateway = try await Self.gateway()
        let (get, post) = (
            "GET /v1/config/default/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
        )
        let wire = try Wire(gateway.port)
        try wire.send(get + post + get)
        for body in ["1", #"{"flags":[]}"#, "1"] {
            #expect(try await onThread { try wire.response() }.body == body)
        }
        for byte in post.utf8 { try wire.send([byte]) }
        #expect(try await onThread { try wire.response() }.body == #"{"flags":[]}"#)
        await gateway.shutDown()
    }

    @Test("many requests that arrive at once are answered in order")
    func flood() async throws {
        let gateway = try await Self.gateway()
        let requests = (0..<3000).map { "GET /\($0) HTTP/1.1\r\nHost: \($0 % 2 == 0 ? "localhost" : "evil")\r\n\r\n" }
        let wire = try Wire(gateway.port)
        wire.startSending(Array(requests.joined().utf8))
        let statuses = try await onThread { try requests.map { _ in try wire.response().status } }
        #expect(statuses == requests.indices.map { $0 % 2 == 0 ? 404 : 421 })
        await gateway.shutDown()
    }

    @Test("a client that disconnects without reading the responses to many requests does not exhaust the stack")
    func abandonedFlood() async throws {
        let agent = try await TestAgent(["text": .string(String(repeating: "x", count: 1_000_000))])
        let gateway = try await GatewayUnderTest(
            agent, #""access": "anyone", "namespaces": { "default": { "config": true } }"#)
        // The first responses fill the buffers of the socket. The other requests wait in the gateway.
        let large = String(repeating: "GET /v1/config/default HTTP/1.1\r\nHost: localhost\r\n\r\n", count: 16)
        let small = String(repeating: "GET / HTTP/1.1\r\nHost: evil\r\n\r\n", count: 4000)
        try await onThread {
            let wire = try Wire(gateway.port)
            wire.flood(Array((large + small).utf8))
            wire.resetAtEnd()
        }
        #expect(try await gateway.get("/healthz").status == 200)
        await gateway.shutDown()
    }

    @Test("a client that waits before it sends the body gets 100, or the error at once")
    func expectation() async throws {
        let gateway = try await Self.gateway()
        func head(_ target: String) -> String {
            "POST \(target) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n"
        }
        let wire = try Wire(gateway.port)
        try wire.send(head("/ofrep/v1/evaluate/flags"))
        #expect(try await onThread { try wire.response(hasBody: false) }.status == 100)
        try wire.send("{}")
        let response = try await onThread { try wire.response() }
        #expect(response.status == 200 && response.body == #"{"flags":[]}"#)
        let refused = try Wire(gateway.port)
        try refused.send(head("/nowhere"))
        let error = try await onThread { try refused.response() }
        #expect(error.status == 404 && error["connection"] == "close")
        await gateway.shutDown()
    }

    @Test("a shutdown answers the request in progress and the first one of a connection, and closes idle ones")
    func shutdown() async throws {
        let gateway = try await Self.gateway()
        let new = try Wire(gateway.port)
        let (idle, busy) = (try Wire(gateway.port), try Wire(gateway.port))
        try busy.send("POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{")
        // The next request is answered after the first part of the previous one was read.
        try idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        _ = try await onThread { try idle.response() }
        async let end: Void = gateway.shutDown()
        try await onThread { try idle.waitForEnd() }
        try new.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let first = try await onThread { try new.response() }
        #expect(first.status == 200 && first["connection"] == "close")
        try busy.send("}")
        let response = try await onThread { try busy.response() }
        #expect(response.status == 200 && response["connection"] == "close")
        await end
    }
}
