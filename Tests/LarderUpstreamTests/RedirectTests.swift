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
                "HTTP/1.1 304 X\r\nLocation: http://127.0.0.1:1/\r\nETag: \"1\"\r\n\r\n")
        ])
        let response = try await withFetcher { fetcher in
            try await fetcher.fetch(
                FetchRequest(
                    url: server.url, validator: Validator(etag: "\"1\"", url: server.url), timeouts: .long))
        }
        server.stop()
        guard case .notModified(let metadata) = response else { return #expect(Bool(false), "\(response)") }
        #expect(metadata.validator?.etag == "\"1\"")
    }

    @Test("a redirect to another origin drops the caller's headers")
    func credentials() async throws {
        let second = try RawOrigin.listening([.send(ok("{}"))])
        let first = try RawOrigin.listening([
            .send(
                "HTTP/1.1 302 X\r\nLocation: \(second.url)\r\nContent-Length: 0\r\n\r\n")
        ])
        try await withFetcher { fetcher in
            let request = FetchRequest(
                url: first.url, headers: [("Authorization", "Bearer secret"), ("X-Api-Key", "secret")],
                timeouts: .long)
            _ = try await fetcher.fetch(request).requireDocument()
        }
        first.stop()
        second.stop()
        #expect(first.requests.first?.contains("Bearer secret") == true)
        let request = try #require(second.requests.first)
        #expect(!request.contains("secret"))
    }

    /// The paths of the requests that have a condition or ask for a part, for a chain from `/a` over `/b` to `/c`.
    private func conditionalPaths(
        _ final: String, _ change: (inout FetchRequest, String) -> Void
    ) async throws -> (Result<FetchResponse, any Error>, [String]) {
        let server = try RawOrigin.listening { _, request in
            let next = request.hasPrefix("GET /a ") ? "/b" : request.hasPrefix("GET /b ") ? "/c" : nil
            return [.send(next.map { "HTTP/1.1 302 X\r\nLocation: \($0)\r\nContent-Length: 0\r\n\r\n" } ?? final)]
        }
        let result = try await withFetcher { fetcher in
            var request = FetchRequest(url: server.url + "a", timeouts: .long)
            change(&request, server.url)
            do { return Result<FetchResponse, any Error>.success(try await fetcher.fetch(request)) } catch {
                return .failure(error)
            }
        }
        server.stop()
        #expect(server.requests.count == 3)
        let names = ["If-None-Match: \"1\"", "If-Modified-Since: yesterday", "Range: bytes=7-", "If-Range: \"1\""]
        let conditional = server.requests.filter { request in names.contains(where: request.contains) }
        return (result, conditional.map { String($0.dropFirst(5).prefix(1)) })
    }

    @Test("a validator is sent only to the URL that issued it", arguments: ["a", "b", "c", "d"])
    func validators(_ issuer: String) async throws {
        let (result, paths) = try await conditionalPaths("HTTP/1.1 304 X\r\n\r\n") { request, base in
            request.validator = Validator(etag: "\"1\"", lastModified: "yesterday", url: base + issuer)
        }
        #expect(paths == (issuer == "d" ? [] : [issuer]))
        // A 304 of another URL does not confirm the document.
        if issuer == "c" {
            guard case .success(.notModified) = result else { return #expect(Bool(false), "\(result)") }
        } else {
            guard case .failure = result else { return #expect(Bool(false), "\(result)") }
        }
    }

    @Test("a validator without a URL is never sent")
    func validatorOfNoURL() async throws {
        let (_, paths) = try await conditionalPaths(ok("{}")) { request, _ in
            request.validator = Validator(etag: "\"1\"")
        }
        #expect(paths.isEmpty)
    }

    @Test("the rest of a body is requested only from the URL that sent its start", arguments: ["a", "b", "c", "d"])
    func parts(_ sender: String) async throws {
        let (_, paths) = try await conditionalPaths(ok("{}")) { request, base in
            request.missingPart = MissingPart(url: base + sender, offset: 7, tag: "\"1\"")
        }
        #expect(paths == (sender == "d" ? [] : [sender]))
    }

    @Test("an added query member is sent only to the URL of the request, and does not change its validator")
    func addedQuery() async throws {
        let server = try RawOrigin.listening { number, request in
            let isFirst = request.hasPrefix("GET /a?wait=3 HTTP/1.1\r\n") && request.contains("If-None-Match: \"1\"")
            let isSecond = request.hasPrefix("GET /b HTTP/1.1\r\n")
            return [
                .send(
                    number == 0 && isFirst
                        ? "HTTP/1.1 302 X\r\nLocation: b\r\nContent-Length: 0\r\n\r\n"
                        : ok(isSecond ? "good" : "bad"))
            ]
        }
        let document = try await withFetcher { fetcher in
            var request = FetchRequest(
                url: server.url + "a", validator: Validator(etag: "\"1\"", url: server.url + "a"), timeouts: .long)
            request.addedQuery = "wait=3"
            return try await fetcher.fetch(request).requireDocument()
        }
        server.stop()
        #expect(document.body == Array("good".utf8))
    }
}
