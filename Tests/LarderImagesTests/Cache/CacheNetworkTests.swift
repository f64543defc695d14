import Foundation
import LarderHTTPSemantics
import LarderUpstream
import NIOPosix
import TestSupport
import Testing

@testable import LarderImages

@Suite("Image cache with a real network", .timeLimit(.minutes(15)))
struct CacheNetworkTests {
    private func waitForWaiters(_ count: Int, _ cache: ImageCache, _ request: ImageRequest) async {
        while (try? await cache.explain(request))?.download?.waiters != count { await Task.yield() }
    }

    @Test("concurrent requests share one download, and a later request revalidates it")
    func oneRequest() async throws {
        let image = picture(1, size: 60_000)
        let script: RawOrigin.Script = { number, _ in
            number == 0
                ? [.ok(image, "ETag: \"a\"", "Cache-Control: max-age=0")]
                : [.status("304 Not Modified", "ETag: \"a\"", "Cache-Control: max-age=1000")]
        }
        try await RawOrigin.serve(script) { server in
            try await withRealCache { cache, _ in
                let request = ImageRequest(url: server.url)
                let tasks = (0..<100).map { _ in Task { try await cache.image(request) } }
                for task in tasks {
                    let found = try await task.value
                    #expect(try await cache.openBlob(found.digest).read(at: 0, count: 100_000) == image)
                    cache.view.release(found.digest)
                }
                // The first response is stale immediately, so requests that arrive after it may have revalidated the
                // image.
                #expect(server.requests.count <= 2)
                let again = try await cache.image(request)
                #expect(server.requests.last?.contains("If-None-Match: \"a\"") == true)
                #expect(cache.view.hit(request, now: Int(Date().timeIntervalSince1970))?.freshness == .fresh)
                cache.view.release(again.digest)
            }
        }
    }

