import Foundation
import LarderHTTPSemantics
import LarderUpstream
import TestSupport
import Testing

@testable import LarderImages

@Suite("Migration of an index of version 3")
struct IndexMigrationTests {
    private static let plain = "https://img.example/plain.png"
    private static let redirected = "https://img.example/latest.png"

    /// Runs a body with a migrated cache, then with the same cache after a restart.
    private func withMigratedCache(
        as name: String = IndexFormat.index, _ body: (CacheFixture) async throws -> Void
    ) async throws {
        try await withPath { path in
            try IndexVersion3.make(path, as: name)
            for _ in 0..<2 {
                let log = LogRecorder()
                let fixture = try await CacheFixture.open(path, logger: log.logger) { settings in
                    settings.origins =
                        (try? ImageOrigin("https://own.example", credential: HTTPAccess()))
                        .map { [$0] } ?? []
                }
                try await body(fixture)
                await fixture.cache.stop()
            }
        }
    }

    @Test("no image and no pin is lost", arguments: [IndexFormat.index, IndexFormat.copy])
    func kept(_ name: String) async throws {
        try await withMigratedCache(as: name) { fixture in
            let rows = try await fixture.rows()
            #expect(rows.count == 6)
            #expect(rows.count(where: \.isPinned) == 3)
            #expect(rows.count { $0.response.fields.first("etag") == "\"a\"" } == 5)
            #expect(fixture.cache.view.statistics.entries == 6)
            #expect(try await fixture.get(Self.plain, .cacheOnly).bytes == IndexVersion3.image.count)
            #expect(try await fixture.get("https://own.example/private.png", .cacheOnly).width == 3)
            #expect(try await fixture.get(Self.redirected, .cacheOnly).height == 2)
        }
    }

    @Test("a fresh image stays fresh, and is then fetched once without a validator")
    func validators() async throws {
        try await withPath { path in
            try IndexVersion3.make(path)
            let fixture = try await CacheFixture.open(path)
            #expect(try await fixture.get(Self.plain).freshness == .fresh)
            #expect(fixture.origin.requests.isEmpty)
            fixture.origin.answer(picture(1), [("ETag", "\"a\""), ("Cache-Control", "max-age=60")])
            fixture.clock.advance(100)
            #expect(try await fixture.get(Self.plain).source == .miss)
            #expect(fixture.origin.requests.last?.cached?.validator == nil)
            fixture.clock.advance(100)
            fixture.origin.answer { _ in .notModified([("Cache-Control", "max-age=60")]) }
            #expect(try await fixture.get(Self.plain).freshness == .revalidated)
            #expect(fixture.origin.requests.last?.cached?.validator?.url == Self.plain)
            await fixture.cache.stop()
        }
    }

    @Test("an image whose URL redirects is stale, and is then fetched once without a validator")
    func redirects() async throws {
        try await withPath { path in
            try IndexVersion3.make(path)
            let fixture = try await CacheFixture.open(path)
            fixture.origin.answer(picture(1))
            #expect(try await fixture.get(Self.redirected).source == .miss)
            #expect(fixture.origin.requests.last?.cached?.validator == nil)
            #expect(try await fixture.get(Self.redirected).freshness == .fresh)
            #expect(try await fixture.rows().first { $0.lookup.url == Self.redirected }?.isPinned == true)
            await fixture.cache.stop()
        }
    }

    @Test("an image with a cache key is found by requests with that key for the path that it came from")
    func cacheKeys() async throws {
        try await withMigratedCache { fixture in
            func size(_ url: String, _ key: String) async -> Int? {
                var request = fixture.request(url, .cacheOnly)
                request.cacheKey = key
                guard let image = try? await fixture.cache.image(request) else { return nil }
                fixture.cache.view.release(image.digest)
                return image.bytes
            }
            #expect(await size("https://img.example/a/logo.png?sig=2", "logo") == IndexVersion3.image.count)
            #expect(await size("https://img.example/b/logo.png?sig=2", "logo") == nil)
            #expect(await size("https://img.example/banner.png", "banner") == nil)
            // An image that a client stored stays fresh, because its origin may not exist.
            var chart = fixture.request("https://img.example/charts")
            chart.cacheKey = "chart"
            let hit = try await fixture.cache.image(chart)
            fixture.cache.view.release(hit.digest)
            #expect(hit.freshness == .fresh)
            // The path of this image is unknown. It can be unpinned by the URL that a list shows.
            let banner = try await fixture.rows().first { $0.lookup.cacheKey == "banner" }
            #expect(banner?.isPinned == true)
            #expect(banner?.lookup.url == "https://img.example/")
            #expect(await size("https://img.example/", "banner") == IndexVersion3.image.count)
        }
    }

