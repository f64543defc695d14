import LarderUpstream
import Synchronization
import TestSupport
import Testing

@testable import LarderImages

/// A misbehaving origin and the error that it causes.
struct BadOrigin: Sendable, CustomTestStringConvertible {
    let name: String
    let code: ImageError.Code
    var cause: UpstreamError.Code?
    /// The expected number of requests.
    var requests = 1
    var timeouts = DownloadFixture.patient
    let script: RawOrigin.Script

    var testDescription: String { name }

    static let image = picture(1, size: 5000)
    private static let half = Array(image.prefix(2500))

    static let all: [BadOrigin] = lengths + slow + redirects + statuses + contents

    private static let lengths: [BadOrigin] = [
        BadOrigin(name: "ends before its declared length", code: .upstreamFailed, cause: .truncated, requests: 3) {
            _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 5000"), .send(half), .close]
        },
        BadOrigin(name: "resets the connection in the body", code: .upstreamFailed, cause: .truncated, requests: 3) {
            _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 5000"), .send(half), .reset]
        },
        BadOrigin(name: "declares more than it sends", code: .upstreamFailed, cause: .truncated, requests: 3) { _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 9999"), .send(image), .close]
        },
        BadOrigin(name: "sends more than it declared", code: .truncatedImage) { _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 2500"), .send(image)]
        },
        BadOrigin(name: "ends within a chunk", code: .upstreamFailed, cause: .truncated, requests: 3) { _, _ in
            [.head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), .text("1388\r\n"), .send(half), .close]
        },
        BadOrigin(name: "ends without a last chunk", code: .upstreamFailed, cause: .truncated, requests: 3) { _, _ in
            [.head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), .chunk(image), .close]
        },
        BadOrigin(name: "ends within the image, without a declared length", code: .truncatedImage) { _, _ in
            [.head("HTTP/1.0 200 OK"), .send(half), .close]
        },
        BadOrigin(name: "declares more than the limit", code: .tooLarge) { _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 1048577"), .send(half)]
        },
        BadOrigin(name: "declares a length that overflows an integer", code: .upstreamFailed, cause: .malformedAnswer) {
            _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 99999999999999999999999999"), .send(half)]
        },
        BadOrigin(name: "sends more than the limit without declaring it", code: .tooLarge) { _, _ in
            let chunk = RawOrigin.Step.chunk([UInt8](repeating: 0, count: 1 << 18))
            return [
                .head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), .chunk(MadeImages.png(5, 5)), chunk, chunk,
                chunk,
                chunk,
            ]
        },
    ]

    private static let slow: [BadOrigin] = [
        BadOrigin(
            name: "sends slowly", code: .offline, cause: .tooSlow,
            timeouts: FetchTimeouts(
                idle: .seconds(300), whole: .seconds(900), slowest: TransferRate(bytes: 1 << 20, in: .milliseconds(200))
            )
        ) { _, _ in [.head("HTTP/1.1 200 OK", "Content-Length: 1000000"), .send(half), .trickle] },
        BadOrigin(
            name: "sends single bytes", code: .offline, cause: .tooSlow,
            timeouts: FetchTimeouts(
                idle: .seconds(300), whole: .seconds(900), slowest: TransferRate(bytes: 1, in: .milliseconds(200)))
        ) { _, _ in [.head("HTTP/1.1 200 OK", "Content-Length: 1000000"), .send(half), .trickle] },
        BadOrigin(
            name: "exceeds the total time", code: .offline, cause: .timeout,
            timeouts: FetchTimeouts(idle: .seconds(300), whole: .seconds(5))
        ) { _, _ in [.head("HTTP/1.1 200 OK", "Content-Length: 1000000"), .send(half), .trickle] },
        BadOrigin(
            name: "stops sending within the body", code: .offline, cause: .timeout,
            timeouts: FetchTimeouts(idle: .seconds(5), whole: .seconds(900))
        ) { _, _ in [.head("HTTP/1.1 200 OK", "Content-Length: 5000"), .send(half)] },
    ]

    private static let redirects: [BadOrigin] =
        [
            "http://127.0.0.2/", "http://[::ffff:169.254.169.254]/", "http://169.254.169.254/latest",
            "http://10.0.0.1:1/",
            "http://[::1]/", "//0.0.0.0/", "http://[64:ff9b::a00:1]/", "http://100.64.0.1/", "//224.0.0.1/",
        ].map { target in
            BadOrigin(name: "redirects to \(target)", code: .forbiddenAddress, cause: .forbiddenAddress) { _, _ in
                [.status("302 Found", "Location: \(target)")]
            }
        }
        + [
            "file:///etc/passwd", "data:image/png;base64,AAAA", "ftp://127.0.0.1/x", "javascript:alert(1)",
            "http://user:secret@127.0.0.1/", "http://", "https:///x", "http://0177.0.0.1/", "http://0x7f.1/",
            "http://[fe80::1%25lo]/",
        ].map { target in
            BadOrigin(name: "redirects to \(target)", code: .upstreamFailed, cause: .invalidRedirect) { _, _ in
                [.status("301 Moved Permanently", "Location: \(target)")]
            }
        } + [
            BadOrigin(name: "redirects to itself", code: .upstreamFailed, cause: .tooManyRedirects, requests: 6) {
                _, _ in
                [.status("307 Temporary Redirect", "Location: /image.png")]
            },
            BadOrigin(name: "redirects without a Location", code: .upstreamFailed, cause: .invalidRedirect) { _, _ in
                [.status("308 Permanent Redirect")]
            },
        ]

    private static let statuses: [BadOrigin] = [
        BadOrigin(
            name: "answers 304 to an unconditional request, with a Location", code: .upstreamFailed,
            cause: .malformedAnswer
        ) {
            _, _ in
            [.head("HTTP/1.1 304 Not Modified", "Location: http://127.0.0.2/", "ETag: \"x\"")]
        },
        BadOrigin(name: "answers 206 to a request without a range", code: .upstreamFailed, cause: .malformedAnswer) {
            _, _ in
            [
                .head("HTTP/1.1 206 Partial Content", "Content-Length: 5000", "Content-Range: bytes 0-4999/5000"),
                .send(image),
            ]
        },
        BadOrigin(name: "answers 416 to a request without a range", code: .upstreamFailed, cause: .status) { _, _ in
            [.status("416 Range Not Satisfiable", "Content-Range: bytes */10")]
        },
        BadOrigin(name: "answers 200 with an empty body", code: .upstreamFailed, cause: .empty) { _, _ in [.ok([])] },
        BadOrigin(name: "answers 200 with an empty chunked body", code: .upstreamFailed, cause: .empty) { _, _ in
            [.head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), .text("0\r\n\r\n")]
        },
        BadOrigin(name: "answers 204", code: .upstreamFailed, cause: .empty) { _, _ in
            [.head("HTTP/1.1 204 No Content")]
        },
        BadOrigin(name: "answers 404", code: .upstreamFailed, cause: .status) { _, _ in [.status("404 Not Found")] },
        BadOrigin(name: "answers 501", code: .upstreamFailed, cause: .status) { _, _ in [.status("501 Not Implemented")]
        },
        BadOrigin(name: "answers 500 each time", code: .upstreamFailed, cause: .status, requests: 3) { _, _ in
            [.status("500 Internal Server Error")]
        },
        BadOrigin(name: "sends Retry-After: 2 each time", code: .upstreamFailed, cause: .status, requests: 3) {
            _, _ in
            [.status("503 Service Unavailable", "Retry-After: 2")]
        },
        BadOrigin(name: "sends Retry-After: 60", code: .upstreamFailed, cause: .status) { _, _ in
            [.status("429 Too Many Requests", "Retry-After: 60")]
        },
        BadOrigin(name: "sends Retry-After as a date, one minute ahead", code: .upstreamFailed, cause: .status) {
            _, _ in
            [
                .status(
                    "503 Service Unavailable", "Date: Sun, 06 Nov 1994 08:49:37 GMT",
                    "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT")
            ]
        },
        BadOrigin(
            name: "closes the connection without a response", code: .upstreamFailed, cause: .connectionClosed,
            requests: 3
        ) {
            _, _ in
            [.close]
        },
        BadOrigin(name: "speaks another protocol", code: .upstreamFailed, cause: .malformedAnswer) { _, _ in
            [.text("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n"), .close]
        },
    ]

    private static let contents: [BadOrigin] = [
        BadOrigin(name: "sends a PNG of 64250 by 64250", code: .tooManyPixels) { _, _ in
            [.ok(MadeImages.png(64_250, 64_250) + MadeImages.chunk("IEND", []))]
        },
        BadOrigin(name: "sends HTML as image/png", code: .notAnImage) { _, _ in
            [.ok(Array("<!DOCTYPE html><html><body>Sign in</body></html>".utf8), "Content-Type: image/png")]
        },
        BadOrigin(name: "sends TIFF", code: .unsupportedType) { _, _ in
            [.ok(Array("II*\0".utf8) + [UInt8](repeating: 8, count: 100))]
        },
        BadOrigin(name: "sends a gzip bomb, declared", code: .upstreamFailed, cause: .unsupportedEncoding) { _, _ in
            [.ok([0x1F, 0x8B, 8] + [UInt8](repeating: 0, count: 999), "Content-Encoding: gzip")]
        },
        BadOrigin(name: "sends a gzip bomb, undeclared", code: .notAnImage) { _, _ in
            [.ok([0x1F, 0x8B, 8] + [UInt8](repeating: 0, count: 999))]
        },
        BadOrigin(name: "sends bytes with Content-Encoding: br", code: .upstreamFailed, cause: .unsupportedEncoding) {
            _, _ in
            [.ok([0x8B, 0x02, 0x80] + image, "Content-Encoding: identity", "Content-Encoding: br")]
        },
        BadOrigin(name: "sends HTML with Content-Encoding: gzip", code: .notAnImage) { _, _ in
            [.ok(Array("<!DOCTYPE html><html><body>Sign in</body></html>".utf8), "Content-Encoding: gzip")]
        },
        BadOrigin(name: "sends a damaged header", code: .damagedImage) { _, _ in [.ok(MadeImages.png(0, 5))] },
        BadOrigin(name: "sends half an image as a complete response", code: .truncatedImage) { _, _ in [.ok(half)] },
    ]
}

