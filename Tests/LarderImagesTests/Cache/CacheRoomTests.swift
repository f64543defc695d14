import Foundation
import LarderHTTPSemantics
import Synchronization
import Testing

@testable import LarderImages

@Suite("How the image cache makes room, and what it does where it cannot")
struct CacheRoomTests {
    private func serveMany(_ fixture: CacheFixture, size: Int = 1000) {
        fixture.origin.answer { order in
            let number = Int(order.url.split(separator: "/").last?.split(separator: ".").first ?? "") ?? 0
            return .image(
                picture(number, size: size), [("Cache-Control", "max-age=1000"), ("Content-Length", String(size))])
        }
    }

    /// Has SQLite refuse to write to the index while a body runs. Nobody else could lock it: the agent alone opens it.
    private func withIndexClosed(_ fixture: CacheFixture, _ body: () async throws -> Void) async throws {
        try await fixture.settle()
        try fixture.cache.disk.index.database.withLock { try $0.database.run("PRAGMA query_only = ON") }
        try await body()
        try fixture.cache.disk.index.database.withLock { try $0.database.run("PRAGMA query_only = OFF") }
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
            await fixture.cache.enforceLimits()
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

    @Test("nothing is evicted for an image that has no place beside what is pinned; what is pinned counts once")
    func pinnedBytes() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 10_000, freeBytes: 0) }) { fixture in
            fixture.origin.answer { order in
                switch order.url {
                case url(1), url(2): .image(picture(1, size: 3000), [("Cache-Control", "max-age=1000")])
                case url(3): .image(picture(3, size: 3000), [("Cache-Control", "max-age=1000")])
                case url(4): .image(picture(4, size: 2000), [("Cache-Control", "max-age=1000")])
                default: .image(picture(5, size: 5000), [("Content-Length", "5000")])
                }
            }
            for number in 1...4 { try await fixture.get(url(number)) }
            for number in 1...3 { #expect(try await fixture.cache.pin(fixture.request(url(number)), true)) }
            #expect(fixture.cache.disk.blobs.held == (6000, 2))
            let lease = try await fixture.cache.image(fixture.request(url(1)))
            #expect(fixture.cache.disk.blobs.held == (6000, 2))
            fixture.cache.release(lease.digest)
            #expect(await fixture.code(url(5)) == .noRoom)
            #expect(await fixture.code(url(4), .cacheOnly) == nil)
            // Two rows pin the same file: it is held until neither does.
            #expect(try await fixture.cache.pin(fixture.request(url(1)), false))
            #expect(fixture.cache.disk.blobs.held == (6000, 2))
            #expect(try await fixture.cache.remove(fixture.request(url(2))))
            #expect(fixture.cache.disk.blobs.held == (3000, 1))
            #expect(await fixture.code(url(5)) == nil)
        }
    }

    @Test("a file that somebody removed is fetched again after a look at the files, and where its origin is asked")
    func missingFile() async throws {
        try await withCache { fixture in
            fixture.origin.answer { order in
                order.cached == nil
                    ? .image(picture(order.url.utf8.count), [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
                    : .notModified([("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
            }
            for number in [1, 22, 333] {
                let digest = try await fixture.get(url(number)).digest
                if number > 1 { try FileManager.default.removeItem(atPath: fixture.cache.path(of: digest)) }
                if number == 22 { await fixture.cache.sweep() }
            }
            #expect(fixture.cache.statistics.entries == 2)
            #expect(fixture.cache.statistics.files == 2)
            #expect(try await fixture.get(url(22)).source == .miss)
            fixture.clock.advance(20)
            for (number, freshness) in [(1, CachedImage.Freshness.revalidated), (333, .fresh)] {
                let image = try await fixture.cache.image(fixture.request(url(number)))
                #expect(image.freshness == freshness)
                #expect(FileManager.default.fileExists(atPath: fixture.cache.path(of: image.digest)))
                fixture.cache.release(image.digest)
            }
        }
    }

    @Test("what is declared and does not come evicts nothing")
    func declaredOnly() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 64_000, count: 60, freeBytes: 0, bytesPerImage: 64_000) }) {
            fixture in
            serveMany(fixture)
            for number in 1...50 { try await fixture.get(url(number)) }
            fixture.origin.answer { _ in .image(Array(picture(1).prefix(14)), [("Content-Length", "64000")]) }
            await withTaskGroup(of: Void.self) { group in
                for number in 101...108 { group.addTask { _ = await fixture.code(url(number)) } }
            }
            #expect(fixture.cache.statistics.evictions == 0)
            serveMany(fixture)
            for number in 51...60 { try await fixture.get(url(number)) }
            // A request without bytes needs no place among the images either.
            fixture.origin.answer { _ in .image([], [("Content-Length", "64000")]) }
            for number in 201...208 { #expect(await fixture.code(url(number)) != nil) }
            #expect(fixture.cache.statistics.evictions == 0)
            #expect(fixture.cache.statistics.entries == 60)
        }
    }

    @Test("many at once in a small cache wait for one another's room, and none fails")
    func smallCache() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 700_000, freeBytes: 0) }) { fixture in
            serveMany(fixture, size: 300_000)
            let summary = await fixture.cache.prefetch(
                (1...30).map { fixture.request(url($0)) }, concurrency: 12, progress: { _ in })
            #expect(summary.failures.map(\.error.message) == [])
            #expect(summary.fetched == 30)
            #expect(fixture.cache.statistics.bytes <= 700_000)
            // Nobody is left waiting, and what can never fit is told at once.
            #expect(await fixture.cache.spaceWaiters == 0)
            serveMany(fixture, size: 800_000)
            #expect(await fixture.code(url(99)) == .noRoom)
        }
    }
}
