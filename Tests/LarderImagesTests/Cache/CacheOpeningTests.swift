import Foundation
import LarderHTTPSemantics
import LarderPlatform
import Logging
import NIOPosix
import TestSupport
import Testing

@testable import LarderImages

@Suite("Opening of a large image cache", .timeLimit(.minutes(5)))
struct CacheOpeningTests {
    /// A cache whose index is not read before the test permits it.
    private struct SlowCache {
        let cache: ImageCache
        let origin: FakeOrigin
        let clock: TestClock
        let gate: DispatchSemaphore
        let pool: NIOThreadPool

        init(_ path: String) async throws {
            let (pool, gate) = (NIOThreadPool(numberOfThreads: 1), DispatchSemaphore(value: 0))
            pool.start()
            let blocking = BlockingThreadPool(pool)
            // The only thread is occupied before the index is submitted to it.
            await withCheckedContinuation { continuation in
                Task {
                    await blocking.run {
                        continuation.resume()
                        gate.wait()
                    }
                }
            }
            let settings = ImageCacheSettings(directory: path, space: SpaceLimits(freeBytes: 0))
            (clock, self.gate, self.pool) = (TestClock(), gate, pool)
            let disk = ImageDiskCache(
                try BlobStore(path: path, files: FaultyCacheFiles(path), limits: settings.space), blocking)
            origin = FakeOrigin(disk, clock)
            cache = ImageCache.start(
                settings, disk: disk, origin: origin, clock: clock.imageClock,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        }
    }

    private func makeCache(_ path: String) async throws {
        let fixture = try await CacheFixture.open(path)
        fixture.serveMany()
        for number in 1...3 { try await fixture.get(url(number)) }
        await fixture.cache.stop()
    }

    @Test("requests wait while the index is being read, and then find their images without the network")
    func waiting() async throws {
        try await withPath { path in
            try await makeCache(path)
            let slow = try await SlowCache(path)
            let (cache, now) = (slow.cache, slow.clock.now)
            #expect(!cache.view.isOpen && cache.view.problem == nil && cache.view.statistics.entries == 0)
            let request = ImageRequest(url: url(1), cache: CacheRequest(policy: .cacheOnly))
            #expect(cache.view.hit(request, now: now) == nil)
            async let image = cache.image(request)
            async let rows = cache.list(after: nil, limit: 10).rows
            async let isPinned = cache.pin(ImageRequest(url: url(2)), true)
            async let isRemoved = cache.remove(ImageRequest(url: url(3)))
            // The actor is free, so a watchdog does not end the agent.
            await cache.probe()
            #expect(!cache.view.isOpen)
            slow.gate.signal()
            let found = try await image
            cache.view.release(found.digest)
            #expect(found.source == .hit)
            #expect(try await rows.count >= 2)
            #expect(try await isPinned)
            #expect(try await isRemoved)
            #expect(slow.origin.requests.isEmpty)
            #expect(cache.view.isOpen && cache.view.statistics.entries == 2)
            await cache.stop()
            try await slow.pool.shutdownGracefully()
        }
    }

    @Test("a stop while the index is being read ends the reading, and loses nothing")
    func stopping() async throws {
        try await withPath { path in
            try await makeCache(path)
            do {
                let slow = try await SlowCache(path)
                let cache = slow.cache
                let running = Task { await cache.run() }
                let stop = Task { await cache.stop() }
                while !cache.accounts.isInterrupted { await Task.yield() }
                running.cancel()
                slow.gate.signal()
                await stop.value
                await running.value
                #expect(!cache.view.isOpen)
                await #expect(throws: ImageError.self) { try await cache.image(ImageRequest(url: url(1))) }
                try await slow.pool.shutdownGracefully()
            }
            #expect(FileManager.default.fileExists(atPath: path + "/clean"))
            let fixture = try await CacheFixture.open(path)
            #expect(try await fixture.rows().count == 3)
            await fixture.cache.stop()
        }
    }

    @Test(
        "an index that cannot be read is a problem of the cache, which has no work, and its error is that of each request"
    )
    func unreadable() async throws {
        try await withPath { path in
            try await makeCache(path)
            let slow = try await SlowCache(path)
            // A directory in the place of the database.
            for suffix in ["", "-wal"] { try? FileManager.default.removeItem(atPath: path + "/index.sqlite" + suffix) }
            try FileManager.default.createDirectory(atPath: path + "/index.sqlite", withIntermediateDirectories: false)
            slow.gate.signal()
            let cache = slow.cache
            let error = await #expect(throws: ImageError.self) { try await cache.image(ImageRequest(url: url(1))) }
            #expect(cache.view.problem == error && error?.code == .storageFailed)
            // Returns without being cancelled.
            await cache.run()
            await cache.stop()
            try await slow.pool.shutdownGracefully()
        }
    }

    @Test("a stop interrupts a copy of the index, and the next start makes it")
    func copies() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            try await fixture.get(url(1))
            try await fixture.settle()
            fixture.cache.accounts.isInterrupted = true
            let error = await #expect(throws: ImageError.self) { try await fixture.cache.disk.copyIndex() }
            #expect(error?.code == .shuttingDown)
            #expect(await fixture.cache.disk.unsavedChanges?.hasRows == true)
            fixture.cache.accounts.isInterrupted = false
        }
        try withDirectory { path in
            func open() throws -> ImageIndex { try ImageIndex.open(in: BlobStore(path: path)).index }
            func copy(_ index: ImageIndex) throws {
                _ = try index.beginCopy()
                while try !index.continueCopy(pages: 100) {}
                try index.copy.publish()
            }
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                try index.put([ImageIndexTests.row(1, ImageIndexTests.blob)])
                try copy(index)
                #expect(index.unsavedChanges == .init())
                index.deferCopy()
                try store.markClean()
            }
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                #expect(index.unsavedChanges.hasPins)
                try copy(index)
                try store.markClean()
            }
            #expect(try open().unsavedChanges == .init())
        }
    }

    @Test("only the details of recently used images stay in memory")
    func details() {
        var pool = DetailsPool(limit: 10)
        for slot in 0..<100 as Range<UInt32> { pool[slot] = .unknown }
        #expect(pool.count == 10)
        #expect(pool[89] == nil && pool[90] != nil && pool[99] != nil)
        for _ in 0..<100 {
            pool[95] = nil
            pool[95] = .unknown
        }
        #expect(pool[95] != nil && pool.count <= 10)
        pool[1000] = nil
        #expect(pool[1000] == nil && pool[2000] == nil)
    }
}
