import LarderHTTPSemantics
import Synchronization
import TestSupport
import Testing

@testable import LarderImages

@Suite("Images behind redirects", .timeLimit(.minutes(10)))
struct CacheRedirectTests {
    private static let new = picture(1, size: 5000)
    private static let old = picture(2, size: 4000)

    /// An origin that redirects `/latest.png`, and all other requests are for a file.
    private final class Redirector: Sendable {
        /// The target of `/latest.png`, which has the file `/old.png` if there is no target.
        private let state: Mutex<(target: String?, fields: String)>
        private let field: String

        /// - Parameter field: the validator of both files, which each conditional request matches
        init(_ field: String) {
            self.field = field
            state = Mutex(("/new.png", ""))
        }

        func redirect(to target: String?, _ fields: String = "") { state.withLock { $0 = (target, fields) } }

        func answer(_ request: String) -> RawOrigin.Answer {
            let path = request.split(separator: " ")[1]
            let (target, fields) = state.withLock { $0 }
            if path == "/latest.png", let target { return [.status("302 Found", "Location: \(target)\(fields)")] }
            if request.contains("If-None-Match") || request.contains("If-Modified-Since") {
                return [.head("HTTP/1.1 304 Not Modified", field)]
            }
            return [.ok(path == "/new.png" ? CacheRedirectTests.new : CacheRedirectTests.old, field)]
        }
    }

    private func content(of url: String, _ cache: ImageCache) async throws -> [UInt8] {
        let image = try await cache.image(ImageRequest(url: url))
        defer { cache.view.release(image.digest) }
        return try await cache.openBlob(image.digest).read(at: 0, count: 100_000)
    }

