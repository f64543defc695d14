import Foundation
import LarderHTTPSemantics
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
                        (try? ImageOrigin("https://own.example", credential: ImageCredential { [] }))
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
            #expect(fixture.cache.statistics.entries == 6)
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
                fixture.cache.release(image.digest)
                return image.bytes
            }
            #expect(await size("https://img.example/a/logo.png?sig=2", "logo") == IndexVersion3.image.count)
            #expect(await size("https://img.example/b/logo.png?sig=2", "logo") == nil)
            #expect(await size("https://img.example/banner.png", "banner") == nil)
            // An image that a client stored stays fresh, because its origin may not exist.
            var chart = fixture.request("https://img.example/charts")
            chart.cacheKey = "chart"
            let hit = try await fixture.cache.image(chart)
            fixture.cache.release(hit.digest)
            #expect(hit.freshness == .fresh)
            // The path of this image is unknown. It can be unpinned by the URL that a list shows.
            let banner = try await fixture.rows().first { $0.lookup.cacheKey == "banner" }
            #expect(banner?.isPinned == true)
            #expect(banner?.lookup.url == "https://img.example/")
            #expect(await size("https://img.example/", "banner") == IndexVersion3.image.count)
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
