import Foundation
import LarderHTTPSemantics
import LarderUpstream
import TestSupport
import Testing

@Suite("nginx as origin", .timeLimit(.minutes(15)))
struct NginxTests {
    @Test("an unchanged document is answered with 304, a changed document with 200")
    func conditional() async throws {
        let nginx = try Nginx()
        try nginx.write("{\"a\":1}", to: "c.json")
        try await withFetcher { fetcher in
            var request = FetchRequest(url: nginx.url("c.json"), timeouts: .long)
            let first = try await fetcher.fetch(request).requireDocument()
            #expect(first.body == Array("{\"a\":1}".utf8))
            #expect(first.metadata.mediaType == "application/json")
            request.validator = first.validator
            guard case .notModified = try await fetcher.fetch(request) else {
                return #expect(Bool(false), "the validator was not honored: \(String(describing: first.validator))")
            }
            try nginx.write("{\"a\":22}", to: "c.json")
            let second = try await fetcher.fetch(request).requireDocument()
            #expect(second.body == Array("{\"a\":22}".utf8))
            #expect(second.validator != first.validator)
        }
    }

    @Test("a compressed document is decoded, and a request with its weak validator gets 304")
    func compressed() async throws {
        let nginx = try Nginx("gzip on; gzip_min_length 1; gzip_types application/json;")
        let text = "{\"list\":[" + (0..<5_000).map(String.init).joined(separator: ",") + "]}"
        try nginx.write(text, to: "c.json")
        try await withFetcher { fetcher in
            var request = FetchRequest(url: nginx.url("c.json"), timeouts: .long)
            let first = try await fetcher.fetch(request).requireDocument()
            #expect(first.body == Array(text.utf8))
            #expect(first.validator?.etag?.hasPrefix("W/") == true, "nginx did not compress the document")
            request.validator = first.validator
            guard case .notModified = try await fetcher.fetch(request) else {
                return #expect(Bool(false), "the validator was not honored")
            }
        }
    }

    @Test("the size limit counts decoded bytes")
    func compressedTooLarge() async throws {
        let nginx = try Nginx("gzip on; gzip_min_length 1; gzip_types application/json;")
        try nginx.write("[" + String(repeating: "1, ", count: 50_000) + "1]", to: "c.json")
        try await withFetcher { fetcher in
            let request = FetchRequest(
                url: nginx.url("c.json"), timeouts: .long, maximumBytes: 100_000)
            let error = try await #require(throws: UpstreamError.self) { try await fetcher.fetch(request) }
            #expect(error.code == .tooLarge)
        }
    }

    @Test("an unusable response is reported with the right code, status and Retry-After")
    func failures() async throws {
        let nginx = try Nginx(
            "location = /500 { return 500; } location = /503 { add_header Retry-After 7 always; return 503; }")
        try nginx.write("", to: "empty.json")
        try await withFetcher { fetcher in
            let cases: [(String, UpstreamError.Code, Int)] = [
                ("500", .status, 500), ("503", .status, 503), ("nothing", .status, 404), ("empty.json", .empty, 200),
            ]
            for (path, code, status) in cases {
                let error = try await #require(throws: UpstreamError.self) {
                    try await fetcher.fetch(
                        FetchRequest(url: nginx.url(path), timeouts: .long))
                }
                #expect(error.code == code)
                #expect(error.status == status)
                #expect(error.retryAfter == (status == 503 ? .seconds(7) : nil))
            }
        }
    }

    @Test("a certificate of an unknown authority is rejected, and the error says what to do")
    func certificates() async throws {
        let nginx = try Nginx(tls: true, http2: true) { directory in
            try Certificates(directory: directory).makeSelfSigned(
                "server", "larder test", alternative: "IP:127.0.0.1")
        }
        try nginx.write("{\"a\":1}", to: "c.json")
        let request = FetchRequest(url: nginx.url("c.json"), timeouts: .long)
        try await withFetcher { fetcher in
            let error = try await #require(throws: UpstreamError.self) { try await fetcher.fetch(request) }
            #expect(error.code == .tlsFailed)
            #expect(error.message.contains("certificateAuthority"))
            #expect(!error.message.contains(".cc"), "\(error)")
        }
    }

    @Test("the limit of a request applies to a compressed body, whether it is low or high")
    func compressedLimit() async throws {
        let bytes = try gzip(Data(count: 40 << 20))
        let server = try RawOrigin.listening { _, _ in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n"),
                .send(bytes),
            ]
        }
        try await withFetcher { fetcher in
            var request = FetchRequest(url: server.url, timeouts: .long, maximumBytes: (40 << 20) - 1)
            let error = try await #require(throws: UpstreamError.self) { try await fetcher.fetch(request) }
            #expect(error.code == .tooLarge)
            #expect(error.message.contains("limits.documentBytes"))
            request.maximumBytes += 1
            #expect(try await fetcher.fetch(request).requireDocument().body.count == 40 << 20)
        }
        server.stop()
    }

    @Test("a compressed body without content is limited, too")
    func emptyMembers() async throws {
        let member = try gzip(Data())
        let bytes = [[UInt8]](repeating: member, count: 4096 / member.count).flatMap(\.self)
        let error = try await failure({ $0.maximumBytes = 1024 }) { _, _ in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"),
                .send("\(String(bytes.count, radix: 16))\r\n"), .send(bytes), .send("\r\n0\r\n\r\n"),
            ]
        }
        #expect(error.code == .tooLarge)
    }

    @Test("a body that is not in its declared content coding is rejected")
    func notCompressed() async throws {
        let error = try await failure { _, _ in [.send(ok("{\"a\":1}", "Content-Encoding: gzip\r\n"))] }
        #expect(error.code == .unsupportedEncoding)
    }

    @Test("a truncated gzip body is an error, even if its Content-Length is correct")
    func compressedShort() async throws {
        let bytes = try gzip(Data((0..<10_000).flatMap { "\($0)".utf8 })).dropLast(100)
        let error = try await failure { _, _ in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n"),
                .send(Array(bytes)),
            ]
        }
        #expect(error.code == .truncated)
    }
}
