import LarderHTTPSemantics
import LarderUpstream
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import LarderImages

@Suite("Image downloads", .timeLimit(.minutes(15)))
struct ImageDownloaderTests {
    private static let image = picture(1, size: 5000)
    private static let half = Array(image.prefix(2500))

    private func published(
        _ outcome: DownloadOutcome, _ fixture: DownloadFixture, _ bytes: [UInt8] = image
    ) async throws -> StoredResponse? {
        guard case .published(let blob, let response, _) = outcome else {
            Issue.record("\(outcome)")
            return nil
        }
        #expect(try await fixture.disk.contents(blob.digest) == bytes)
        #expect(blob.size == bytes.count)
        #expect(fixture.temporaryFiles.isEmpty)
        await fixture.disk.drop(blob.digest)
        #expect(fixture.isEmpty)
        return response
    }

    @Test("an image is published whether the body has a declared length, is chunked or ends with the connection")
    func lengths() async throws {
        let scripts: [RawOrigin.Script] = [
            { _, _ in [.ok(Self.image, "Content-Encoding: identity")] },
            { _, _ in
                [
                    .head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), .chunk(Self.half),
                    .chunk(Array(Self.image.dropFirst(2500))), .text("0\r\n\r\n"),
                ]
            },
            { _, _ in [.head("HTTP/1.0 200 OK"), .send(Self.image), .close] },
        ]
        for script in scripts {
            try await RawOrigin.serve(script) { server in
                try await DownloadFixture.run { fixture in
                    let outcome = try await fixture.download(server.url).run()
                    let response = try await published(outcome, fixture)
                    #expect(response?.responseTime == DownloadFixture.now)
                    #expect(fixture.received.bytes == 5000)
                }
            }
        }
    }

    @Test("requests accept no content encoding, and credentials are sent only to their own origin")
    func requests() async throws {
        try await RawOrigin.serve({ _, _ in [.ok(Self.image)] }) { second in
            let url = second.url
            let script: RawOrigin.Script = { number, _ in
                [
                    number == 0
                        ? .status("302 Found", "Location: /other.png")
                        : .status("302 Found", "Location: \(url)")
                ]
            }
            try await RawOrigin.serve(script) { first in
                try await DownloadFixture.run { fixture in
                    let download = fixture.download(first.url, headers: [("Authorization", "Bearer secret")])
                    let outcome = try await download.run()
                    if case .published(_, _, let url) = outcome { #expect(url == second.url) }
                    _ = try await published(outcome, fixture)
                    #expect(first.requests.count == 2)
                    for request in first.requests { #expect(request.contains("Bearer secret")) }
                    let last = second.requests.first ?? ""
                    #expect(!last.contains("secret"))
                    #expect(last.lowercased().contains("accept-encoding: identity\r\n"))
                    #expect(
                        last.lowercased().contains(
                            "accept: image/avif,image/webp,image/apng,image/svg+xml,image/*;q=0.8\r\n"))
                    #expect(last.lowercased().contains("user-agent: larder/1.2.3\r\n"))
                }
            }
        }
    }

    @Test("DNS rebinding: a download connects to the checked address, and each redirect is checked again")
    func rebinding() async throws {
        let script: RawOrigin.Script = { _, request in
            request.contains("/redirect") ? [.status("302 Found", "Location: /image.png")] : [.ok(Self.image)]
        }
        try await RawOrigin.serve(script) { server in
            // 127.0.0.1 stands for a public address. The third lookup returns a private one, as an attacker's server
            // would.
            let resolver = ScriptedResolver(["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"])
            try await DownloadFixture.run(resolver: resolver) { fixture in
                let url = "http://rebind.example:\(server.port)/"
                // The download makes one lookup, and its connection uses the address from this lookup.
                _ = try await published(try await fixture.download(url + "image.png").run(), fixture)
                #expect(resolver.lookups == 1)
                // The redirect causes another lookup and is refused, although the same name was permitted before it.
                let error = await #expect(throws: ImageError.self) {
                    try await fixture.download(url + "redirect").run()
                }
                #expect(error?.code == .forbiddenAddress)
                #expect(error?.message.contains("127.0.0.2") == true)
                #expect(resolver.lookups == 3)
                #expect(server.requests.count == 2)
                #expect(fixture.isEmpty)
                // The changed list of allowed networks applies from the next request on.
                fixture.fetcher.update(allowedNetworks: [])
                let late = await #expect(throws: ImageError.self) { try await fixture.download(server.url).run() }
                #expect(late?.code == .forbiddenAddress)
            }
        }
    }

    // MARK: Conditions

    @Test("a 304 updates the stored response, and its Location is ignored")
    func notModified() async throws {
        let script: RawOrigin.Script = { _, _ in
            [
                .head(
                    "HTTP/1.1 304 Not Modified", "ETag: \"a\"", "Cache-Control: max-age=77",
                    "Location: http://127.0.0.2/")
            ]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                let outcome = try await fixture.download(server.url, cached: stored("\"a\"", server.url)).run()
                guard case .notModified(let response) = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
                #expect(response.cacheControl.maximumAge == 77)
                #expect(response.responseTime == DownloadFixture.now)
                #expect(server.requests.first?.lowercased().contains("if-none-match: \"a\"\r\n") == true)
                #expect(fixture.isEmpty)
            }
        }
    }

    @Test("after a 304 with another tag, the request is repeated without a condition")
    func otherTag() async throws {
        let script: RawOrigin.Script = { number, _ in
            number == 0 ? [.head("HTTP/1.1 304 Not Modified", "ETag: \"b\"")] : [.ok(Self.image)]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                _ = try await published(
                    try await fixture.download(server.url, cached: stored("\"a\"", server.url)).run(), fixture)
                #expect(server.requests.count == 2)
                #expect(server.requests.last?.lowercased().contains("if-none-match") == false)
            }
        }
    }

    @Test("an image with an unexpected digest is not published")
    func expectedDigest() async throws {
        try await RawOrigin.serve({ _, _ in [.ok(Self.image)] }) { server in
            try await DownloadFixture.run { fixture in
                let digest = BlobDigest(hex: String(repeating: "a", count: 64))
                let download = fixture.download(server.url, expectedDigest: digest)
                let error = await #expect(throws: ImageError.self) { try await download.run() }
                #expect(error?.code == .digestMismatch)
                #expect(fixture.isEmpty)
            }
        }
    }

    // MARK: Resumption

    /// The response to the second request of an interrupted download.
    struct Resumption: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var tag = "\"a\""
        /// Whether the second request must have a `Range` field.
        var hasRange = true
        var requests = 2
        let answer: RawOrigin.Answer
    }

    private static let rest = Array(image.dropFirst(2500))

    private static func part(_ range: String, _ tag: String = "\"a\"", _ bytes: [UInt8] = rest) -> RawOrigin.Answer {
        [
            .head(
                "HTTP/1.1 206 Partial Content", "Content-Length: \(bytes.count)", "Content-Range: \(range)",
                "ETag: \(tag)"),
            .send(bytes),
        ]
    }

    static let resumptions: [Resumption] = [
        Resumption(testDescription: "the rest", answer: part("bytes 2500-4999/5000")),
        Resumption(testDescription: "the whole image instead", answer: [.ok(image, "ETag: \"b\"")]),
        Resumption(
            testDescription: "the rest of another image", requests: 3, answer: part("bytes 2500-4999/5000", "\"b\"")),
        Resumption(testDescription: "the rest without a tag", requests: 3, answer: part("bytes 2500-4999/5000", "")),
        Resumption(
            testDescription: "the rest with a weak tag", requests: 3, answer: part("bytes 2500-4999/5000", "W/\"a\"")),
        Resumption(
            testDescription: "a range with another start", requests: 3,
            answer: part("bytes 0-4999/5000", "\"a\"", image)),
        Resumption(
            testDescription: "a range with another total length", requests: 3, answer: part("bytes 2500-5999/6000")),
        Resumption(
            testDescription: "a range that does not reach the end", requests: 3, answer: part("bytes 2500-4000/5000")),
        Resumption(testDescription: "a range without a total length", requests: 3, answer: part("bytes 2500-4999/*")),
        Resumption(testDescription: "an invalid range", requests: 3, answer: part("bytes -1-99999999999999999999/5")),
        Resumption(
            testDescription: "status 416", requests: 3, answer: [.status("416 Range Not Satisfiable")]),
        Resumption(
            testDescription: "a weak tag in the first response", tag: "W/\"a\"", hasRange: false,
            answer: [.ok(image, "ETag: \"b\"")]),
    ]

    @Test("an interrupted body is resumed where it ended, or downloaded from the start", arguments: resumptions)
    func resuming(_ resumption: Resumption) async throws {
        let script: RawOrigin.Script = { number, _ in
            switch number {
            case 0:
                [.head("HTTP/1.1 200 OK", "Content-Length: 5000", "ETag: \(resumption.tag)"), .send(Self.half), .close]
            case 1: resumption.answer
            default: [.ok(Self.image)]
            }
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                _ = try await published(try await fixture.download(server.url).run(), fixture)
                let second = server.requests.dropFirst().first?.lowercased() ?? ""
                #expect(second.contains("range: bytes=2500-\r\n") == resumption.hasRange)
                #expect(second.contains("if-range: \"a\"\r\n") == resumption.hasRange)
                #expect(server.requests.count == resumption.requests)
                #expect(server.requests.dropFirst(2).allSatisfy { !$0.lowercased().contains("range:") })
            }
        }
    }

    @Test(
        "a resumed download with an expected digest fails if the image has changed but kept its tag"
    )
    func changing() async throws {
        // The tag claims that the image has not changed. Only the expected digest reveals the change.
        let other = Array(picture(2, size: 5000).dropFirst(2500))
        let script: RawOrigin.Script = { number, _ in
            number == 0
                ? [.head("HTTP/1.1 200 OK", "Content-Length: 5000", "ETag: \"a\""), .send(Self.half), .close]
                : Self.part("bytes 2500-4999/5000", "\"a\"", other)
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                let whole = try await RawOrigin.serve({ _, _ in [.ok(Self.image)] }) { server in
                    try await fixture.download(server.url).run()
                }
                guard case .published(let blob, _, _) = whole else { return }
                let download = fixture.download(server.url, expectedDigest: blob.digest)
                let error = await #expect(throws: ImageError.self) { try await download.run() }
                #expect(error?.code == .digestMismatch)
                #expect(fixture.temporaryFiles.isEmpty)
            }
        }
    }

    @Test("a download that is interrupted three times fails and leaves no file")
    func interrupted() async throws {
        let script: RawOrigin.Script = { number, _ in
            let start = 1000 * number
            let bytes = Array(Self.image[start..<start + 1000])
            let head: RawOrigin.Step =
                number == 0
                ? .head("HTTP/1.1 200 OK", "Content-Length: 5000", "ETag: \"a\"")
                : .head(
                    "HTTP/1.1 206 Partial Content", "Content-Length: \(5000 - start)",
                    "Content-Range: bytes \(start)-4999/5000", "ETag: \"a\"")
            return [head, .send(bytes), .close]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                let error = await #expect(throws: ImageError.self) { try await fixture.download(server.url).run() }
                #expect(error?.cause?.code == .truncated)
                #expect(server.requests.count == 3)
                #expect(server.requests.last?.lowercased().contains("range: bytes=2000-\r\n") == true)
                #expect(fixture.received.bytes == 3000)
                #expect(fixture.isEmpty)
            }
        }
    }

    // MARK: Space

    @Test("a download that lacks space requests space from its owner, and then completes")
    func room() async throws {
        let limits = SpaceLimits(bytes: 7000, freeBytes: 0, bytesPerImage: 6000)
        for isDeclared in [true, false] {
            let script: RawOrigin.Script = { _, _ in
                isDeclared
                    ? [.ok(Self.image)]
                    : [.head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), .chunk(Self.image), .text("0\r\n\r\n")]
            }
            try await RawOrigin.serve(script) { server in
                try await DownloadFixture.run(limits: limits) { fixture in
                    let existing = try await fixture.disk.put(picture(9, size: 4000))
                    await fixture.disk.change { $0.addRow(existing.digest) }
                    let error = await #expect(throws: ImageError.self) {
                        try await fixture.download(server.url).run()
                    }
                    #expect(error?.code == .cacheFull)
                    let usage = fixture.disk.accounts.usage
                    #expect(usage.bytes == 4000 && usage.count == 1 && usage.reservedBytes == 0)
                    #expect(fixture.temporaryFiles.isEmpty)

                    let shortages = Mutex<[SpaceShortage]>([])
                    let disk = fixture.disk
                    let download = fixture.download(
                        server.url,
                        reclaim: { shortage in
                            shortages.withLock { $0.append(shortage) }
                            return await disk.drop(existing.digest, isRow: true)
                        })
                    _ = try await published(try await download.run(), fixture)
                    #expect(shortages.withLock { $0.count } == 1)
                }
            }
        }
    }

    @Test("a download fails if space is reclaimed repeatedly but never suffices")
    func cacheFull() async throws {
        let limits = SpaceLimits(bytes: 4000, freeBytes: 0, bytesPerImage: 6000)
        try await RawOrigin.serve({ _, _ in [.ok(Self.image)] }) { server in
            try await DownloadFixture.run(limits: limits) { fixture in
                let download = fixture.download(server.url, reclaim: { _ in true })
                let error = await #expect(throws: ImageError.self) { try await download.run() }
                #expect(error?.code == .cacheFull)
                #expect(fixture.isEmpty)
            }
        }
    }

    // MARK: Cancelling

    @Test(
        "a download that is cancelled before the response head or in the body closes its connection and leaves no file",
        arguments: [true, false])
    func cancelling(_ isInBody: Bool) async throws {
        let (requests, request) = AsyncStream<Void>.makeStream()
        let script: RawOrigin.Script = { _, _ in
            if isInBody { return [.head("HTTP/1.1 200 OK", "Content-Length: 5000", "ETag: \"a\""), .send(Self.half)] }
            request.yield()
            return []
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                let download = fixture.download(server.url)
                let task = Task { try await download.run() }
                if isInBody {
                    while download.progress.received == 0 { await Task.yield() }
                } else {
                    for await _ in requests { break }
                }
                task.cancel()
                let error = await #expect(throws: ImageError.self) { try await task.value }
                #expect(error?.code == .cancelled)
                #expect(fixture.isEmpty)
                for await event in server.events where event == .disconnected { break }
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test("a download that is cancelled between two attempts does not start the next one")
    func cancelledWait() async throws {
        try await RawOrigin.serve({ _, _ in [.status("503 Service Unavailable")] }) { server in
            try await DownloadFixture.run { fixture in
                let (waiting, wait) = AsyncStream<Void>.makeStream()
                let download = fixture.download(
                    server.url,
                    sleep: { _ in
                        wait.yield()
                        try await Task.sleep(for: .seconds(3_600))
                    })
                let task = Task { try await download.run() }
                for await _ in waiting { break }
                task.cancel()
                let error = await #expect(throws: ImageError.self) { try await task.value }
                #expect(error?.code == .cancelled)
                #expect(server.requests.count == 1)
                #expect(fixture.isEmpty)
            }
        }
    }
}