    @Test("cancelling the last request closes the connection to the origin and leaves no file")
    func connectionCloses() async throws {
        let start = Array(picture(1, size: 60_000).prefix(30_000))
        let script: RawOrigin.Script = { _, _ in
            [.head("HTTP/1.1 200 OK", "Content-Length: 60000"), .send(start)]
        }
        try await RawOrigin.serve(script) { server in
            try await withRealCache { cache, path in
                let request = ImageRequest(url: server.url)
                let tasks = (0..<10).map { _ in Task { try await cache.image(request) } }
                await waitForWaiters(10, cache, request)
                while cache.view.statistics.downloadedBytes < 30_000 { await Task.yield() }
                for task in tasks { task.cancel() }
                for task in tasks { await #expect(throws: ImageError.self) { try await task.value } }
                for await event in server.events where event == .disconnected { break }
                while cache.view.statistics.activeDownloads > 0 { await Task.yield() }
                #expect(filesBelow(path + "/tmp").isEmpty)
                #expect(filesBelow(path + "/blobs").isEmpty)
                #expect(cache.view.statistics.reservedBytes == 0)
                await cache.disk.settle()
            }
        }
    }

    @Test("responses that declare 64 MB but send only 14 bytes evict no image")
    func declaredOnly() async throws {
        let start = Array(picture(1).prefix(14))
        let script: RawOrigin.Script = { _, request in
            request.hasPrefix("GET /slow")
                ? [.head("HTTP/1.1 200 OK", "Content-Length: 64000000"), .send(start)]
                : [.ok(picture(request.utf8.count), "Cache-Control: max-age=1000")]
        }
        try await RawOrigin.serve(script) { server in
            try await withRealCache { cache, path in
                var settings = ImageCacheSettings(directory: path)
                settings.space = SpaceLimits(bytes: 64 << 20, freeBytes: 0)
                settings.downloadLimits = DownloadLimits(total: 16, perOrigin: 16)
                settings.allowedNetworks = [try #require(AddressRange("127.0.0.1/32"))]
                await cache.update(settings)
                for number in 1...10 {
                    let url = server.url + String(repeating: "a", count: number)
                    cache.view.release(try await cache.image(ImageRequest(url: url)).digest)
                }
                let bytes = cache.view.statistics.downloadedBytes
                let tasks = (0..<8).map { number in
                    Task { try await cache.image(ImageRequest(url: server.url + "slow\(number)")) }
                }
                while cache.view.statistics.downloadedBytes < bytes + 8 * 14 { await Task.yield() }
                while cache.view.statistics.reservedBytes < 8 * 14 { await Task.yield() }
                #expect(cache.view.statistics.entries == 10)
                #expect(cache.view.statistics.evictions == 0)
                for task in tasks { task.cancel() }
                for task in tasks { await #expect(throws: ImageError.self) { try await task.value } }
            }
        }
    }

    @Test("the cache directives of an error response determine how long the failure is cached")
    func failureLifetimes() async throws {
        let answers: [(answer: RawOrigin.Step, requests: Int)] = [
            (.status("404 Not Found", "Cache-Control: no-store"), 2),
            (.status("404 Not Found", "Cache-Control: max-age=0"), 2),
            (.status("404 Not Found"), 1),
            (.status("202 Accepted", "Retry-After: 0"), 2),
            (.ok(Array("<html></html>".utf8), "Cache-Control: no-store"), 2),
            (.ok(Array("<html></html>".utf8)), 1),
            (.status("403 Forbidden", "Expires: Thu, 01 Jan 1970 00:00:00 GMT"), 2),
            (.status("404 Not Found", "Cache-Control: max-age=1000"), 1),
            (.ok(Array("<html></html>".utf8), "Cache-Control: max-age=60"), 1),
        ]
        for (answer, requests) in answers {
            try await RawOrigin.serve({ _, _ in [answer] }) { server in
                try await withRealCache { cache, _ in
                    for _ in 0..<2 {
                        await #expect(throws: ImageError.self) { try await cache.image(ImageRequest(url: server.url)) }
                    }
                    #expect(server.requests.count == requests, "\(answer)")
                }
            }
        }
    }

    @Test("a page instead of the image blocks the URL for the configured time, whatever its max-age is")
    func refusedBody() async throws {
        let image = picture(1, size: 5000)
        let pages: [RawOrigin.Answer] = [
            [.ok(Array("<html></html>".utf8), "Cache-Control: max-age=86400")],
            [.ok(Array(image.prefix(2500)), "Cache-Control: max-age=86400")],
            [.status("200 OK", "Cache-Control: max-age=86400")],
            [.status("503 Service Unavailable", "Cache-Control: max-age=86400", "Retry-After: 60")],
        ]
        for page in pages {
            let clock = TestClock()
            try await RawOrigin.serve({ number, _ in number == 0 ? page : [.ok(image)] }) { server in
                try await withRealCache(clock: clock.imageClock) { cache, _ in
                    let request = ImageRequest(url: server.url)
                    await #expect(throws: ImageError.self) { try await cache.image(request) }
                    clock.advance(59)
                    await #expect(throws: ImageError.self) { try await cache.image(request) }
                    #expect(server.requests.count == 1)
                    clock.advance(1)
                    cache.view.release(try await cache.image(request).digest)
                }
            }
        }
    }

    @Test("networkFirst returns the cached image if the origin responds with a page")
    func pageInsteadOfImage() async throws {
        let image = picture(1)
        let script: RawOrigin.Script = { number, _ in number == 0 ? [.ok(image)] : [.ok(Array("<html></html>".utf8))] }
        try await RawOrigin.serve(script) { server in
            try await withRealCache { cache, _ in
                let request = ImageRequest(url: server.url, cache: CacheRequest(policy: .networkFirst))
                let first = try await cache.image(request)
                cache.view.release(first.digest)
                for _ in 0..<2 {
                    let again = try await cache.image(request)
                    cache.view.release(again.digest)
                    #expect(again.digest == first.digest && again.freshness == .stale)
                }
                // The second request was not sent, because the failure is remembered.
                #expect(server.requests.count == 2)
            }
        }
    }

    @Test("a body with another digest than the expected one is downloaded once for each expected digest")
    func wrongDigests() async throws {
        let image = picture(1)
        try await RawOrigin.serve({ _, _ in [.ok(image, "Cache-Control: max-age=1000")] }) { server in
            try await withRealCache { cache, _ in
                for expected in [[2], [3]] as [[UInt8]] {
                    let request = ImageRequest(url: server.url, expectedDigest: BlobDigest(sha256: expected))
                    for _ in 0..<3 {
                        let error = await #expect(throws: ImageError.self) { try await cache.image(request) }
                        #expect(error?.code == .digestMismatch)
                    }
                }
                #expect(server.requests.count == 2)
                for expected in [BlobDigest(sha256: image), nil] {
                    let found = try await cache.image(ImageRequest(url: server.url, expectedDigest: expected))
                    cache.view.release(found.digest)
                }
                #expect(server.requests.count == 3)
            }
        }
    }

    @Test("an address is refused until the settings allow it")
    func addresses() async throws {
        let image = picture(1)
        try await RawOrigin.serve({ _, _ in [.ok(image)] }) { server in
            try await withRealCache { cache, path in
                var settings = ImageCacheSettings(directory: path, space: SpaceLimits(freeBytes: 0))
                await cache.update(settings)
                let request = ImageRequest(url: server.url)
                let error = await #expect(throws: ImageError.self) { try await cache.image(request) }
                #expect(error?.code == .forbiddenAddress)
                #expect(server.requests.isEmpty)
                settings.allowedNetworks = [try #require(AddressRange("127.0.0.1/32"))]
                await cache.update(settings)
                cache.view.release(try await cache.image(request).digest)
            }
        }
    }
}
