import LarderHTTPSemantics
import LarderUpstream
import NIOCore
import NIOPosix
import TestSupport
import Testing

@Suite("Fetch requests", .timeLimit(.minutes(15)))
struct RequestTests {
    @Test("a request has the User-Agent, the caller's headers and the unchanged validator")
    func fields() async throws {
        let server = try RawOrigin.listening([.send(ok("{}"))])
        try await withFetcher { fetcher in
            let validator = Validator(
                etag: "W/\"a b\"", lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", url: server.url + "p?q=%20")
            let request = FetchRequest(
                url: server.url + "p?q=%20#f", headers: [("accept", "application/json")], validator: validator,
                timeouts: .long)
            _ = try await fetcher.fetch(request)
        }
        server.stop()
        let request = try #require(server.requests.first)
        let lines = request.split(separator: "\r\n").map(String.init)
        #expect(lines.first == "GET /p?q=%20 HTTP/1.1")
        #expect(lines.contains("User-Agent: larder/1.2.3"))
        #expect(lines.contains("accept: application/json"))
        #expect(!lines.contains("Accept: */*"))
        #expect(lines.contains("If-None-Match: W/\"a b\""))
        #expect(lines.contains("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"))
    }

    @Test("the validator, media type and Retry-After of a response are returned")
    func metadata() async throws {
        let answer = try await document { _, _ in
            [
                .send(
                    ok(
                        "{}",
                        "ETag: \"x\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: "
                            + "Application/JSON; charset=utf-8\r\nRetry-After: 9\r\n"))
            ]
        }
        #expect(
            answer.validator
                == Validator(etag: "\"x\"", lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", url: answer.metadata.url))
        #expect(answer.metadata.mediaType == "application/json")
        #expect(answer.metadata.retryAfter == .seconds(9))
    }

    @Test("white space around field values does not belong to the values")
    func whiteSpace() async throws {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let answer = try await document { number, request in
            if number == 0 { return [.send("HTTP/1.1 302 X\r\nLocation: \t/b \t\r\nContent-Length: 0\r\n\r\n")] }
            let fields =
                "ETag:\t\"x\"\t\r\nLast-Modified: \(date) \r\nRetry-After: 9 \r\nContent-Encoding: identity \r\n"
            return [.send(ok(request.hasPrefix("GET /b HTTP/1.1\r\n") ? "good" : "bad", fields + "X-Empty: \t \r\n"))]
        }
        #expect(answer.body == Array("good".utf8))
        #expect(answer.validator == Validator(etag: "\"x\"", lastModified: date, url: answer.metadata.url))
        #expect(answer.metadata.retryAfter == .seconds(9))
    }

    @Test("a 304 to a request without a validator is an error")
    func unexpectedNotModified() async throws {
        let error = try await failure { _, _ in [.send("HTTP/1.1 304 X\r\n\r\n")] }
        #expect(error.code == .malformedAnswer)
    }

    @Test(
        "a 304 with another validator is followed by one request without conditions",
        arguments: [
            "ETag: \"2\"", "ETag: W/\"2\"", "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT",
            "ETag: W/\"1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:38 GMT",
        ])
    func otherNotModified(_ fields: String) async throws {
        let server = try RawOrigin.listening { _, request in
            [.send(request.contains("\r\nIf-") ? "HTTP/1.1 304 X\r\n\(fields)\r\n\r\n" : ok("{}"))]
        }
        let answer = try await withFetcher { fetcher in
            let validator = Validator(
                etag: "\"1\"", lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", url: server.url)
            return try await fetcher.fetch(FetchRequest(url: server.url, validator: validator, timeouts: .long))
        }
        server.stop()
        #expect(try answer.requireDocument().body == Array("{}".utf8))
        #expect(server.requests.map { $0.contains("\r\nIf-") } == [true, false])
    }

    @Test("a 304 with another validator, and then a 304 to the request without conditions, is an error")
    func alwaysNotModified() async throws {
        let server = try RawOrigin.listening([.send("HTTP/1.1 304 X\r\nETag: \"2\"\r\n\r\n")])
        let error = try await withFetcher { fetcher in
            let request = FetchRequest(
                url: server.url, validator: Validator(etag: "\"1\"", url: server.url), timeouts: .long)
            return try await #require(throws: UpstreamError.self) { try await fetcher.fetch(request) }
        }
        server.stop()
        #expect(error.code == .malformedAnswer)
        #expect(server.requests.count == 2)
    }

    @Test(
        "an invalid URL is rejected, and the error does not contain its password",
        arguments: [
            "", "not a url", "/path", "ftp://h/", "file:///etc/passwd", "http+unix://%2Ftmp%2Fs/", "http://",
            "http:///x", "http://u:hunter2@h/", "http://h:0/", "http://h:99999/", "http://h/\u{1}",
        ])
    func invalidURL(_ url: String) async throws {
        try await withFetcher { fetcher in
            let error = try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(FetchRequest(url: url, timeouts: .long))
            }
            #expect(error.code == .invalidURL)
            #expect(!error.isRetryable)
            #expect(!error.message.contains("hunter2"))
        }
    }

    @Test("a header with a line break is an invalid request")
    func invalidHeader() async throws {
        try await withFetcher { fetcher in
            let error = try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(
                    FetchRequest(url: "http://127.0.0.1:9/", headers: [("X-A", "b\r\nc: d")], timeouts: .long))
            }
            #expect(error.code == .invalidRequest)
        }
    }

    @Test("the error of a refused connection names host, port and reason, but not the query")
    func refused() async throws {
        let server = try RawOrigin.listening([.send("")])
        server.stop()
        try await withFetcher { fetcher in
            let error = try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(FetchRequest(url: server.url + "?token=hunter2", timeouts: .long))
            }
            #expect(error.code == .connectFailed)
            #expect(error.message.contains("127.0.0.1:\(server.port)"))
            #expect(error.message.contains("Connection refused"))
            #expect(!error.message.contains("hunter2"))
        }
    }

