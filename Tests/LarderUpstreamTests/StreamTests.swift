import Foundation
import LarderHTTPSemantics
import LarderUpstream
import TestSupport
import Testing

@Suite("Streamed responses", .timeLimit(.minutes(15)))
struct StreamTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    private static func chunk(_ text: String) -> String {
        "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n"
    }

    /// Reads the body to its end, or until the text so far ends with `end`.
    private static func text(_ body: inout StreamBody, to end: String? = nil) async throws(UpstreamError) -> String {
        var bytes: [UInt8] = []
        while let piece = try await body.next() {
            bytes += piece
            if let end, String(decoding: bytes, as: UTF8.self).hasSuffix(end) { break }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("each piece of a stream is delivered before the origin sends the next one, and the end is reported")
    func pieces() async throws {
        let server = try RawOrigin.listening { _, _ in [.send(Self.head)] }
        try await withFetcher { fetcher in
            let result = try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                head, body throws(UpstreamError) in
                #expect(head.status == 200)
                #expect(head.problem == nil)
                #expect(head.metadata.mediaType == "text/event-stream")
                var all = ""
                for number in 0..<3 {
                    server.send(Self.chunk("piece \(number);"))
                    all += try await Self.text(&body, to: ";")
                }
                server.send("0\r\n\r\n")
                #expect(try await body.next() == nil)
                return all
            }
            #expect(result == "piece 0;piece 1;piece 2;")
        }
        server.stop()
    }

    @Test("a compressed stream is decoded, however many bytes it has in total", arguments: [false, true])
    func compressed(_ isTruncated: Bool) async throws {
        let size = 40 << 20
        let bytes = try gzip(Data(repeating: UInt8(ascii: "x"), count: size)).dropLast(isTruncated ? 8 : 0)
        let server = try RawOrigin.listening { _, _ in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n"),
                .send(Array(bytes)),
            ]
        }
        try await withFetcher { fetcher in
            try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                _, body throws(UpstreamError) in
                var count = 0
                do throws(UpstreamError) {
                    while let piece = try await body.next() {
                        #expect(piece.allSatisfy { $0 == UInt8(ascii: "x") })
                        count += piece.count
                    }
                    #expect(!isTruncated)
                } catch {
                    #expect(isTruncated && error.code == .truncated)
                }
                #expect(count == size)
            }
        }
        server.stop()
    }

    @Test("an event of a compressed stream is delivered before the origin sends the next one")
    func compressedPieces() async throws {
        let first = try gzip(Data("first;".utf8))
        let second = try gzip(Data("second;".utf8))
        let server = try RawOrigin.listening { _, _ in
            [
                .send(
                    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(first.count + second.count)\r\n\r\n"
                ),
                .send(first),
            ]
        }
        try await withFetcher { fetcher in
            try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                _, body throws(UpstreamError) in
                #expect(try await Self.text(&body, to: ";") == "first;")
                server.send(second)
                #expect(try await Self.text(&body, to: ";") == "second;")
                #expect(try await body.next() == nil)
            }
        }
        server.stop()
    }

    @Test("small pieces are collected into blocks; the bytes before an error are delivered before it is thrown")
    func blocks() async throws {
        let pieces = (0..<1000).map { _ in Self.chunk("x") }.joined()
        let server = try RawOrigin.listening { number, _ in
            number == 0
                ? [.send(Self.head + pieces + "0\r\n\r\n")] : [.send(Self.head + Self.chunk("abc")), .close]
        }
        try await withFetcher { fetcher in
            let counts = try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                _, body throws(UpstreamError) in
                var counts: [Int] = []
                while let block = try await body.next(atLeast: 600) { counts.append(block.count) }
                let end = try await body.next(atLeast: 600)
                #expect(end == nil)
                return counts
            }
            #expect(counts == [600, 400])
            try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                _, body throws(UpstreamError) in
                let first = try await body.next(atLeast: 600)
                #expect(first == Array("abc".utf8))
                for _ in 0..<2 {
                    do throws(UpstreamError) {
                        _ = try await body.next(atLeast: 600)
                        Issue.record("no error")
                    } catch {
                        #expect(error.code == .truncated)
                    }
                }
            }
        }
        server.stop()
    }

    @Test("a stream can last longer than the time limit for the response head")
    func endless() async throws {
        let server = try RawOrigin.listening { _, _ in [.send(Self.head)] }
        let clock = ManualClock()
        let timeouts = FetchTimeouts(idle: .seconds(3600), whole: .seconds(60))
        try await withFetcher { fetcher in
            try await fetcher.stream(FetchRequest(url: server.url, timeouts: timeouts), clock: clock) {
                _, body throws(UpstreamError) in
                clock.advance(by: .seconds(120))
                server.send(Self.chunk("late;"))
                #expect(try await Self.text(&body, to: ";") == "late;")
                body.allow(.seconds(60))
                server.send(Self.chunk("later;"))
                #expect(try await Self.text(&body, to: ";") == "later;")
            }
        }
        server.stop()
    }

    @Test(
        "an origin that sends nothing after the response head causes a timeout, which closes the connection",
        arguments: [false, true])
    func silence(_ isLimited: Bool) async throws {
        let server = try RawOrigin.listening { _, _ in [.send(Self.head)] }
        let clock = ManualClock()
        let timeouts = FetchTimeouts(idle: .seconds(isLimited ? 3600 : 30), whole: .seconds(60))
        try await withFetcher { fetcher in
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                try await fetcher.stream(FetchRequest(url: server.url, timeouts: timeouts), clock: clock) {
                    _, body throws(UpstreamError) in
                    if isLimited { body.allow(.seconds(60)) }
                    start.yield()
                    return try await Self.text(&body)
                }
            }
            for await _ in started { break }
            var events = server.events.makeAsyncIterator()
            _ = await events.next()
            // Advances the clock repeatedly, because the reader may start to wait at any time.
            let ticking = Task {
                while !Task.isCancelled {
                    clock.advance(by: .seconds(30))
                    await Task.yield()
                }
            }
            let error = await #expect(throws: UpstreamError.self) { try await task.value }
            ticking.cancel()
            #expect(error?.code == .timeout)
            #expect(error?.message.contains(isLimited ? "completely" : "sent nothing") == true)
            #expect(await events.next() == .disconnected)
        }
        server.stop()
    }

    @Test("a stream from an origin that accepts the connection and sends nothing causes a timeout")
    func noHead() async throws {
        let server = try RawOrigin.listening { _, _ in [] }
        let timeouts = FetchTimeouts(idle: .seconds(86_400), whole: .milliseconds(100))
        try await withFetcher { fetcher in
            let error = await #expect(throws: UpstreamError.self) {
                try await fetcher.stream(FetchRequest(url: server.url, timeouts: timeouts)) { _, _ in }
            }
            #expect(error?.code == .timeout)
        }
        server.stop()
    }

    @Test("a connection that closes before the end of the response is an error")
    func truncated() async throws {
        let server = try RawOrigin.listening { _, _ in [.send(Self.head + Self.chunk("half")), .close] }
        try await withFetcher { fetcher in
            let error = await #expect(throws: UpstreamError.self) {
                try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                    _, body throws(UpstreamError) in
                    try await Self.text(&body)
                }
            }
            #expect(error?.code == .truncated)
        }
        server.stop()
    }

    @Test("cancelling the task that reads a stream closes the connection", arguments: [true, false])
    func cancellation(_ afterHead: Bool) async throws {
        let server = try RawOrigin.listening { _, _ in afterHead ? [.send(Self.head)] : [] }
        try await withFetcher { fetcher in
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                    _, body throws(UpstreamError) in
                    start.yield()
                    return try await Self.text(&body)
                }
            }
            var events = server.events.makeAsyncIterator()
            _ = await events.next()
            if afterHead { for await _ in started { break } }
            task.cancel()
            #expect(await #expect(throws: UpstreamError.self) { try await task.value }?.code == .cancelled)
            #expect(await events.next() == .disconnected)
        }
        server.stop()
    }

    @Test("a reader that returns before the end of the stream closes the connection")
    func earlyReturn() async throws {
        let server = try RawOrigin.listening { _, _ in [.send(Self.head + Self.chunk("first;"))] }
        try await withFetcher { fetcher in
            let text = try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                _, body throws(UpstreamError) in
                try await Self.text(&body, to: ";")
            }
            #expect(text == "first;")
            var events = server.events.makeAsyncIterator()
            _ = await events.next()
            #expect(await events.next() == .disconnected)
        }
        server.stop()
    }

    @Test("an error status is reported as a problem, and the body of the response can be read")
    func status() async throws {
        let server = try RawOrigin.listening([
            .send(
                "HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 6\r\n\r\nreason")
        ])
        try await withFetcher { fetcher in
            try await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                head, body throws(UpstreamError) in
                #expect(head.status == 503)
                #expect(head.problem?.code == .status)
                #expect(head.problem?.retryAfter == .seconds(7))
                #expect(try await Self.text(&body) == "reason")
            }
        }
        server.stop()
    }

    @Test("the number of concurrent streams from one server is not limited")
    func many() async throws {
        let server = try RawOrigin.listening { _, _ in [.send(Self.head + Self.chunk("hello;"))] }
        try await withFetcher { fetcher in
            await withTaskGroup(of: Void.self) { group in
                let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
                for _ in 0..<20 {
                    group.addTask {
                        // Errors are ignored here. If a stream fails, the loop below waits for its text in vain, until
                        // the time
                        // limit of the test.
                        try? await fetcher.stream(FetchRequest(url: server.url, timeouts: .long)) {
                            _, body throws(UpstreamError) in
                            _ = try await Self.text(&body, to: ";")
                            arrived.yield()
                            _ = try await Self.text(&body)
                        }
                    }
                }
                var iterator = arrivals.makeAsyncIterator()
                for _ in 0..<20 { await iterator.next() }
                group.cancelAll()
            }
        }
        server.stop()
    }
}

