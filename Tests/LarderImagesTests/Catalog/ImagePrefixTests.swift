import Testing

@testable import LarderImages

@Suite("Selection of images by URL prefix")
struct ImagePrefixTests {
    private static let places = [
        "https://a.example/x/", "https://a.example/xy/", "https://a.example:444/x/", "http://a.example/x/",
    ]

    private func fill(_ fixture: CacheFixture) async throws {
        fixture.origin.answer { order in
            let number = order.url.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF_FFFF }
            return .image(picture(number), [("Cache-Control", "max-age=3600")])
        }
        for number in 0..<10 {
            for place in Self.places { try await fixture.get("\(place)\(number)?v=\(number % 2)") }
        }
        var keyed = fixture.request("https://a.example/x/signed?s=1")
        keyed.cacheKey = "k"
        fixture.cache.view.release(try await fixture.cache.image(keyed).digest)
    }

    private func urls(_ fixture: CacheFixture, _ prefix: String) async throws -> [String] {
        var urls: [String] = []
        var after: String?
        repeat {
            let page = try await fixture.cache.list(after: after, limit: 3, prefix: ImagePrefix(prefix))
            #expect(page.rows.count <= 3)
            urls += page.rows.map(\.url)
            after = page.next
        } while after != nil
        return urls
    }

    @Test(
        "a prefix of origin, path and query selects the images whose URLs begin with it",
        arguments: [
            ("https://a.example", 21), ("HTTPS://A.example:443/", 21), ("https://a.example/x", 21),
            ("https://a.example/x/", 11), ("https://a.example/xy/", 10), ("https://a.example/x/1?v=1", 1),
            ("https://a.example:444", 10), ("http://a.example/x/", 10), ("https://a.exampl", 0),
            ("https://a.example/X", 0), ("https://a.example/x/signed", 1), ("https://a.example/x/signed?s=1", 0),
        ])
    func selection(_ prefix: String, _ count: Int) async throws {
        try await withCache { fixture in
            try await fill(fixture)
            let listed = try await urls(fixture, prefix)
            #expect(listed.count == count && Set(listed).count == count)
            let trial = try await fixture.cache.remove(ImagePrefix(prefix), isTrial: true)
            #expect(trial.images == count && trial.bytes == count * 1000)
            #expect(fixture.cache.view.statistics.entries == 41)
            let removed = try await fixture.cache.remove(ImagePrefix(prefix), isTrial: false)
            #expect(removed.images == count && removed.bytes == count * 1000)
            #expect(fixture.cache.view.statistics.entries == 41 - count)
            #expect(try await urls(fixture, prefix).isEmpty)
            #expect(try await fixture.rows().count == 41 - count)
        }
    }

    @Test("a file shared by several images counts once, and only if no other image has it")
    func sharedFiles() async throws {
        try await withCache { fixture in
            fixture.origin.answer { order in
                .image(picture(order.url.contains("own") ? 1 : 2), [("Cache-Control", "max-age=3600")])
            }
            for name in ["x/own1", "x/own2", "x/shared1", "x/shared2", "y/shared"] {
                try await fixture.get("https://a.example/\(name)")
            }
            for isTrial in [true, false] {
                let removed = try await fixture.cache.remove(ImagePrefix("https://a.example/x/"), isTrial: isTrial)
                #expect(removed.images == 4 && removed.bytes == 1000)
            }
            #expect(fixture.blobs.count == 1)
            let last = try await fixture.cache.remove(ImagePrefix("https://a.example/y/"), isTrial: false)
            #expect(last.images == 1 && last.bytes == 1000)
        }
    }

    @Test("pinned images that match a prefix are removed, too")
    func pinned() async throws {
        try await withCache { fixture in
            try await fill(fixture)
            #expect(try await fixture.cache.pin(fixture.request("https://a.example/x/1?v=1"), true))
            #expect(try await fixture.cache.remove(ImagePrefix("https://a.example"), isTrial: false).images == 21)
        }
    }

    @Test(
        "a prefix without an http or https scheme or a host, or with a user, a fragment or a final dot segment, is rejected",
        arguments: [
            "", "a.example", "https://", "ftp://a", "https://u@a", "https://a.example/x#y", "https://a.example#",
            "https://a.example/x/.", "https://a.example/x/..?y",
        ])
    func invalid(_ prefix: String) {
        let error = #expect(throws: ImageError.self) { try ImagePrefix(prefix) }
        #expect(error?.code == .invalidURL)
        #expect(!prefix.contains("#") || error?.message.contains("has a fragment") == true)
    }
}