    @Test("the error for a host name that does not resolve contains the name")
    func unknownName() async throws {
        try await withFetcher { fetcher in
            let error = try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(FetchRequest(url: "http://larder.invalid/", timeouts: .long))
            }
            #expect(error.code == .connectFailed || error.code == .timeout)
            #expect(error.message.contains("larder.invalid"))
        }
    }

    @Test("cancelling the task of a request closes its connection")
    func cancellation() async throws {
        let server = try RawOrigin.listening { _, _ in [] }
        try await withFetcher { fetcher in
            let task = Task { try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long)) }
            var events = server.events.makeAsyncIterator()
            guard case .request = await events.next() else {
                return #expect(Bool(false), "the origin received no request")
            }
            task.cancel()
            let error = await #expect(throws: UpstreamError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            #expect(await events.next() == .disconnected)
        }
        server.stop()
    }

    @Test("cancelling the task of a request in the middle of the body closes its connection")
    func cancellationInBody() async throws {
        let server = try RawOrigin.listening { _, _ in [.send("HTTP/1.1 200 OK\r\n\r\n"), .trickle] }
        try await withFetcher { fetcher in
            let task = Task { try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long)) }
            var events = server.events.makeAsyncIterator()
            _ = await events.next()
            task.cancel()
            let error = await #expect(throws: UpstreamError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            #expect(await events.next() == .disconnected)
        }
        server.stop()
    }

    @Test("a request in a task that is already cancelled fails with the error `cancelled`")
    func cancelledBefore() async throws {
        let server = try RawOrigin.listening([.send(ok("{}"))])
        try await withFetcher { fetcher in
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long))
            }
            let error = await #expect(throws: UpstreamError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        server.stop()
    }

    @Test("the shutdown of a fetcher ends requests in progress and rejects new ones")
    func shutdown() async throws {
        let server = try RawOrigin.listening { _, _ in [] }
        let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
        let request = FetchRequest(url: server.url, timeouts: .long)
        let task = Task { try await fetcher.fetch(request) }
        var events = server.events.makeAsyncIterator()
        _ = await events.next()
        await fetcher.shutdown()
        await fetcher.shutdown()
        let first = await #expect(throws: UpstreamError.self) { try await task.value }
        let second = await #expect(throws: UpstreamError.self) { try await fetcher.fetch(request) }
        #expect(first?.code == .shutDown)
        #expect(second?.code == .shutDown)
        server.stop()
    }

    @Test("a fetcher runs on a given event loop group")
    func injectedLoops() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try RawOrigin.listening([.send(ok("{}"))])
        let fetcher = HTTPFetcher(
            configuration: .init(version: "1", connectTimeout: .seconds(300)), eventLoopGroup: group)
        _ = try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long)).requireDocument()
        await fetcher.shutdown()
        server.stop()
        try await group.shutdownGracefully()
    }
}
