import Synchronization
import Testing

@testable import LarderImages

@Suite("Image details")
struct ImageDetailsTests {
    private static let modified = "Tue, 02 Jan 2001 03:04:05 GMT"
    private static let fields = [
        ("Cache-Control", "max-age=3600"), ("ETag", "\"a\""), ("Last-Modified", modified),
    ]

    private func check(_ details: ImageDetails, modified: Int = 978_404_645) {
        #expect(details.frames == 1)
        #expect(details.isAnimated == false)
        #expect(details.hasAlpha == true)
        #expect(details.orientation == nil)
        #expect(details.lastModified == modified)
        #expect(details.etag == "\"a\"")
    }

    @Test("a miss, a hit, a list and an explanation have the same details, even after a restart")
    func everywhere() async throws {
        try await withPath { path in
            for isFirst in [true, false] {
                let fixture = try await CacheFixture.open(path)
                fixture.origin.answer(picture(1), Self.fields)
                let image = try await fixture.get(url(1))
                #expect(image.source == (isFirst ? .miss : .hit))
                check(image.details)
                let hit = try #require(fixture.cache.view.hit(fixture.request(url(1)), now: fixture.clock.now))
                check(hit.details)
                fixture.cache.view.release(hit.digest)
                for row in try await fixture.rows() { check(row.details) }
                check(try #require(try await fixture.cache.explain(fixture.request(url(1))).row).details)
                await fixture.cache.stop()
            }
        }
    }

    @Test("the details from the image header are available without reading the file")
    func noFiles() async throws {
        try await withPath { path in
            for isFirst in [true, false] {
                let fixture = try await CacheFixture.open(path)
                fixture.origin.answer(picture(1), Self.fields)
                if isFirst { try await fixture.get(url(1)) }
                let opened = Mutex(0)
                fixture.files.observe { operation, name in
                    if operation == "open", name.hasPrefix("blobs/") { opened.withLock { $0 += 1 } }
                }
                for row in try await fixture.rows() { check(row.details) }
                check(try #require(try await fixture.cache.explain(fixture.request(url(1))).row).details)
                #expect(opened.withLock { $0 } == 0)
                // A new process verifies a file before its first use.
                if !isFirst { check(try await fixture.get(url(1)).details) }
                #expect(opened.withLock { $0 } == (isFirst ? 0 : 1))
                fixture.files.observe(nil)
                await fixture.cache.stop()
            }
        }
    }

    @Test(
        "a revalidation updates the details from the origin and keeps those of the header, even after a restart"
    )
    func revalidation() async throws {
        try await withPath { path in
            do {
                let fixture = try await CacheFixture.open(path)
                fixture.origin.answer(picture(1), Self.fields)
                try await fixture.get(url(1))
                await fixture.cache.stop()
            }
            let fixture = try await CacheFixture.open(path)
            for number in 1...2 {
                fixture.clock.advance(7200)
                fixture.origin.answer { _ in
                    .notModified([("ETag", "\"a\""), ("Last-Modified", "Tue, 02 Jan 2001 03:04:0\(5 + number) GMT")])
                }
                let image = try await fixture.get(url(1))
                #expect(image.freshness == .revalidated)
                check(image.details, modified: 978_404_645 + number)
            }
            await fixture.cache.stop()
        }
    }
}
