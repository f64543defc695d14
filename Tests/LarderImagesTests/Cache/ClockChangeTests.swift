import LarderHTTPSemantics
import Testing

@testable import LarderImages

@Suite("Image cache when the clock is set")
struct ClockChangeTests {
    @Test("an outage ends after two seconds, whether the clock is set back or forward", arguments: [-7200, 7200])
    func outage(_ change: Int) async throws {
        try await withCache { (fixture) async throws in
            fixture.origin.fail()
            #expect(await fixture.code(url(1)) == .offline)
            fixture.origin.answer(picture(1))
            fixture.clock.adjust(by: change)
            #expect(await fixture.code(url(1)) == .offline)
            fixture.clock.advance(2)
            #expect(try await fixture.get(url(1)).source == .miss)
        }
    }

    @Test("a failure of a URL is repeated for its time only, whether or not the clock is set")
    func failure() async throws {
        try await withCache { (fixture) async throws in
            fixture.origin.answer { _ in .failure(.status(404)) }
            #expect(await fixture.code(url(1)) == .upstreamFailed)
            fixture.clock.adjust(by: -7200)
            let request = fixture.request(url(1))
            let rules = try await fixture.cache.explain(request).rules.rules
            #expect(rules.contains { $0.name == "failure" && $0.text.contains("for another 300 s") })
            let error = await #expect(throws: ImageError.self) { try await fixture.get(url(1)) }
            #expect(error?.message.hasSuffix("(not retried for another 300 s)") ?? false)
            fixture.clock.advance(300)
            fixture.origin.answer(picture(1))
            #expect(try await fixture.get(url(1)).source == .miss)
        }
    }

    @Test("an image that arrived before the clock was set back is revalidated")
    func image() async throws {
        try await withCache { (fixture) async throws in
            fixture.origin.answer(picture(1), [("Cache-Control", "max-age=2")])
            try await fixture.get(url(1))
            fixture.clock.adjust(by: -7200)
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: fixture.clock.now) == nil)
            fixture.origin.answer(picture(2), [("Cache-Control", "max-age=2")])
            #expect(try await fixture.get(url(1)).digest == BlobDigest(sha256: picture(2)))
            #expect(try await fixture.get(url(1)).source == .hit)
        }
    }
}
