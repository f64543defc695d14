import LarderHTTPSemantics
import LarderImageFormats
import LarderUpstream
import Testing

@testable import LarderImages

@Suite("HTTP rules and policies of the image cache")
struct CachePolicyTests {
    /// Runs a body with a cache that has a stale image for the first URL.
    ///
    /// - Parameter control: the `Cache-Control` field of the image, with a lifetime of less than 100 seconds
    private func withStaleImage(
        _ control: String, etag: String? = nil, _ body: (CacheFixture) async throws -> Void
    ) async throws {
        try await withCache { fixture in
            let fields = [("Cache-Control", control)] + (etag.map { [("ETag", $0)] } ?? [])
            fixture.origin.answer(picture(1), fields)
            try await fixture.get(url(1))
            fixture.clock.advance(100)
            try await body(fixture)
        }
    }

    @Test("a fresh image is served without the network and the disk")
    func hits() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            let first = try await fixture.get(url(1))
            #expect(first.source == .miss && first.freshness == .fresh && first.type == .png && first.width == 2)
            try await fixture.settle()
            fixture.files.arm(nil)
            let request = fixture.request(url(1))
            for _ in 0..<10 {
                fixture.clock.advance(2)
                let image = fixture.cache.view.hit(request, now: fixture.clock.now)
                #expect(image?.source == .hit && image?.freshness == .fresh && image?.digest == first.digest)
            }
            #expect(fixture.cache.view.hit(request, now: fixture.clock.now)?.age == 20)
            #expect(fixture.files.calls == 0)
            #expect(fixture.cache.view.statistics.hits == 11)
            // Each of the hits holds a reference to the image until the test releases it.
            #expect(fixture.cache.view.statistics.leasedBytes == 1000)
            for _ in 0..<11 { fixture.cache.view.release(first.digest) }
            #expect(fixture.cache.view.statistics.leasedBytes == 0)
            #expect(fixture.blobs.count == 1)
            // Once the image is stale, only some policies serve it without revalidation.
            fixture.clock.advance(60)
            for policy in CachePolicy.allCases {
                let image = fixture.cache.view.hit(fixture.request(url(1), policy), now: fixture.clock.now)
                #expect((image?.freshness == .stale) == [.cacheFirst, .cacheOnly].contains(policy), "\(policy)")
            }
        }
    }

    @Test("a 304 makes a stale image fresh for all requests")
    func notModified() async throws {
        try await withStaleImage("max-age=60", etag: "\"a\"") { fixture in
            fixture.origin.answer { _ in .notModified([("Cache-Control", "max-age=500"), ("ETag", "\"a\"")]) }
            let image = try await fixture.get(url(1))
            #expect(image.freshness == .revalidated && image.age == 0)
            #expect(fixture.origin.requests.last?.cached?.validator?.etag == "\"a\"")
            #expect(fixture.cache.view.statistics.revalidations == 1)
            fixture.clock.advance(400)
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: fixture.clock.now)?.freshness == .fresh)
            fixture.cache.view.release(image.digest)
        }
    }

    @Test("images and their freshness survive a restart")
    func restart() async throws {
        try await withPath { path in
            let clock = TestClock()
            do {
                let fixture = try await CacheFixture.open(path, clock: clock)
                fixture.origin.answer(picture(1))
                try await fixture.get(url(1))
                _ = fixture.cache.view.hit(fixture.request(url(1)), now: clock.now + 7)
                await fixture.cache.stop()
            }
            let fixture = try await CacheFixture.open(path, clock: clock)
            // After the restart, the file is verified before its first use.
            let image = try await fixture.cache.image(fixture.request(url(1)))
            #expect(image.freshness == .fresh && image.source == .hit)
            fixture.cache.view.release(image.digest)
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: clock.now)?.freshness == .fresh)
            let rows = try await fixture.rows()
            #expect(rows.map(\.lastUse) == [clock.now + 7])
            #expect(rows.first?.lookup.url == url(1))
            await fixture.cache.stop()
        }
    }

    @Test("stale-while-revalidate serves the stale image at once and revalidates it once in the background")
    func staleWhileRevalidate() async throws {
        try await withStaleImage("max-age=60, stale-while-revalidate=100") { fixture in
            fixture.origin.answer(picture(2))
            fixture.origin.pause()
            for _ in 0..<20 {
                let image = try await fixture.get(url(1))
                #expect(image.freshness == .stale && image.source == .hit)
            }
            await fixture.until { fixture.origin.requests.count == 2 }
            fixture.origin.resume()
            await fixture.until { fixture.cache.view.statistics.activeDownloads == 0 }
            #expect(fixture.origin.requests.count == 2)
            let image = try await fixture.get(url(1))
            #expect(image.freshness == .fresh && image.width == 3)
            // The old file is removed with its row.
            try await fixture.settle()
            await fixture.until { fixture.blobs.count == 1 }
        }
    }

    @Test(
        "while the origin is unreachable, a request succeeds only if the cache rules and the policy allow the image"
    )
    func offline() async throws {
        let answers: [(String, [CachePolicy: ImageError.Code?])] = [
            ("max-age=60, stale-if-error=1000", [.default: nil, .networkFirst: nil, .cacheFirst: nil]),
            ("max-age=60", [.default: .offline, .networkFirst: nil, .cacheFirst: nil, .staleWhileRevalidate: nil]),
            ("max-age=60, must-revalidate", [.default: .offline, .networkFirst: .offline, .cacheFirst: nil]),
            ("max-age=60", [.networkOnly: .offline, .cacheOnly: nil]),
        ]
        for (control, policies) in answers {
            try await withStaleImage(control) { fixture in
                fixture.origin.fail()
                for (policy, code) in policies {
                    #expect(await fixture.code(url(1), policy) == code, "\(control) \(policy)")
                }
                #expect(await fixture.code(url(2)) == .offline)
                #expect(await fixture.code(url(2), .cacheOnly) == .notCached)
            }
        }
    }

    @Test("an unreachable origin gets no requests for two seconds after a failure")
    func recovery() async throws {
        try await withCache { fixture in
            fixture.origin.fail()
            #expect(await fixture.code(url(1)) == .offline)
            for number in 1...20 { #expect(await fixture.code(url(number)) == .offline) }
            #expect(await fixture.code("https://other.example/") == .offline)
            #expect(fixture.origin.requests.count == 2)
            fixture.clock.advance(2)
            fixture.origin.answer(picture(1))
            try await fixture.get(url(1))
            try await fixture.get(url(2))
            #expect(fixture.origin.requests.count == 4)
        }
    }

    @Test("a URL that times out does not affect other URLs of its origin")
    func timeout() async throws {
        try await withCache { fixture in
            fixture.origin.answer { $0.url == url(1) ? .failure(.silent) : .image(picture(2), []) }
            #expect(await fixture.code(url(1)) == .offline)
            let other = try await fixture.get(url(2))
            #expect(other.source == .miss)
            #expect(await fixture.code(url(1)) == .offline)
            #expect(fixture.origin.requests.count == 2)
        }
    }

    @Test(
        "after the first failed attempt, a permitted stale image is served while the download continues")
    func firstFailure() async throws {
        try await withStaleImage("max-age=60, stale-if-error=1000") { (fixture) async throws in
            fixture.origin.answer { _ in .failedAttempt(.status(503)) }
            #expect(try await fixture.get(url(1)).freshness == .stale)
            // Requests before the next attempt also get the stale image, unless it is too old for them.
            #expect(try await fixture.get(url(1)).freshness == .stale)
            let strict = Task { try await fixture.get(url(1), maximumAge: 10) }
            await fixture.waitForWaiters(1, for: url(1))
            #expect(fixture.cache.view.statistics.activeDownloads == 1)
            fixture.origin.answer(picture(2))
            fixture.origin.resume()
            #expect(try await strict.value.freshness == .fresh)
            #expect(fixture.origin.requests.count == 2)
            #expect(try await fixture.get(url(1)).source == .hit)
        }
    }

    @Test("a download that continues in the background is not cancelled when the last request leaves")
    func backgroundAfterFailure() async throws {
        try await withStaleImage("max-age=60, stale-if-error=1000") { (fixture) async throws in
            fixture.origin.answer { _ in .failedAttempt(.status(503)) }
            #expect(try await fixture.get(url(1)).freshness == .stale)
            fixture.origin.answer(picture(2))
            fixture.origin.resume()
            await fixture.until { await !fixture.cache.isAtWork }
            #expect(fixture.origin.cancelled == 0)
            #expect(try await fixture.get(url(1)).digest == BlobDigest(sha256: picture(2)))
        }
    }

    @Test("without space for the response, a stale image is served as in an outage")
    func cacheFull() async throws {
        try await withStaleImage("max-age=60, stale-if-error=1000") { (fixture) async throws in
            fixture.origin.answer(picture(2))
            fixture.files.setFree(-5000)
            #expect(try await fixture.get(url(1)).freshness == .stale)
            #expect(await fixture.code(url(2)) == .cacheFull)
            fixture.files.setFree(nil)
            // Cached images are intact, and the failure is not cached.
            #expect(try await fixture.get(url(2)).source == .miss)
            try await fixture.settle()
        }
    }

    @Test(
        "an uncacheable image is shared by the requests that waited, and removed when the last of them releases it")
    func noStore() async throws {
        try await withCache { fixture in
            for fields in [[("Cache-Control", "no-store")], [("Vary", "*"), ("Cache-Control", "max-age=60")]] {
                fixture.origin.answer(picture(1), fields)
                fixture.origin.pause()
                let before = fixture.origin.requests.count
                let tasks = (0..<5).map { _ in Task { try await fixture.cache.image(fixture.request(url(1))) } }
                await fixture.waitForWaiters(5, for: url(1))
                fixture.origin.resume()
                for (number, task) in tasks.enumerated() {
                    let image = try await task.value
                    #expect(fixture.blobs == [image.digest.description: 1000])
                    // Each request keeps the image until it releases it.
                    if number > 0 { fixture.cache.view.release(image.digest) }
                }
                #expect(fixture.origin.requests.count == before + 1)
                #expect(fixture.cache.view.statistics.entries == 0)
                #expect(fixture.cache.view.statistics.leftoverBytes == 1000)
                #expect(try await fixture.get(url(1)).source == .miss)
                #expect(fixture.origin.requests.count == before + 2)
                fixture.cache.view.release(try await tasks[0].value.digest)
                try await fixture.settle()
                #expect(fixture.blobs.isEmpty)
                #expect(fixture.cache.view.statistics.bytes == 0)
            }
        }
    }

    @Test("identical bytes at several URLs are stored once, until the last image is removed")
    func identicalBytes() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            for number in 1...5 { try await fixture.get(url(number)) }
            #expect(fixture.blobs.count == 1)
            #expect(fixture.cache.view.statistics.entries == 5)
            #expect(fixture.cache.view.statistics.bytes == 1000)
            for number in 1...4 {
                #expect(try await fixture.cache.remove(fixture.request(url(number))))
                #expect(fixture.blobs.count == 1)
            }
            #expect(try await fixture.cache.remove(fixture.request(url(5))))
            #expect(fixture.blobs.isEmpty)
            #expect(fixture.cache.view.statistics.bytes == 0)
            try await fixture.settle()
        }
    }

    @Test("images fetched with a credential have separate keys, and the credential is not stored")
    func credentials() async throws {
        let credential = HTTPAccess(headers: ["Authorization": "Bearer geheim"])
        let known = try ImageOrigin("https://IMG.example:443/", credential: credential)
        #expect(known.name == "https://img.example")
        try await withCache { open in
            open.origin.answer(picture(1), [("Cache-Control", "max-age=60"), ("Vary", "Authorization, Accept")])
            try await open.get(url(1))
            var settings = open.settings
            settings.origins = [known]
            await open.cache.update(settings)
            #expect(open.cache.view.origin(of: url(7) + "?a=b")?.credential != nil)
            #expect(open.cache.view.origin(of: "https://img.example.org/")?.credential == nil)
            #expect(open.cache.view.hit(open.request(url(1)), now: open.clock.now) == nil)
            open.origin.answer(picture(2), [("Cache-Control", "max-age=60"), ("Vary", "Authorization, Accept")])
            #expect(try await open.get(url(1)).width == 3)
            #expect(open.origin.requests.last?.headers.first?.value == "Bearer geheim")
            #expect(open.cache.view.hit(open.request(url(1)), now: open.clock.now)?.width == 3)
            settings.origins = []
            await open.cache.update(settings)
            #expect(open.cache.view.hit(open.request(url(1)), now: open.clock.now)?.width == 2)
            for row in try await open.rows() {
                #expect(!"\(row)".contains("geheim"))
            }
        }
    }

    @Test("a cache key identifies an image instead of the query of its URL")
    func cacheKeys() async throws {
        try await withCache { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            func request(_ url: String) -> ImageRequest { ImageRequest(url: url, cacheKey: "cat") }
            let image = try await fixture.cache.image(request(url(1) + "?signature=1"))
            for query in ["?signature=2", "", "#part", "?"] {
                #expect(fixture.cache.view.hit(request(url(1) + query), now: fixture.clock.now)?.digest == image.digest)
            }
            // An image of one path is never the answer to a request for another path.
            for other in [url(2), "https://img.example/", "https://other.example/1.png", "http://img.example/1.png"] {
                #expect(fixture.cache.view.hit(request(other), now: fixture.clock.now) == nil, "\(other)")
            }
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: fixture.clock.now) == nil)
            let row = try await fixture.cache.explain(request(url(1) + "?signature=3")).row
            #expect(row?.lookup.cacheKey == "cat")
            #expect(row?.lookup.url == url(1))
        }
    }
}
