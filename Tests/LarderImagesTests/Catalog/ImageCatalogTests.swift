import Dispatch
import Foundation
import LarderPlatform
import Synchronization
import Testing

@testable import LarderImages

@Suite("View, catalog and disk of the image cache")
struct ImageCatalogTests {
    private final class Log: Sendable {
        let numbers = Mutex<[Int]>([])
    }

    @Test("a use that was counted before an image was removed does not count for the next image in its slot")
    func reusedSlot() async throws {
        try await withPath { path in
            let disk = ImageDiskCache(try BlobStore(counting: path), CacheFixture.blocking)
            let wakeUps = Atomic(0)
            let signal = Signal(wake: { _ in wakeUps.add(1, ordering: .relaxed) })
            let view = ImageCacheView(disk, fingerprint: 0, signal: signal)
            let catalog = ImageCatalog(
                view.tables, ImageCacheSettings(directory: path), fingerprint: 0, signal: signal)
            func row(_ number: Int) async throws -> ImageRow {
                ImageRow(
                    keyText: "\n" + url(number), url: url(number), blob: try await disk.put(picture(number)),
                    response: response([("Cache-Control", "max-age=3600")]), lastUse: now)
            }
            let rows = (first: try await row(1), second: try await row(2))
            #expect(catalog.put(rows.first.entry, .unknown) == nil)
            let hit = try #require(view.hit(ImageRequest(url: url(1)), now: now + 5))
            view.release(hit.digest)
            #expect(catalog.remove(rows.first.entry))
            #expect(catalog.put(rows.second.entry, .unknown) == nil)
            #expect(catalog.takeTouches(limit: 10).isEmpty)
            _ = try #require(view.hit(ImageRequest(url: url(2)), now: now + 7))
            let touches = catalog.takeTouches(limit: 10)
            #expect(touches.map(\.key) == [rows.second.key] && touches.map(\.time) == [now + 7])
            #expect(catalog.inconsistency == nil)
            #expect(wakeUps.load(ordering: .relaxed) == 0)
        }
    }

    @Test("hits wake the actor once for each batch of uses, and any number of uses takes little memory")
    func batches() async throws {
        try await withPath { path in
            let disk = ImageDiskCache(try BlobStore(counting: path), CacheFixture.blocking)
            let wakeUps = Atomic(0)
            let signal = Signal(wake: { _ in wakeUps.add(1, ordering: .relaxed) })
            let view = ImageCacheView(disk, fingerprint: 0, signal: signal)
            let catalog = ImageCatalog(
                view.tables, ImageCacheSettings(directory: path), fingerprint: 0, signal: signal)
            let row = ImageRow(
                keyText: "\n" + url(1), url: url(1), blob: try await disk.put(picture(1)),
                response: response([("Cache-Control", "max-age=3600")]), lastUse: now)
            #expect(catalog.put(row.entry, .unknown) == nil)
            let request = try #require(view.prepare(ImageRequest(url: url(1))))
            for expected in 1...2 {
                for _ in 0..<20_000 { view.release(try #require(view.hit(request, now: now + expected)).digest) }
                #expect(wakeUps.load(ordering: .relaxed) == expected)
                let releases = catalog.takeReleases()
                #expect(releases.unreferenced.isEmpty && !releases.mayMakeRoom)
                #expect(catalog.takeTouches(limit: 10).map(\.time) == [now + expected])
            }
            #expect(view.statistics.hits == 40_000)
        }
    }

    @Test("a hit on any thread protects an image from eviction")
    func hitsKeepImages() async throws {
        try await withCache({ $0.space = SpaceLimits(count: 20, freeBytes: 0) }) { fixture in
            fixture.serveMany()
            for number in 1...20 { try await fixture.get(url(number)) }
            let (view, time) = (fixture.cache.view, fixture.clock.now)
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        if let hit = view.hit(ImageRequest(url: url(1)), now: time) { view.release(hit.digest) }
                    }
                }
            }
            for number in 21...35 { try await fixture.get(url(number)) }
            #expect(view.peek(ImageRequest(url: url(1)), now: time) != nil)
            #expect(view.peek(ImageRequest(url: url(2)), now: time) == nil)
        }
    }

    @Test("the release of the last reference on any thread removes the file")
    func release() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1), [("Cache-Control", "no-store")])
            let image = try await fixture.cache.image(fixture.request(url(1)))
            #expect(fixture.blobs.count == 1)
            fixture.cache.view.release(image.digest)
            // The file no longer counts as used space once it has been removed.
            await fixture.until { fixture.cache.view.statistics.bytes == 0 }
            #expect(fixture.blobs.isEmpty)
        }
    }

    @Test("the disk performs calls in the order of their submission, whatever the priorities of their tasks")
    func order() async throws {
        try await withPath { path in
            let disk = ImageDiskCache(try BlobStore(counting: path), CacheFixture.blocking)
            let gate = DispatchSemaphore(value: 0)
            let log = Log()
            let occupation = Task.immediate { await disk.wait(for: gate) }
            let priorities: [TaskPriority] = [.background, .high, .low, .medium]
            let calls = (0..<100).map { number in
                Task.immediate(priority: priorities[number % 4]) {
                    await disk.run { log.numbers.withLock { $0.append(number) } }
                }
            }
            gate.signal()
            await occupation.value
            for call in calls { await call.value }
            #expect(log.numbers.withLock { $0 } == Array(0..<100))
        }
    }

    @Test("a caller waits for room if 1,024 calls of the disk have not ended, and not if there are fewer")
    func room() async throws {
        try await withPath { path in
            let disk = ImageDiskCache(try BlobStore(counting: path), CacheFixture.blocking)
            let gate = DispatchSemaphore(value: 0)
            let occupation = Task.immediate { await disk.wait(for: gate) }
            for _ in 0..<1022 { Task.immediate { await disk.settle() } }
            await disk.waitForRoom()
            Task.immediate { await disk.settle() }
            let ended = Atomic(0)
            let waiter = Task.immediate {
                await disk.waitForRoom()
                ended.add(1, ordering: .relaxed)
            }
            #expect(ended.load(ordering: .relaxed) == 0)
            gate.signal()
            await waiter.value
            #expect(ended.load(ordering: .relaxed) == 1)
            await occupation.value
        }
    }
}