@Suite("POST", .timeLimit(.minutes(15)))
struct PostTests {
    @Test("a POST body is JSON unless a header specifies another type, and the request is never conditional")
    func post() async throws {
        let server = try RawOrigin.listening([.send(ok("{}"))])
        try await withFetcher { fetcher in
            for headers in [[], [("Content-Type", "application/graphql")]] {
                let request = FetchRequest(
                    url: server.url, headers: headers, validator: Validator(etag: "\"1\"", url: server.url),
                    body: Array("{\"q\":1}".utf8), timeouts: .long)
                _ = try await fetcher.fetch(request).requireDocument()
            }
        }
        server.stop()
        #expect(server.requests.allSatisfy { $0.hasPrefix("POST / HTTP/1.1\r\n") && $0.hasSuffix("\r\n\r\n{\"q\":1}") })
        #expect(server.requests.allSatisfy { !$0.contains("If-None-Match") })
        #expect(server.requests.first?.contains("Content-Type: application/json\r\n") == true)
        #expect(server.requests.last?.contains("Content-Type: application/graphql\r\n") == true)
    }

    @Test("a redirect that would drop the body or send it to another origin is rejected", arguments: [301, 302, 303])
    func redirected(_ status: Int) async throws {
        let error = try await failure({ $0.body = [] }) { _, _ in
            [.send("HTTP/1.1 \(status) X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n")]
        }
        #expect(error.code == .invalidRedirect)
        let elsewhere = try await failure({ $0.body = [] }) { _, _ in
            [.send("HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")]
        }
        #expect(elsewhere.code == .invalidRedirect)
    }

    @Test("a redirect that keeps the method and the origin is followed", arguments: [307, 308])
    func kept(_ status: Int) async throws {
        let answer = try await document({ $0.body = Array("x".utf8) }) { number, request in
            number == 0
                ? [.send("HTTP/1.1 \(status) X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n")]
                : [.send(ok(request.hasPrefix("POST /x ") && request.hasSuffix("\r\nx") ? "good" : "bad"))]
        }
        #expect(answer.body == Array("good".utf8))
    }
}
