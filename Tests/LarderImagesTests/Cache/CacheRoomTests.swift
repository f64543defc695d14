import Foundation
import LarderHTTPSemantics
import Testing

@testable import LarderImages

@Suite("Eviction for new images, and its failures")
struct CacheRoomTests {
    private func serveMany(_ fixture: CacheFixture, size: Int = 1000) {
        fixture.origin.answer { order in
            let number = Int(order.url.split(separator: "/").last?.split(separator: ".").first ?? "") ?? 0
            return .image(
                picture(number, size: size), [("Cache-Control", "max-age=1000"), ("Content-Length", String(size))])
        }
    }

    /// Makes SQLite refuse writes to the index while a body runs. A lock held by another connection cannot be used for
    /// this, because the index is opened with an exclusive lock.
    private func withReadOnlyIndex(_ fixture: CacheFixture, _ body: () async throws -> Void) async throws {
        try await fixture.settle()
        try await fixture.cache.disk.execute("PRAGMA query_only = ON")
        try await body()
        try await fixture.cache.disk.execute("PRAGMA query_only = OFF")
    }

    @Test("with a read-only index nothing is evicted, and requests that need space fail")
    func readOnlyIndex() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 1 << 30, count: 3, freeBytes: 0) }) { fixture in
            serveMany(fixture)
            for number in 1...3 { try await fixture.get(url(number)) }
            try await withReadOnlyIndex(fixture) {
                #expect(await fixture.code(url(4)) == .storageFailed)
                await withTaskGroup(of: Void.self) { group in
                    for number in 5...9 {
                        group.addTask {
                            let code = await fixture.code(url(number))
                            #expect(code == .storageFailed || code == .cacheFull)
                        }
                    }
                }
                var settings = fixture.settings
                settings.space = SpaceLimits(bytes: 1 << 30, count: 1, freeBytes: 0)
                await fixture.cache.update(settings)
                #expect(fixture.cache.view.statistics.entries == 3)
                #expect(fixture.cache.view.statistics.evictions == 0)
                #expect(await fixture.code(url(1), .cacheOnly) == nil)
            }
            await fixture.cache.enforceLimits()
            #expect(fixture.cache.view.statistics.entries == 1)
            #expect(fixture.cache.view.statistics.evictions == 2)
            #expect(await fixture.code(url(4)) == nil)
        }
    }

    @Test("a failed write to the index is a problem of the cache until a write succeeds")
    func writeProblem() async throws {
        try await withCache { fixture in
            serveMany(fixture)
            try await fixture.get(url(1))
            try await fixture.settle()
            #expect(fixture.cache.view.writeProblem == nil)
            try await withReadOnlyIndex(fixture) {
                // The image is returned, but its row cannot be stored.
                _ = await fixture.code(url(2))
                try await fixture.settle()
                #expect(fixture.cache.view.writeProblem?.code == .storageFailed)
                await fixture.cache.retryWriting()
                #expect(fixture.cache.view.writeProblem?.code == .storageFailed)
            }
            await fixture.cache.retryWriting()
            #expect(fixture.cache.view.writeProblem == nil)
        }
    }

    @Test("if the index is read-only, remove, clear and pin fail and change nothing")
    func noFalseSuccess() async throws {
        try await withCache { fixture in
            serveMany(fixture)
            for number in 1...3 { try await fixture.get(url(number)) }
            #expect(try await fixture.cache.pin(fixture.request(url(2)), true))
            try await withReadOnlyIndex(fixture) {
                await #expect(throws: ImageError.self) { try await fixture.cache.remove(fixture.request(url(1))) }
                await #expect(throws: ImageError.self) { try await fixture.cache.clear() }
                await #expect(throws: ImageError.self) { try await fixture.cache.pin(fixture.request(url(1)), true) }
                await #expect(throws: ImageError.self) { try await fixture.cache.pin(fixture.request(url(2)), false) }
                #expect(fixture.cache.view.statistics.entries == 3)
                let pinned = try await fixture.rows().map(\.isPinned)
                #expect(pinned.filter(\.self).count == 1)
            }
            // Checks that the rows in memory and on disk agree.
            let cleared = try await fixture.cache.clear()
            #expect(cleared.images == 2)
            #expect(try await fixture.rows().map(\.isPinned) == [true])
        }
    }

    @Test(
        "the state of a pin on disk is that of the last write that succeeds, in whatever order results are handled",
        arguments: [false, true], 0..<8)
    func concurrentPins(wasPinned: Bool, outcomes: Int) throws {
        let key = try #require(ImageKey(hex: String(repeating: "0a", count: 16)))
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            var pins = PinWrites()
            #expect(pins.join(key, true) == nil)
            // A pin, the replacement of the row, and an unpin.
            let pin = pins.begin(key, true, before: wasPinned)
            let replacement = pins.join(key, true)
            let unpin = pins.begin(key, false, before: true)
            let writes = [pin, try #require(replacement), unpin]
            let hasSucceeded = (0..<3).map { outcomes >> $0 & 1 == 1 }
            let stored = hasSucceeded[2] ? false : hasSucceeded[0] || hasSucceeded[1] ? true : wasPinned
            for index in order.dropLast() { #expect(pins.end(writes[index], hasSucceeded: hasSucceeded[index]) == nil) }
            let last = order[2]
            #expect(pins.end(writes[last], hasSucceeded: hasSucceeded[last]) == stored, "\(order)")
            #expect(pins.isEmpty)
        }
    }

    @Test("a removal that fails leaves the state of the pin on disk")
    func pinBeforeRemoval() throws {
        let key = try #require(ImageKey(hex: String(repeating: "0a", count: 16)))
        var pins = PinWrites()
        let pin = pins.begin(key, true, before: false)
        let removal = pins.join(key, nil)
        #expect(pins.end(try #require(removal), hasSucceeded: false) == nil)
        #expect(pins.end(pin, hasSucceeded: false) == false)
        #expect(pins.isEmpty)
    }

    @Test("a request fails if its file is missing and the row cannot be removed")
    func damagedWithReadOnlyIndex() async throws {
        try await withCache { fixture in
            serveMany(fixture)
            let image = try await fixture.cache.image(fixture.request(url(1)))
            try FileManager.default.removeItem(atPath: fixture.cache.view.path(of: image.digest))
            await #expect(throws: ImageError.self) { try await fixture.cache.openBlob(image.digest) }
            fixture.cache.view.release(image.digest)
            try await withReadOnlyIndex(fixture) { #expect(await fixture.code(url(1)) == .storageFailed) }
            #expect(await fixture.code(url(1)) == nil)
        }
    }

    @Test("an image that does not fit beside pinned images evicts none; a file of several pinned images counts once")
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
            #expect(fixture.cache.accounts.retained == (6000, 2))
            let lease = try await fixture.cache.image(fixture.request(url(1)))
            #expect(fixture.cache.accounts.retained == (6000, 2))
            fixture.cache.view.release(lease.digest)
            #expect(await fixture.code(url(5)) == .cacheFull)
            #expect(await fixture.code(url(4), .cacheOnly) == nil)
            // Two rows pin the same file. The file counts as pinned until neither of the rows pins it.
            #expect(try await fixture.cache.pin(fixture.request(url(1)), false))
            #expect(fixture.cache.accounts.retained == (6000, 2))
            #expect(try await fixture.cache.remove(fixture.request(url(2))))
            #expect(fixture.cache.accounts.retained == (3000, 1))
            #expect(await fixture.code(url(5)) == nil)
        }
    }

    @Test("an image whose file is missing is downloaded again after a sweep, or instead of a revalidation")
    func missingFile() async throws {
        try await withCache { fixture in
            fixture.origin.answer { order in
                order.cached == nil
                    ? .image(picture(order.url.utf8.count), [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
                    : .notModified([("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
            }
            for number in [1, 22, 333] {
                let digest = try await fixture.get(url(number)).digest
                if number > 1 { try FileManager.default.removeItem(atPath: fixture.cache.view.path(of: digest)) }
                if number == 22 { await fixture.cache.sweep() }
            }
            #expect(fixture.cache.view.statistics.entries == 2)
            #expect(fixture.cache.view.statistics.files == 2)
            #expect(try await fixture.get(url(22)).source == .miss)
            fixture.clock.advance(20)
            for (number, freshness) in [(1, CachedImage.Freshness.revalidated), (333, .fresh)] {
                let image = try await fixture.cache.image(fixture.request(url(number)))
                #expect(image.freshness == freshness)
                #expect(FileManager.default.fileExists(atPath: fixture.cache.view.path(of: image.digest)))
                fixture.cache.view.release(image.digest)
            }
        }
    }

    @Test("a response that declares many bytes but does not send them evicts no image")
    func declaredOnly() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 64_000, count: 60, freeBytes: 0, bytesPerImage: 64_000) }) {
            fixture in
            serveMany(fixture)
            for number in 1...50 { try await fixture.get(url(number)) }
            fixture.origin.answer { _ in .image(Array(picture(1).prefix(14)), [("Content-Length", "64000")]) }
            await withTaskGroup(of: Void.self) { group in
                for number in 101...108 { group.addTask { _ = await fixture.code(url(number)) } }
            }
            #expect(fixture.cache.view.statistics.evictions == 0)
            serveMany(fixture)
            for number in 51...60 { try await fixture.get(url(number)) }
            // A response that declares a length but has no body evicts no image either.
            fixture.origin.answer { _ in .image([], [("Content-Length", "64000")]) }
            for number in 201...208 { #expect(await fixture.code(url(number)) != nil) }
            #expect(fixture.cache.view.statistics.evictions == 0)
            #expect(fixture.cache.view.statistics.entries == 60)
        }
    }

    @Test("concurrent downloads into a small cache wait for space, and none fails")
    func smallCache() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 700_000, freeBytes: 0) }) { fixture in
            serveMany(fixture, size: 300_000)
            let summary = await fixture.cache.prefetch(
                (1...30).map { fixture.request(url($0)) }, concurrency: 12, progress: { _ in })
            #expect(summary.failures.map(\.error.message) == [])
            #expect(summary.fetched == 30)
            #expect(fixture.cache.view.statistics.bytes <= 700_000)
            // No transfer is left waiting, and an image that can never fit fails at once.
            #expect(await fixture.cache.spaceWaiters == 0)
            serveMany(fixture, size: 800_000)
            #expect(await fixture.code(url(99)) == .cacheFull)
        }
    }
}