    /// Runs a body with a migrated cache to which `add` has added images.
    private func withMigratedCache(
        adding add: (String) throws -> Void, _ body: (CacheFixture) async throws -> Void
    ) async throws {
        try await withPath { path in
            try IndexVersion3.make(path)
            try add(path)
            let fixture = try await CacheFixture.open(path)
            fixture.origin.answer(picture(1))
            try await body(fixture)
            await fixture.cache.stop()
        }
    }

    @Test(
        "an image whose URL was escaped before its request is found under the URL as it is requested",
        arguments: ["https://img.example/a%5B1%5D.png", "https://img.example/a[1].png"])
    func escapedURL(_ recorded: String) async throws {
        let written = "https://img.example/a[1].png"
        try await withMigratedCache {
            try IndexVersion3.add($0, written, from: recorded, isPinned: true)
        } _: { fixture in
            for url in [written, "https://img.example/a%5B1%5D.png"] {
                let image = try await fixture.get(url)
                #expect(image.source == .hit && image.freshness == .fresh && image.bytes == IndexVersion3.image.count)
            }
            #expect(fixture.origin.requests.isEmpty)
            let row = try await fixture.rows().first { $0.lookup.url == "https://img.example/a%5B1%5D.png" }
            #expect(row?.isPinned == true)
            // Without the settings of its origin, the image with a credential is removed.
            #expect(try await fixture.rows().count == 6)
        }
    }

    @Test("of two images whose URLs are requested in the same way, the newer one stays, with the pin of the other one")
    func sameRequest() async throws {
        let escaped = "https://img.example/a%5B1%5D.png"
        try await withMigratedCache { path in
            try IndexVersion3.add(path, "https://img.example/a[1].png", from: escaped, isPinned: true, at: 999_980)
            try IndexVersion3.add(path, escaped, from: escaped, at: 999_990)
        } _: { fixture in
            let rows = try await fixture.rows().filter { $0.lookup.url.contains("a%5B1%5D") || $0.isPinned }
            #expect(rows.count == 4)
            #expect(rows.first { $0.lookup.url == escaped }?.isPinned == true)
            #expect(rows.first { $0.lookup.url == escaped }?.response.responseTime == 999_990)
        }
    }

    @Test(
        "an image that may be that of another URL is stale",
        arguments: [
            ("https://img.example/img/%B1.jpg", "https://img.example/img/%B1.jpg"),
            ("https://img.example/a[1]%20b.png", "https://img.example/a%5B1%5D%2520b.png"),
        ])
    func otherURL(_ written: String, _ recorded: String) async throws {
        try await withMigratedCache {
            try IndexVersion3.add($0, written, from: recorded, isPinned: true)
        } _: { fixture in
            let image = try await fixture.get(written)
            #expect(image.source == .miss)
            #expect(fixture.origin.requests.last?.cached?.validator == nil)
            let rows = try await fixture.rows()
            #expect(rows.count == 6)
            #expect(rows.count(where: \.isPinned) == 4)
        }
    }

    @Test("an unfinished migration is repeated by the next start")
    func killed() throws {
        try withDirectory { path in
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            try IndexVersion3.make(path)
            // A transaction that was not committed.
            try SQLiteDatabase(path: path + "/" + IndexFormat.index)
                .run("BEGIN; ALTER TABLE detail ADD COLUMN sender INTEGER")
            let opened = try ImageIndex.open(in: BlobStore(path: path))
            #expect(opened.condition == .whole)
            #expect(opened.entries.count == 6)
        }
    }
}
