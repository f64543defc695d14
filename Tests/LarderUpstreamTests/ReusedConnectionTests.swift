import LarderHTTPSemantics
import LarderUpstream
import NIOPosix
import TestSupport
import Testing

@Suite("Reused connections", .timeLimit(.minutes(5)))
struct ReusedConnectionTests {
    /// Responds to the first request of each connection, and closes the connection at the second one.
    private static let single = "location / { if ($connection_requests = 1) { return 200 \"x\"; } return 444; }"

    @Test("requests that arrive at closing connections are repeated over new ones, also with other idle connections")
    func repeated() async throws {
        let nginx = try Nginx(Self.single)
        let url = "http://127.0.0.1:\(nginx.port)/"
        try await withFetcher { fetcher in
            for body in [nil, Array("{}".utf8), nil] {
                try await withThrowingTaskGroup(of: [UInt8].self) { group in
                    for _ in 0..<8 {
                        group.addTask {
                            let request = FetchRequest(url: url, body: body, timeouts: .long)
                            return try await fetcher.fetch(request).requireDocument().body
                        }
                    }
                    for try await body in group { #expect(body == Array("x".utf8)) }
                }
            }
        }
        withExtendedLifetime(nginx) {}
    }

    @Test("an image request that arrives at a closing connection is repeated over a new one")
    func image() async throws {
        let nginx = try Nginx(Self.single)
        let fetcher = ImageFetcher(configuration: .init(version: "1"), resolver: SystemResolver(.singleton))
        fetcher.update(allowedNetworks: [try #require(AddressRange("127.0.0.0/8"))])
        for _ in 0..<3 {
            let request = FetchRequest(url: "http://127.0.0.1:\(nginx.port)/a", timeouts: .long)
            let body = try await fetcher.stream(request) { _, body throws(UpstreamError) -> [UInt8] in
                var bytes: [UInt8] = []
                while let piece = try await body.next() { bytes += piece }
                return bytes
            }
            #expect(body == Array("x".utf8))
        }
        await fetcher.shutdown()
    }

    /// Sends two requests, of which the second uses the connection of the first.
    /// - Returns: the outcome of the second request, and the number of requests that the server has received
    private func second(
        _ script: @escaping RawOrigin.Script, validator: Bool = false, _ change: (inout FetchRequest) -> Void = { _ in }
    ) async throws -> (Result<FetchResponse, any Error>, requests: Int) {
        while true {
            let server = try RawOrigin.listening(script: script)
            let outcome = try await withFetcher { fetcher -> Result<FetchResponse, any Error> in
                var request = FetchRequest(url: server.url, timeouts: .long)
                if validator { request.validator = Validator(etag: "\"1\"", url: server.url) }
                _ = try await fetcher.fetch(request)
                change(&request)
                do { return .success(try await fetcher.fetch(request)) } catch { return .failure(error) }
            }
            server.stop()
            // A busy machine may not have returned the connection to the pool yet.
            if server.connectionCounts[1] == 1 { return (outcome, server.requests.count) }
        }
    }

    private static let closing: RawOrigin.Script = { number, _ in number == 1 ? [.close] : [.send(ok("{}"))] }

    @Test("a request is repeated once if its reused connection ends without a response")
    func once() async throws {
        let (outcome, requests) = try await second(Self.closing)
        #expect(throws: Never.self) { try outcome.get() }
        #expect(requests == 3)
    }

    @Test("a long poll is not repeated if its reused connection ends without a response")
    func longPoll() async throws {
        let (outcome, requests) = try await second(Self.closing) { $0.awaitsChange = true }
        #expect(throws: UpstreamError.self) { try outcome.get() }
        #expect(requests == 2)
    }

    @Test("a request whose new connection ends without a response is not repeated")
    func new() async throws {
        let server = try RawOrigin.listening([.close])
        let error = try await withFetcher { fetcher in
            try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long))
            }
        }
        server.stop()
        #expect(error.code == .connectionClosed)
        #expect(server.requests.count == 1)
    }

    @Test("a request is repeated once, and its second connection is not, if no connection has a response")
    func twice() async throws {
        let (outcome, requests) = try await second { number, _ in number == 0 ? [.send(ok("{}"))] : [.close] }
        let error = #expect(throws: UpstreamError.self) { try outcome.get() }
        #expect(error?.code == .connectionClosed)
        #expect(requests == 3)
    }

    @Test("a request is repeated if stray bytes after a 304 arrive instead of its response")
    func strayBytes() async throws {
        let script: RawOrigin.Script = { number, _ in
            switch number {
            case 0: [.send("HTTP/1.1 304 X\r\nETag: \"1\"\r\n\r\n")]
            case 1: [.send("{\"stray\": true}")]
            default: [.send(ok("{}"))]
            }
        }
        let (outcome, requests) = try await second(script, validator: true)
        #expect(try outcome.get().requireDocument().body == Array("{}".utf8))
        #expect(requests == 3)
    }
}
