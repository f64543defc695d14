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

    /// Sends two requests. The server ends the connection of the second one without a response.
    private func second(_ change: (inout FetchRequest) -> Void) async throws -> (FetchResponse?, requests: Int) {
        let server = try RawOrigin.listening { number, _ in number == 1 ? [.close] : [.send(ok("{}"))] }
        let response = try await withFetcher { fetcher in
            var request = FetchRequest(url: server.url, timeouts: .long)
            _ = try await fetcher.fetch(request)
            change(&request)
            return try? await fetcher.fetch(request)
        }
        server.stop()
        return (response, server.requests.count)
    }

    @Test("a request is repeated once if its reused connection ends without a response")
    func once() async throws {
        let (response, requests) = try await second { _ in }
        #expect(response != nil && requests == 3)
    }

    @Test("a long poll is not repeated if its reused connection ends without a response")
    func longPoll() async throws {
        let (response, requests) = try await second { $0.awaitsChange = true }
        #expect(response == nil && requests == 2)
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
        let server = try RawOrigin.listening { number, _ in number == 0 ? [.send(ok("{}"))] : [.close] }
        let error = try await withFetcher { fetcher in
            let request = FetchRequest(url: server.url, timeouts: .long)
            _ = try await fetcher.fetch(request)
            return try await #require(throws: UpstreamError.self) { try await fetcher.fetch(request) }
        }
        server.stop()
        #expect(error.code == .connectionClosed)
        #expect(server.requests.count == 3)
    }

    @Test("a request is repeated if stray bytes after a 304 arrive instead of its response")
    func strayBytes() async throws {
        let server = try RawOrigin.listening { number, _ in
            switch number {
            case 0: [.send("HTTP/1.1 304 X\r\nETag: \"1\"\r\n\r\n")]
            case 1: [.send("{\"stray\": true}")]
            default: [.send(ok("{}"))]
            }
        }
        let response = try await withFetcher { fetcher in
            let request = FetchRequest(
                url: server.url, validator: Validator(etag: "\"1\"", url: server.url), timeouts: .long)
            _ = try await fetcher.fetch(request)
            return try await fetcher.fetch(request).requireDocument()
        }
        server.stop()
        #expect(response.body == Array("{}".utf8))
        #expect(server.requests.count == 3)
    }
}
