import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Origins of images that misbehave")
    struct ImageOriginTests {
        /// What an origin does, and what somebody who asks for its image is told.
        private struct Case {
            let what: String
            /// The answers to the requests, in turn; the last one stays.
            let answers: [RawOrigin.Answer]
            let error: String
            var reason: String?
        }

        private static let image = MadeImage(.png, seed: 1, size: 20_000)

        private static func cases(_ origin: RawOrigin) -> [Case] {
            let bytes = image.bytes
            func declaring(_ length: Int, _ body: some Sequence<UInt8>, _ fields: String...) -> RawOrigin.Answer {
                .head("200 OK", ["Content-Length: \(length)"] + fields, body)
            }
            func toward(_ location: String) -> [RawOrigin.Answer] {
                [.head("302 Found", ["Location: \(location)", "Content-Length: 0"])]
            }
            func whole(_ body: [UInt8], _ fields: String...) -> [RawOrigin.Answer] {
                [.head("200 OK", ["Content-Length: \(body.count)"] + fields, body)]
            }
            let bomb =
                MadeImage.pngStart(width: 64_250, height: 64_250) + MadeImage.chunk("IDAT", [0x78, 1])
                + MadeImage.chunk("IEND", [])
            let partial = "Content-Range: bytes 10000-19999/20000"
            return [
                Case(
                    what: "ends in the middle, every time", answers: [declaring(20_000, bytes.prefix(10_000))],
                    error: "upstreamFailed", reason: "truncated"),
                Case(
                    what: "ends in the middle, without a declared length",
                    answers: [.head("200 OK", [], bytes.prefix(10_000))], error: "imageRefused",
                    reason: "truncatedImage"),
                Case(
                    what: "ends in the middle of a chunk",
                    answers: [
                        .head("200 OK", ["Transfer-Encoding: chunked"], Array("4e20\r\n".utf8) + bytes.prefix(9_000))
                    ],
                    error: "upstreamFailed", reason: "truncated"),
                Case(
                    what: "declares less than it sends", answers: [declaring(10_000, bytes)], error: "imageRefused",
                    reason: "truncatedImage"),
                Case(
                    what: "changes the image between ranges, every time",
                    answers: [
                        declaring(20_000, bytes.prefix(10_000), "ETag: \"a\""),
                        .head(
                            "206 Partial Content", ["ETag: \"b\"", partial, "Content-Length: 10000"],
                            bytes.suffix(10_000)),
                        declaring(20_000, bytes.prefix(5_000), "ETag: \"c\""),
                    ], error: "upstreamFailed", reason: "truncated"),
                Case(
                    what: "sends a part that nobody asked for",
                    answers: [.head("206 Partial Content", [partial, "Content-Length: 10000"], bytes.suffix(10_000))],
                    error: "upstreamFailed"),
                Case(what: "sends nothing", answers: whole([]), error: "upstreamFailed", reason: "empty"),
                Case(
                    what: "sends a page named .png", answers: whole(Array("<!DOCTYPE html><title>Login</title>".utf8)),
                    error: "imageRefused", reason: "notAnImage"),
                Case(
                    what: "sends a picture of 64,250 by 64,250 pixels in 59 bytes", answers: whole(bomb),
                    error: "imageRefused", reason: "tooManyPixels"),
                Case(
                    what: "compresses what it was asked not to", answers: whole(bytes, "Content-Encoding: gzip"),
                    error: "upstreamFailed", reason: "unsupportedEncoding"),
                Case(
                    what: "compresses and does not say so", answers: whole([0x1F, 0x8B, 8, 0] + bytes),
                    error: "imageRefused", reason: "notAnImage"),
                Case(
                    what: "declares more than an image may have", answers: [declaring(200_000, bytes)],
                    error: "imageRefused", reason: "tooLarge"),
                Case(
                    what: "sends more than an image may have and declares nothing",
                    answers: [.head("200 OK", [], MadeImage(.jpeg, seed: 2, size: 150_000).bytes)],
                    error: "imageRefused", reason: "tooLarge"),
                Case(
                    what: "redirects to this host", answers: toward("http://127.0.0.2:\(origin.port)/whole"),
                    error: "forbiddenAddress"),
                Case(
                    what: "redirects to the cloud's metadata in disguise",
                    answers: toward("http://[::ffff:169.254.169.254]/latest/"), error: "forbiddenAddress"),
                Case(
                    what: "redirects to a private network", answers: toward("http://10.0.0.1/a.png"),
                    error: "forbiddenAddress"),
                Case(
                    what: "redirects to a file", answers: toward("file:///etc/passwd"), error: "upstreamFailed",
                    reason: "invalidRedirect"),
                Case(
                    what: "redirects in a circle", answers: toward("/redirects-in-a-circle"), error: "upstreamFailed",
                    reason: "tooManyRedirects"),
                Case(
                    what: "says 304 to a question without a condition, with Location",
                    answers: [.head("304 Not Modified", ["Location: http://127.0.0.1:\(origin.port)/whole"])],
                    error: "upstreamFailed"),
                Case(
                    what: "has no such image", answers: [.head("404 Not Found", ["Content-Length: 0"])],
                    error: "upstreamFailed", reason: "status"),
                Case(
                    what: "is no HTTP server",
                    answers: [.bytes(Array("220 mail.example.org ESMTP\r\n".utf8), thenClose: true)],
                    error: "upstreamFailed", reason: "malformedAnswer"),
            ]
        }

        @Test("each of them is told apart, nothing of theirs is published, and nothing is left on disk")
        func table() throws {
            try withOrigin("imageBytes: 100000") { home, origin in
                let agent = try home.start()
                let client = try agent.connect()
                let cases = Self.cases(origin)
                // All at once: some of them are tried three times.
                let ids = try cases.map { entry in
                    let path = "/" + entry.what.filter { $0.isLetter || $0 == " " }.replacing(" ", with: "-")
                    origin.answer(inTurn: entry.answers, to: path)
                    return try client.requestImage(origin.address(path))
                }
                for (id, entry) in zip(ids, cases) {
                    do {
                        Issue.record("an origin that \(entry.what): \(try client.reply(to: id))")
                    } catch let refusal as LineClient.Refusal {
                        #expect(refusal.name == entry.error, "an origin that \(entry.what): \(refusal)")
                        if let reason = entry.reason {
                            #expect(refusal.reason == reason, "an origin that \(entry.what): \(refusal)")
                        }
                    }
                }
                #expect(try client.images().isEmpty)
                let directory = CacheDirectory(of: home)
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }

        private func withOrigin(_ images: String = "", _ body: (AgentHome, RawOrigin) throws -> Void) throws {
            let origin = try RawOrigin.listening(.image(Self.image))
            defer { origin.stop() }
            try AgentHome.with(settings: AgentHome.imageSettings(images)) { home in try body(home, origin) }
        }

        @Test(
            "an image whose connection ends in the middle is gone on with where it ended, if it is still the same one")
        func resumed() throws {
            try withOrigin { home, origin in
                let bytes = Self.image.bytes
                let head = ["Content-Length: 20000", "ETag: \"a\""]
                origin.answer(
                    inTurn: [
                        .head("200 OK", head, bytes.prefix(10_000)),
                        .head(
                            "206 Partial Content",
                            ["Content-Length: 10000", "ETag: \"a\"", "Content-Range: bytes 10000-19999/20000"],
                            bytes.suffix(10_000)),
                    ], to: "/resumed.png")
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try ServedImage(try client.image(origin.address("/resumed.png"))).isWhole(Self.image))
                #expect(try origin.request()["range"] == nil)
                let second = try origin.request()
                #expect(second["range"] == "bytes=10000-")
                #expect(second["if-range"] == "\"a\"")
            }
        }

        @Test(
            "an image that changed while its connection was down is fetched from the start, never put together of two")
        func changed() throws {
            try withOrigin { home, origin in
                let other = MadeImage(.png, seed: 2, size: 20_000)
                origin.answer(
                    inTurn: [
                        .head("200 OK", ["Content-Length: 20000", "ETag: \"a\""], Self.image.bytes.prefix(10_000)),
                        .head(
                            "206 Partial Content",
                            ["Content-Length: 10000", "ETag: \"b\"", "Content-Range: bytes 10000-19999/20000"],
                            other.bytes.suffix(10_000)),
                        .image(other, "ETag: \"b\""),
                    ], to: "/changed.png")
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try ServedImage(try client.image(origin.address("/changed.png"))).isWhole(other))
            }
        }

        @Test("a 304 that carries Location is no redirect: what is held is current")
        func notModifiedWithLocation() throws {
            try withOrigin { home, origin in
                let location = "Location: \(origin.address("/elsewhere"))"
                origin.answer(
                    inTurn: [
                        .image(Self.image, "ETag: \"a\"", "Cache-Control: max-age=0"),
                        .head("304 Not Modified", ["ETag: \"a\"", "Cache-Control: max-age=0", location]),
                    ], to: "/current.png")
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try ServedImage(try client.image(origin.address("/current.png"))).source == "miss")
                let second = try ServedImage(try client.image(origin.address("/current.png")))
                #expect(second.freshness == "revalidated")
                #expect(try second.isWhole(Self.image))
                try origin.request()
                #expect(try origin.request()["if-none-match"] == "\"a\"")
                #expect(try client.imageStatistics()["revalidations"] == 1)
            }
        }

        @Test("an origin that trickles is waited for as long as the client wants, and no longer")
        func trickles() throws {
            try withOrigin { home, origin in
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"
                origin.answer(.bytes(Array(head.utf8) + Self.image.bytes.prefix(100), thenClose: false))
                let agent = try home.start()
                let client = try agent.connect()
                let id = try client.requestImage(origin.address("/slow.png"), ["deadlineMilliseconds": 1000])
                try origin.request()
                let refusal = #expect(throws: LineClient.Refusal.self) {
                    while client.linesAreMissing { origin.send([0]) }
                    try client.reply(to: id)
                }
                #expect(refusal?.name == "timeout")
                // Nobody else waits for it.
                try origin.disconnection()
                let directory = CacheDirectory(of: home)
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }

        @Test("addresses that are not of the Internet are not asked unless the settings say so, redirected or not")
        func inward() throws {
            try AgentHome.withImages(networks: "'127.0.0.2/32'") { home, origin in
                try origin.put(Self.image, "inner.png")
                let agent = try home.start()
                let client = try agent.connect()
                for url in [
                    origin.url("fresh", "inner.png"), "http://localhost:\(origin.port)/fresh/inner.png",
                    "http://[::1]:\(origin.port)/", "http://169.254.169.254/latest/", "http://100.64.0.1/",
                    "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://127.0.0.2:\(origin.port)/inward/",
                ] {
                    #expect(try client.imageRefusal(url).name == "forbiddenAddress", "\(url)")
                }
                #expect(try origin.counts() == ["/inward/": 1])
                let allowed = "http://127.0.0.2:\(origin.port)/fresh/inner.png"
                #expect(try ServedImage(try client.image(allowed)).isWhole(Self.image))
                for url in ["file:///etc/passwd", "ftp://127.0.0.2/", "/etc/passwd", "http://127.2:\(origin.port)/"] {
                    #expect(try client.imageRefusal(url).name == "invalidParams", "\(url)")
                }
            }
        }

        @Test(
            "failures are remembered as long as they are likely to last, and not over a restart or against networkOnly")
        func remembered() throws {
            try withOrigin { home, origin in
                origin.answer(.head("404 Not Found", ["Content-Length: 0"]), to: "/gone.png")
                let agent = try home.start()
                let client = try agent.connect()
                let url = origin.address("/gone.png")
                for _ in 0..<3 { #expect(try client.imageRefusal(url).name == "upstreamFailed") }
                try origin.request()
                // Asked once: the next request that the origin sees is for something else.
                _ = try client.image(origin.address("/there.png"))
                #expect(try origin.request()[":path"] == "/there.png")
                origin.answer(.image(Self.image), to: "/gone.png")
                #expect(try ServedImage(try client.image(url, ["policy": "networkOnly"])).isWhole(Self.image))
                #expect(try ServedImage(try client.image(url)).isWhole(Self.image))
            }
        }

        @Test(
            "signed addresses are one image: by cacheKey within an origin, and by the members that the settings ignore")
        func signed() throws {
            try AgentHome.withImages { home, origin in
                try origin.put(Self.image, "signed.png")
                let settings = "origins: { 'http://127.0.0.1:\(origin.port)': { ignoreQuery: ['sig', 'X-Amz-*'] } }"
                try home.write(settings: AgentHome.imageSettings(settings))
                let agent = try home.start()
                let client = try agent.connect()
                let url = origin.url("fresh", "signed.png")
                #expect(try ServedImage(try client.image(url + "?v=1&sig=a&X-Amz-Date=1")).source == "miss")
                #expect(try ServedImage(try client.image(url + "?v=1&sig=b&X-Amz-Date=2")).source == "hit")
                #expect(try ServedImage(try client.image(url + "?v=2&sig=b")).source == "miss")
                let key: JSONValue = ["cacheKey": "logo"]
                #expect(try ServedImage(try client.image(url + "?token=a", key)).source == "miss")
                #expect(try ServedImage(try client.image(url + "?token=b", key)).source == "hit")
                #expect(try ServedImage(try client.image(url + "?token=c")).source == "miss")
                let counts = try origin.counts()
                #expect(counts.count == 4)
                #expect(counts.values.allSatisfy { $0 == 1 })
            }
        }
    }
}

extension RawOrigin {
    /// The address of a path.
    func address(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }
}

extension LineClient {
    /// Whether nothing has come yet; waits for something a while.
    fileprivate var linesAreMissing: Bool {
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&polled, 1, 200) == 0
    }
}
