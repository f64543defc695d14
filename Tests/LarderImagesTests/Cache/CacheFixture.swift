import Foundation
import LarderDigest
import LarderHTTPSemantics
import LarderPlatform
import LarderUpstream
import Logging
import NIOPosix
import TestSupport
import Testing

@testable import LarderImages

/// A cache with an origin and a clock that the test controls.
struct CacheFixture {
    let path: String
    let cache: ImageCache
    let origin: FakeOrigin
    let clock: TestClock
    let files: FaultyCacheFiles
    let settings: ImageCacheSettings

    static let blocking = {
        let threads = NIOThreadPool(numberOfThreads: 4)
        threads.start()
        return BlockingThreadPool(threads)
    }()

    /// Opens a cache in a directory, which may already contain a cache.
    static func open(
        _ path: String, clock: TestClock = TestClock(), files: FaultyCacheFiles? = nil,
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ change: (inout ImageCacheSettings) -> Void = { _ in }
    ) async throws -> CacheFixture {
        var settings = ImageCacheSettings(directory: path, space: SpaceLimits(freeBytes: 0))
        change(&settings)
        let files = try files ?? FaultyCacheFiles(path)
        let disk = try await openDisk(settings, files)
        let origin = FakeOrigin(disk, clock)
        let cache = ImageCache.start(settings, disk: disk, origin: origin, clock: clock.imageClock, logger: logger)
        try await cache.opened()
        return CacheFixture(
            path: path, cache: cache, origin: origin, clock: clock, files: files, settings: settings)
    }

    /// Opens the directory, and retries while a previous cache has the lock. A thread for blocking work keeps its last
    /// closure until it runs the next one, and this closure may retain the previous cache.
    private static func openDisk(
        _ settings: ImageCacheSettings, _ files: FaultyCacheFiles
    ) async throws -> ImageDiskCache {
        while true {
            do throws(ImageError) {
                let store = try BlobStore(
                    path: settings.directory, files: files, limits: settings.space, imageLimits: settings.images)
                return ImageDiskCache(store, blocking)
            } catch {
                guard error.code == .cacheInUse else { throw error }
                await blocking.run {}
            }
        }
    }

    /// Serves a different image at each URL. A URL ends with the number of its image.
    func serveMany(size: Int = 1000) {
        origin.answer { order in
            let number = Int(order.url.split(separator: "/").last?.split(separator: ".").first ?? "") ?? 0
            return .image(picture(number, size: size), [("Cache-Control", "max-age=1000")])
        }
    }

    /// Requests an image and releases it immediately.
    @discardableResult
    func get(_ url: String, _ policy: CachePolicy = .default, maximumAge: Int? = nil) async throws -> CachedImage {
        let image = try await cache.image(request(url, policy, maximumAge: maximumAge))
        cache.view.release(image.digest)
        return image
    }

    func request(_ url: String, _ policy: CachePolicy = .default, maximumAge: Int? = nil) -> ImageRequest {
        ImageRequest(url: url, cache: CacheRequest(policy: policy, maximumAge: maximumAge))
    }

    /// The error code of a request; nil if it succeeds.
    func code(_ url: String, _ policy: CachePolicy = .default) async -> ImageError.Code? {
        do { try await get(url, policy) } catch { return (error as? ImageError)?.code }
        return nil
    }

    /// Returns once all disk work submitted so far is done.
    func settle() async throws {
        for _ in 0..<3 {
            await cache.handleEvents()
            await cache.disk.settle()
            await cache.probe()
        }
    }

    /// What is inconsistent between the tables, the queues and the ledgers; nil if nothing is. No request may run.
    func inconsistency() async throws -> String? {
        try await settle()
        return await cache.inconsistency
    }

    /// The sizes of the image files, by digest.
    var blobs: [String: Int] {
        let named = filesBelow(path + "/blobs").map { (String($0.key.suffix(64)), $0.value) }
        return Dictionary(named) { first, _ in first }
    }

    /// All rows of the index.
    func rows() async throws -> [ImageRow] {
        var rows: [ImageRow] = []
        var after: String?
        repeat {
            let page = try await cache.list(after: after, limit: 7)
            rows += page.rows
            after = page.next
        } while after != nil
        return rows
    }

    /// Returns once a condition holds. Yields to other tasks.
    func until(_ condition: () async -> Bool) async {
        while await !condition() { await Task.yield() }
    }

    /// Returns once `count` requests wait for an image.
    func waitForWaiters(_ count: Int, for url: String) async {
        await until { (try? await cache.explain(request(url)))?.download?.waiters == count }
    }
}

/// Gives tests access to the parts (`downloads`, `reclaimer`, `maintenance`) of the cache actor.
extension ImageCache {
    var transferIDs: [TransferID] { downloads.table.ids }
    var spaceWaiters: Int { reclaimer.queue.count }
    var isSpaceSettled: Bool { reclaimer.queue.isSettled }
    func spaceFreed() { reclaimer.spaceFreed() }
    var inconsistency: String? { catalog.inconsistency }
    var firstDigest: BlobDigest? { catalog.digests(from: 0).digests.first }
    func sweep() async { await maintenance.sweep() }
    func expire() async { await maintenance.expire() }
    func writeTouches() async { await maintenance.writeTouches() }
    func copyIndexIfDue() async { await maintenance.copyIndexIfDue() }
    func retryWriting() async { await disk.retryWriting() }
}

extension ImageCacheView {
    func hit(_ request: ImageRequest, now: Int) -> CachedImage? { prepare(request).flatMap { hit($0, now: now) } }
}

/// Runs a body with a cache in an empty directory.
func withCache(
    _ change: (inout ImageCacheSettings) -> Void = { _ in }, _ body: (CacheFixture) async throws -> Void
) async throws {
    try await withPath { path in
        let fixture = try await CacheFixture.open(path, change)
        try await body(fixture)
        await fixture.cache.stop()
        #expect(try await fixture.inconsistency() == nil)
    }
}

/// Runs a body with a cache in an empty directory that may download from loopback addresses.
func withRealCache(
    clock: ImageClock = .system, _ body: (ImageCache, String) async throws -> Void
) async throws {
    try await withPath { path in
        let fetcher = ImageFetcher(configuration: .init(version: "test"), resolver: SystemResolver(.singleton))
        let loopback = try #require(AddressRange("127.0.0.0/8"))
        var settings = ImageCacheSettings(directory: path, space: SpaceLimits(freeBytes: 0))
        settings.allowedNetworks = [loopback]
        let cache = try await ImageCache.start(
            settings, fetcher: fetcher, blocking: CacheFixture.blocking, clock: clock,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await cache.opened()
        try await body(cache, path)
        await cache.stop()
        await fetcher.shutdown()
    }
}

/// Runs a body with the path of a directory that does not exist yet and is removed afterwards.
func withPath(_ body: (String) async throws -> Void) async throws {
    try await withTemporaryDirectory { try await body($0 + "/cache") }
}

func url(_ number: Int) -> String { "https://img.example/\(number).png" }

extension BlobDigest {
    /// The digest of bytes.
    init?(sha256 bytes: [UInt8]) { self.init(SHA256.hash(bytes)) }
}
