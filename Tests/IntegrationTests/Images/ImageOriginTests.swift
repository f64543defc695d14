import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Misbehaving image origins")
    struct ImageOriginTests {
        /// A fault of an origin, and the error that a client gets.
        private struct Case {
            /// The fault, as a predicate whose subject is the origin. The path of the image is derived from this text.
            let fault: String
            /// The responses to consecutive requests. The last one repeats.
            let answers: [RawOrigin.Answer]
            let error: String
            var reason: String?
        }

        private static let image = TestImage(.png, seed: 1, size: 20_000)

        private static func cases(_ origin: RawOrigin) -> [Case] {
            let bytes = image.bytes
            func declaring(_ length: Int, _ body: some Sequence<UInt8>, _ fields: String...) -> RawOrigin.Answer {
                .head("200 OK", ["Content-Length: \(length)"] + fields, body)
            }
            func redirect(to location: String) -> [RawOrigin.Answer] {
                [.head("302 Found", ["Location: \(location)", "Content-Length: 0"])]
            }
            func whole(_ body: [UInt8], _ fields: String...) -> [RawOrigin.Answer] {
                [.head("200 OK", ["Content-Length: \(body.count)"] + fields, body)]
            }
            let bomb =
                TestImage.pngStart(width: 64_250, height: 64_250) + TestImage.chunk("IDAT", [0x78, 1])
                + TestImage.chunk("IEND", [])
            let partial = "Content-Range: bytes 10000-19999/20000"
            return [
                Case(
                    fault: "truncates the image every time", answers: [declaring(20_000, bytes.prefix(10_000))],
                    error: "upstreamFailed", reason: "truncated"),
                Case(
                    fault: "truncates the image without a declared length",
                    answers: [.head("200 OK", [], bytes.prefix(10_000))], error: "imageRejected",
                    reason: "truncatedImage"),
                Case(
                    fault: "closes the connection within a chunk",
                    answers: [
                        .head("200 OK", ["Transfer-Encoding: chunked"], Array("4e20\r\n".utf8) + bytes.prefix(9_000))
                    ],
                    error: "upstreamFailed", reason: "truncated"),
                Case(
                    fault: "declares less than it sends", answers: [declaring(10_000, bytes)], error: "imageRejected",
                    reason: "truncatedImage"),
                Case(
                    fault: "changes the image between ranges, every time",
                    answers: [
                        declaring(20_000, bytes.prefix(10_000), "ETag: \"a\""),
                        .head(
                            "206 Partial Content", ["ETag: \"b\"", partial, "Content-Length: 10000"],
                            bytes.suffix(10_000)),
                        declaring(20_000, bytes.prefix(5_000), "ETag: \"c\""),
                    ], error: "upstreamFailed", reason: "truncated"),
                Case(
                    fault: "sends a range that was not requested",
                    answers: [.head("206 Partial Content", [partial, "Content-Length: 10000"], bytes.suffix(10_000))],
                    error: "upstreamFailed"),
                Case(fault: "sends an empty body", answers: whole([]), error: "upstreamFailed", reason: "empty"),
                Case(
                    fault: "sends an HTML page", answers: whole(Array("<!DOCTYPE html><title>Login</title>".utf8)),
                    error: "imageRejected", reason: "notAnImage"),
                Case(
                    fault: "sends an image of 64,250 by 64,250 pixels in 59 bytes", answers: whole(bomb),
                    error: "imageRejected", reason: "tooManyPixels"),
                Case(
                    fault: "compresses the image into an invalid body",
                    answers: whole([0x1F, 0x8B, 8, 0] + bytes, "Content-Encoding: gzip"),
                    error: "upstreamFailed", reason: "unsupportedEncoding"),
                Case(
                    fault: "compresses the image without Content-Encoding", answers: whole([0x1F, 0x8B, 8, 0] + bytes),
                    error: "imageRejected", reason: "notAnImage"),
                Case(
                    fault: "declares a length above maximumImageBytes", answers: [declaring(200_000, bytes)],
                    error: "imageRejected", reason: "tooLarge"),
                Case(
                    fault: "sends more than maximumImageBytes without a declared length",
                    answers: [.head("200 OK", [], TestImage(.jpeg, seed: 2, size: 150_000).bytes)],
                    error: "imageRejected", reason: "tooLarge"),
                Case(
                    fault: "redirects to this host", answers: redirect(to: "http://127.0.0.2:\(origin.port)/whole"),
                    error: "forbiddenAddress"),
                Case(
                    fault: "redirects to cloud metadata as an IPv4-mapped address",
                    answers: redirect(to: "http://[::ffff:169.254.169.254]/latest/"), error: "forbiddenAddress"),
                Case(
                    fault: "redirects to a private network", answers: redirect(to: "http://10.0.0.1/a.png"),
                    error: "forbiddenAddress"),
                Case(
                    fault: "redirects to a file", answers: redirect(to: "file:///etc/passwd"), error: "upstreamFailed",
                    reason: "invalidRedirect"),
                Case(
                    fault: "redirects in a loop", answers: redirect(to: "/redirects-in-a-loop"),
                    error: "upstreamFailed",
                    reason: "tooManyRedirects"),
                Case(
                    fault: "sends a 304 with Location to an unconditional request",
                    answers: [.head("304 Not Modified", ["Location: http://127.0.0.1:\(origin.port)/whole"])],
                    error: "upstreamFailed"),
                Case(
                    fault: "does not have the image", answers: [.head("404 Not Found", ["Content-Length: 0"])],
                    error: "notFound", reason: "status"),
                Case(
                    fault: "refuses the image", answers: [.head("403 Forbidden", ["Content-Length: 0"])],
                    error: "upstreamFailed", reason: "status"),
                Case(
                    fault: "is not an HTTP server",
                    answers: [.bytes(Array("220 mail.example.org ESMTP\r\n".utf8), thenClose: true)],
                    error: "upstreamFailed", reason: "malformedAnswer"),
            ]
        }

        @Test(
            "each fault of an origin is reported with its error and reason, no image is published, and no file is left")
        func faults() throws {
            try withOrigin("maximumImageBytes: 100000") { home, origin in
                let agent = try home.start()
                let client = try agent.connect()
                let cases = Self.cases(origin)
                // All requests run at the same time. One after the other would take long, because the agent tries some
                // downloads three times.
                let ids = try cases.map { entry in
                    let path = "/" + entry.fault.filter { $0.isLetter || $0 == " " }.replacing(" ", with: "-")
                    origin.answer(sequence: entry.answers, to: path)
                    return try client.requestImage(origin.address(path))
                }
                for (id, entry) in zip(ids, cases) {
                    do {
                        Issue.record("an origin that \(entry.fault): \(try client.reply(to: id))")
                    } catch let refusal as LineClient.Refusal {
                        #expect(refusal.name == entry.error, "an origin that \(entry.fault): \(refusal)")
                        if let reason = entry.reason {
                            #expect(refusal.reason == reason, "an origin that \(entry.fault): \(refusal)")
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
            "a download whose connection breaks resumes with a range request if the image is unchanged")
        func resumed() throws {
            try withOrigin { home, origin in
                let bytes = Self.image.bytes
                let head = ["Content-Length: 20000", "ETag: \"a\""]
                origin.answer(
                    sequence: [
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
            "a download restarts if the image changed after the connection broke, and never mixes two images")
        func changed() throws {
            try withOrigin { home, origin in
                let other = TestImage(.png, seed: 2, size: 20_000)
                origin.answer(
                    sequence: [
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

        @Test("a 304 with a Location field revalidates the cached image and is not followed as a redirect")
        func notModifiedWithLocation() throws {
            try withOrigin { home, origin in
                let location = "Location: \(origin.address("/elsewhere"))"
                origin.answer(
                    sequence: [
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

        @Test("a request to a trickling origin fails at the client's deadline, and the download is aborted")
        func deadline() throws {
            try withOrigin { home, origin in
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"
                origin.answer(.bytes(Array(head.utf8) + Self.image.bytes.prefix(100), thenClose: false))
                let agent = try home.start()
                let client = try agent.connect()
                let id = try client.requestImage(origin.address("/slow.png"), ["deadlineMilliseconds": 2_000])
                try origin.request()
                let refusal = #expect(throws: LineClient.Refusal.self) {
                    while client.isSilent { origin.send([0]) }
                    try client.reply(to: id)
                }
                #expect(refusal?.name == "timeout")
                try origin.disconnection()
                let directory = CacheDirectory(of: home)
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }

        @Test("non-public addresses are refused unless the settings allow them, directly and as redirect targets")
        func nonPublicAddresses() throws {
            try AgentHome.withImages(networks: "'127.0.0.2/32'") { home, origin in
                try origin.put(Self.image, "inner.png")
                let agent = try home.start()
                let client = try agent.connect()
                for url in [
                    origin.url("fresh", "inner.png"), "http://localhost:\(origin.port)/fresh/inner.png",
                    "http://[::1]:\(origin.port)/", "http://169.254.169.254/latest/", "http://100.64.0.1/",
                    "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://127.0.0.2:\(origin.port)/redirect/",
                ] {
                    #expect(try client.imageRefusal(url).name == "forbiddenAddress", "\(url)")
                }
                #expect(try origin.counts() == ["/redirect/": 1])
                let allowed = "http://127.0.0.2:\(origin.port)/fresh/inner.png"
                #expect(try ServedImage(try client.image(allowed)).isWhole(Self.image))
                for url in ["file:///etc/passwd", "ftp://127.0.0.2/", "/etc/passwd", "http://127.2:\(origin.port)/"] {
                    #expect(try client.imageRefusal(url).name == "invalidParams", "\(url)")
                }
            }
        }

        @Test(
            "a failed download is cached as a failure, and a request with networkOnly ignores and replaces this failure"
        )
        func cachedFailure() throws {
            try withOrigin { home, origin in
                origin.answer(.head("404 Not Found", ["Content-Length: 0"]), to: "/gone.png")
                let agent = try home.start()
                let client = try agent.connect()
                let url = origin.address("/gone.png")
                for _ in 0..<3 { #expect(try client.imageRefusal(url).name == "notFound") }
                try origin.request()
                // Only the first of these requests reached the origin, so the next request at the origin is that for
                // another image.
                _ = try client.image(origin.address("/there.png"))
                #expect(try origin.request()[":path"] == "/there.png")
                origin.answer(.image(Self.image), to: "/gone.png")
                #expect(try ServedImage(try client.image(url, ["policy": "networkOnly"])).isWhole(Self.image))
                #expect(try ServedImage(try client.image(url)).isWhole(Self.image))
            }
        }

        @Test(
            "signed URLs refer to one image if they share a cacheKey or differ only in ignored query parameters")
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
    func address(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }
}

extension LineClient {
    /// Waits up to 200 ms for input. Returns false if input is available.
    fileprivate var isSilent: Bool {
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&polled, 1, 200) == 0
    }
}