@Suite("Misbehaving origins", .timeLimit(.minutes(15)))
struct BadOriginTests {
    @Test("a misbehaving origin causes the expected error and leaves no file", arguments: BadOrigin.all)
    func errors(_ origin: BadOrigin) async throws {
        try await RawOrigin.serve(origin.script) { server in
            try await DownloadFixture.run(timeouts: origin.timeouts) { fixture in
                let download = fixture.download(server.url)
                let error = await #expect(throws: ImageError.self) { try await download.run() }
                #expect(error?.code == origin.code, "\(String(describing: error))")
                #expect(error?.cause?.code == origin.cause, "\(String(describing: error))")
                #expect(error?.message.contains("stays in use") == false)
                #expect(server.requests.count == origin.requests)
                #expect(fixture.isEmpty)
            }
        }
    }

    @Test("the longest silence of an origin is a setting")
    func silence() async throws {
        let script: RawOrigin.Script = { _, _ in .hang }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                // Long enough for a busy machine to connect. The message distinguishes it from the default.
                let limits = DownloadLimits(maxSilenceSeconds: 20)
                let error = await #expect(throws: ImageError.self) {
                    try await fixture.download(server.url, limits: limits).run()
                }
                #expect(error?.cause?.code == .timeout)
                #expect(
                    error?.cause?.message.contains("sent nothing for 20.0 seconds") == true,
                    "\(String(describing: error))")
            }
        }
    }

    @Test("a retry waits for Retry-After plus jitter")
    func retryAfter() async throws {
        let script: RawOrigin.Script = { number, _ in
            [number < 2 ? .status("503 Service Unavailable", "Retry-After: 7") : .ok(BadOrigin.image)]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                guard case .published = try await fixture.download(server.url).run() else {
                    Issue.record("not published")
                    return
                }
                let waits = fixture.waits.withLock { $0 }
                #expect(waits.count == 2)
                #expect(waits.allSatisfy { $0 >= .seconds(7) && $0 <= .seconds(11) })
            }
        }
    }

    @Test("a refused connection fails at once, without a retry")
    func refused() async throws {
        let url = try await RawOrigin.serve({ _, _ in [] }) { $0.url }
        try await DownloadFixture.run { fixture in
            let error = await #expect(throws: ImageError.self) { try await fixture.download(url).run() }
            #expect(error?.code == .offline)
            #expect(error?.cause?.code == .connectFailed)
            let failure = try #require(error?.cause?.originFailure)
            #expect(failure.contains("127.0.0.1") && !failure.contains("http"))
            #expect(fixture.waits.withLock { $0.isEmpty })
        }
    }

    @Test("a timeout, or a redirect to an unreachable host, does not count as an outage of the origin")
    func notTheOrigin() async throws {
        let unreachable = try await RawOrigin.serve({ _, _ in [] }) { $0.url }
        try await RawOrigin.serve({ _, _ in [.status("302 Found", "Location: \(unreachable)")] }) { server in
            try await DownloadFixture.run { fixture in
                let error = await #expect(throws: ImageError.self) { try await fixture.download(server.url).run() }
                #expect(error?.cause?.code == .connectFailed)
                #expect(error?.cause?.originFailure == nil)
            }
        }
        let brief = FetchTimeouts(idle: .seconds(5), whole: .seconds(900))
        try await RawOrigin.serve({ _, _ in [] }) { server in
            try await DownloadFixture.run(timeouts: brief) { fixture in
                let error = await #expect(throws: ImageError.self) { try await fixture.download(server.url).run() }
                #expect(error?.cause?.code == .timeout)
                #expect(error?.cause?.originFailure == nil)
            }
        }
    }

    @Test(
        "URLs with non-public addresses are refused without a connection",
        arguments: ["http://127.0.0.2/x", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://192.168.1.1/"])
    func forbidden(_ url: String) async throws {
        try await DownloadFixture.run { fixture in
            let error = await #expect(throws: ImageError.self) { try await fixture.download(url).run() }
            #expect(error?.code == .forbiddenAddress)
        }
    }
}
