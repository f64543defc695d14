import Foundation
import Synchronization
import Testing

@testable import LarderImages

@Suite("How the image cache makes room, and what it does where it cannot")
struct CacheRoomTests {
    private func serveMany(_ fixture: CacheFixture, size: Int = 1000) {
        fixture.origin.answer { order in
            let number = Int(order.url.split(separator: "/").last?.split(separator: ".").first ?? "") ?? 0
            return .image(picture(number, size: size), [("Cache-Control", "max-age=1000")])
        }
    }

    /// Lets nobody else write to the index while a body runs.
    private func withIndexClosed(_ fixture: CacheFixture, _ body: () async throws -> Void) async throws {
        try await fixture.settle()
        let other = try SQLiteDatabase(path: fixture.path + "/index.sqlite")
        try other.run("BEGIN IMMEDIATE")
        try await body()
        try other.run("ROLLBACK")
    }

    @Test("where the index cannot be written nothing goes, who wants room is told so, and nobody waits for ever")
    func indexClosed() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 1 << 30, count: 3, freeBytes: 0) }) { fixture in
            serveMany(fixture)
            for number in 1...3 { try await fixture.get(url(number)) }
            try await withIndexClosed(fixture) {
                #expect(await fixture.code(url(4)) == .storageFailed)
                await withTaskGroup(of: Void.self) { group in
                    for number in 5...9 {
                        group.addTask {
                            let code = await fixture.code(url(number))
                            #expect(code == .storageFailed || code == .noRoom)
                        }
                    }
                }
                var settings = fixture.settings
                settings.space = SpaceLimits(bytes: 1 << 30, count: 1, freeBytes: 0)
                await fixture.cache.update(settings)
                #expect(fixture.cache.statistics.entries == 3)
                #expect(fixture.cache.statistics.evictions == 0)
                #expect(await fixture.code(url(1), .cacheOnly) == nil)
            }
            await fixture.cache.keepLimits()
            #expect(fixture.cache.statistics.entries == 1)
            #expect(fixture.cache.statistics.evictions == 2)
            #expect(await fixture.code(url(4)) == nil)
        }
    }

    @Test("what cannot be removed, cleared or pinned is an error, and is as it was")
    func noFalseSuccess() async throws {
        try await withCache { fixture in
            serveMany(fixture)
            for number in 1...3 { try await fixture.get(url(number)) }
            #expect(try await fixture.cache.pin(fixture.request(url(2)), true))
            try await withIndexClosed(fixture) {
                await #expect(throws: ImageError.self) { try await fixture.cache.remove(fixture.request(url(1))) }
                await #expect(throws: ImageError.self) { try await fixture.cache.clear() }
                await #expect(throws: ImageError.self) { try await fixture.cache.pin(fixture.request(url(1)), true) }
                await #expect(throws: ImageError.self) { try await fixture.cache.pin(fixture.request(url(2)), false) }
                #expect(fixture.cache.statistics.entries == 3)
                let pinned = try await fixture.rows().map(\.isPinned)
                #expect(pinned.filter(\.self).count == 1)
            }
            // What is in memory is what is on disk.
            let cleared = try await fixture.cache.clear()
            #expect(cleared.images == 2)
            #expect(try await fixture.rows().map(\.isPinned) == [true])
        }
    }

    @Test("a damaged file whose row cannot be removed is an error, not a loop")
    func damagedAndClosed() async throws {
        try await withCache { fixture in
            serveMany(fixture)
            let image = try await fixture.cache.image(fixture.request(url(1)))
            try FileManager.default.removeItem(atPath: fixture.cache.path(of: image.digest))
            #expect(throws: ImageError.self) { try fixture.cache.openBlob(image.digest) }
            fixture.cache.release(image.digest)
            try await withIndexClosed(fixture) { #expect(await fixture.code(url(1)) == .storageFailed) }
            #expect(await fixture.code(url(1)) == nil)
        }
    }
}
