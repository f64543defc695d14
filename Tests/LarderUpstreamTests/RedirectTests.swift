import LarderHTTPSemantics
import LarderUpstream
import TestSupport
import Testing

@Suite("Redirects", .timeLimit(.minutes(15)))
struct RedirectTests {
    @Test(
        "a redirect to a relative URL is followed, and the final URL is reported",
        arguments: [301, 302, 303, 307, 308])
    func followed(_ status: Int) async throws {
        let answer = try await document { number, request in
            number == 0
                ? [.send("HTTP/1.1 \(status) X\r\nLocation: sub/doc?x=1#part\r\nContent-Length: 0\r\n\r\n")]
                : [.send(ok(request.hasPrefix("GET /sub/doc?x=1 HTTP/1.1\r\n") ? "good" : "bad"))]
        }
        #expect(answer.body == Array("good".utf8))
        #expect(answer.metadata.url.hasSuffix("/sub/doc?x=1"))
    }

    @Test("a redirect loop ends after five redirects")
    func loop() async throws {
        let server = try RawOrigin.listening([.send("HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")])
        let error = try await withFetcher { fetcher in
            try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long))
            }
        }
        server.stop()
        #expect(error.code == .tooManyRedirects)
        #expect(server.requests.count == 6)
    }

    @Test(
        "a redirect without an HTTP or HTTPS URL is an error",
        arguments: ["", "Location: \r\n", "Location: ftp://x/\r\n"])
    func unusable(_ field: String) async throws {
        let error = try await failure { _, _ in [.send("HTTP/1.1 302 X\r\n\(field)Content-Length: 0\r\n\r\n")] }
        #expect(error.code == .invalidRedirect)
    }

    @Test("a 304 with a Location is not a redirect")
    func notModifiedWithLocation() async throws {
        let server = try RawOrigin.listening([
            .send(
                "HTTP/1.1 304 X\r\nLocation: http://127.0.0.1:1/\r\nETag: \"2\"\r\n\r\n")
        ])
        let response = try await withFetcher { fetcher in
            try await fetcher.fetch(
                FetchRequest(url: server.url, validator: Validator(etag: "\"1\""), timeouts: .long))
        }
        server.stop()
        guard case .notModified(let metadata) = response else { return #expect(Bool(false), "\(response)") }
        #expect(metadata.validator?.etag == "\"2\"")
    }

    @Test("a redirect to another origin drops the caller's headers and keeps the validator")
    func credentials() async throws {
        let second = try RawOrigin.listening([.send(ok("{}"))])
        let first = try RawOrigin.listening([
            .send(
                "HTTP/1.1 302 X\r\nLocation: \(second.url)\r\nContent-Length: 0\r\n\r\n")
        ])
        try await withFetcher { fetcher in
            let request = FetchRequest(
                url: first.url, headers: [("Authorization", "Bearer secret"), ("X-Api-Key", "secret")],
                validator: Validator(etag: "\"1\""), timeouts: .long)
            _ = try await fetcher.fetch(request).requireDocument()
        }
        first.stop()
        second.stop()
        #expect(first.requests.first?.contains("Bearer secret") == true)
        let request = try #require(second.requests.first)
        #expect(!request.contains("secret"))
        #expect(request.contains("If-None-Match: \"1\""))
    }
}