    @Test(
        "after a redirect changes or ends, the image is that of the new URL, although its validator is the same",
        arguments: ["ETag: \"v1\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], ["/old.png", nil])
    func otherTarget(_ field: String, _ then: String?) async throws {
        let redirector = Redirector(field + "\r\nCache-Control: no-cache")
        try await RawOrigin.serve({ _, request in redirector.answer(request) }) { server in
            try await withRealCache { cache, _ in
                let url = server.url + "latest.png"
                let first = try await content(of: url, cache)
                #expect(first == Self.new)
                // The same target confirms the image.
                let confirmed = try await cache.image(ImageRequest(url: url))
                cache.view.release(confirmed.digest)
                #expect(confirmed.freshness == .revalidated)
                redirector.redirect(to: then)
                let second = try await content(of: url, cache)
                #expect(second == Self.old)
            }
        }
    }

    @Test("the rest of an interrupted image is requested from the URL that sent its start, and from no other one")
    func interrupted() async throws {
        let script: RawOrigin.Script = { number, request in
            if request.hasPrefix("GET /latest.png") {
                return [.status("302 Found", number == 0 ? "Location: /new.png" : "Location: /old.png")]
            }
            if request.hasPrefix("GET /new.png") {
                return [
                    .head("HTTP/1.1 200 OK", "Content-Length: 5000", "ETag: \"v1\""),
                    .send(Array(Self.new.prefix(2500))),
                    .close,
                ]
            }
            return request.contains("Range: ")
                ? [.status("500 Internal Server Error")] : [.ok(Self.old, "ETag: \"v1\"")]
        }
        try await RawOrigin.serve(script) { server in
            try await withRealCache { cache, _ in
                let content = try await content(of: server.url + "latest.png", cache)
                #expect(content == Self.old)
                #expect(!server.requests.contains { $0.contains("Range: ") })
            }
        }
    }

    // MARK: Lifetimes

    /// A redirect with a status and fields, and how long the image behind it is fresh, in seconds.
    struct Lifetime: Sendable, CustomTestStringConvertible {
        let redirect: String
        let seconds: Int

        init(_ redirect: String, _ seconds: Int) { (self.redirect, self.seconds) = (redirect, seconds) }

        var testDescription: String { redirect.replacing("\r\n", with: ", ") }
    }

    static let lifetimes = [
        Lifetime("302 Found\r\nCache-Control: no-store", 0), Lifetime("302 Found", 0), Lifetime("303 See Other", 0),
        Lifetime("307 Temporary Redirect", 0), Lifetime("307 Temporary Redirect\r\nCache-Control: no-cache", 0),
        Lifetime("302 Found\r\nCache-Control: max-age=5", 5),
        Lifetime("302 Found\r\nAge: 3\r\nCache-Control: max-age=5", 2),
        Lifetime("302 Found\r\nCache-Control: max-age=5000", 1000), Lifetime("302 Found\r\nExpires: 0", 0),
        Lifetime("302 Found\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT", 0),
        Lifetime("302 Found\r\nVary: *\r\nCache-Control: max-age=5", 0),
        Lifetime("301 Moved Permanently", 1000), Lifetime("308 Permanent Redirect", 1000),
        Lifetime("301 Moved Permanently\r\nCache-Control: max-age=0, must-revalidate", 0),
        Lifetime("308 Permanent Redirect\r\nCache-Control: max-age=7", 7),
    ]

    private static let immutable = "Cache-Control: max-age=1000, immutable, stale-while-revalidate=1000"

    @Test("an image is fresh at most as long as each redirect to it", arguments: lifetimes, [true, false])
    func lifetime(_ lifetime: Lifetime, isFirst: Bool) async throws {
        let limited = RawOrigin.Step.status(lifetime.redirect, isFirst ? "Location: /2" : "Location: /3")
        let unlimited = RawOrigin.Step.status("308 Permanent Redirect", isFirst ? "Location: /3" : "Location: /2")
        let script: RawOrigin.Script = { _, request in
            if request.hasPrefix("GET /1 ") { return [isFirst ? limited : unlimited] }
            if request.hasPrefix("GET /2 ") { return [isFirst ? unlimited : limited] }
            return [.ok(Self.new, Self.immutable)]
        }
        let clock = TestClock()
        try await RawOrigin.serve(script) { server in
            try await withRealCache(clock: clock.imageClock) { cache, _ in
                let request = ImageRequest(url: server.url + "1")
                cache.view.release(try await cache.image(request).digest)
                for time in Set([lifetime.seconds - 1, lifetime.seconds]).sorted() where time >= 0 {
                    clock.advance(time + 1_000_000 - clock.now)
                    let hit = cache.view.hit(request, now: clock.now)
                    #expect((hit != nil) == (time < lifetime.seconds), "after \(time) s")
                    if let hit { cache.view.release(hit.digest) }
                }
                // Only the image's own lifetime is followed by its `stale-while-revalidate`.
                let decision = try await cache.explain(request).decision
                #expect(decision == (lifetime.seconds == 1000 ? .stale(revalidateInBackground: true) : .fetch))
                #expect(try await cache.explain(request).row?.response.url == server.url + "3")
            }
        }
    }

    @Test("a 304 behind a redirect extends the lifetime at most to that of the redirect")
    func revalidated() async throws {
        let script: RawOrigin.Script = { _, request in
            request.hasPrefix("GET /1 ")
                ? [.status("302 Found", "Location: /2", "Cache-Control: max-age=5")]
                : request.contains("If-None-Match")
                    ? [.head("HTTP/1.1 304 Not Modified", "ETag: \"a\"", "Cache-Control: max-age=1000")]
                    : [.ok(Self.new, "ETag: \"a\"", "Cache-Control: max-age=1")]
        }
        let clock = TestClock()
        try await RawOrigin.serve(script) { server in
            try await withRealCache(clock: clock.imageClock) { cache, _ in
                let request = ImageRequest(url: server.url + "1")
                cache.view.release(try await cache.image(request).digest)
                clock.advance(1)
                let image = try await cache.image(request)
                cache.view.release(image.digest)
                #expect(image.freshness == .revalidated)
                clock.advance(4)
                let hit = try #require(cache.view.hit(request, now: clock.now))
                cache.view.release(hit.digest)
                clock.advance(1)
                #expect(cache.view.hit(request, now: clock.now) == nil)
            }
        }
    }

    @Test("a failed redirect is remembered unless one of the redirects forbids it")
    func failures() async throws {
        let failures: [(redirect: RawOrigin.Step, requests: Int)] = [
            (.status("302 Found"), 1), (.status("302 Found", "Cache-Control: no-store"), 2),
            (.status("302 Found", "Cache-Control: max-age=0"), 2), (.status("301 Moved", "Location: ftp://h/"), 1),
            (.status("301 Moved", "Location: ftp://h/", "Cache-Control: no-store"), 2),
            (.status("302 Found", "Location: http://10.0.0.1/"), 1),
            (.status("302 Found", "Location: http://10.0.0.1/", "Cache-Control: no-store"), 2),
            (.status("302 Found", "Location: /"), 6),
            (.status("302 Found", "Location: /", "Cache-Control: max-age=0"), 12),
            (.status("302 Found", "Location: /404"), 2),
            (.status("302 Found", "Location: /404", "Cache-Control: no-store"), 4),
        ]
        for (redirect, requests) in failures {
            let script: RawOrigin.Script = { _, request in
                request.hasPrefix("GET /404 ") ? [.status("404 Not Found", "Cache-Control: max-age=1000")] : [redirect]
            }
            try await RawOrigin.serve(script) { server in
                try await withRealCache { cache, _ in
                    for _ in 0..<2 {
                        await #expect(throws: ImageError.self) { try await cache.image(ImageRequest(url: server.url)) }
                    }
                    #expect(server.requests.count == requests, "\(redirect)")
                }
            }
        }
    }
}
