import Synchronization
import Testing

@testable import LarderImages

@Suite("Prefetches")
struct PrefetchTests {
    @Test("a prefetch counts cached images, lists failures, and reports its final progress")
    func summary() async throws {
        try await withCache { fixture in
            fixture.origin.answer { order in
                order.url == url(3)
                    ? .failure(.status(404)) : .image(picture(order.url.utf8.count), [("Cache-Control", "max-age=60")])
            }
            try await fixture.get(url(1))
            let seen = Mutex<[PrefetchSummary]>([])
            var requests = (1...5).map { fixture.request(url($0)) }
            requests.append(fixture.request("nonsense"))
            let summary = await fixture.cache.prefetch(requests, concurrency: 2) { progress in
                seen.withLock { $0.append(progress) }
            }
            #expect(summary.total == 6 && summary.fetched == 3 && summary.cached == 1 && summary.bytes == 3000)
            #expect(summary.failures.map(\.index) == [2, 5])
            #expect(summary.failures.map(\.error.code) == [.upstreamFailed, .invalidURL])
            let progress = seen.withLock { $0 }
            #expect(progress.count == 6)
            let last = try #require(progress.last)
            #expect(
                last.fetched == 3 && last.cached == 1 && last.failures.count == 2 && last.bytes == 3000
                    && last.total == 6
            )
            #expect(fixture.cache.view.statistics.leasedBytes == 0)
            try await fixture.settle()
        }
    }

    @Test("a cancelled prefetch stops and keeps complete images")
    func cancellation() async throws {
        try await withCache { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            try await fixture.get(url(1))
            fixture.origin.pause()
            let requests = (1...1000).map { fixture.request(url($0)) }
            let task = Task { await fixture.cache.prefetch(requests, concurrency: 8) { _ in } }
            await fixture.until { fixture.origin.requests.count > 2 }
            task.cancel()
            let summary = await task.value
            #expect(summary.cached == 1 && summary.fetched == 0 && summary.failures.isEmpty && summary.total == 1000)
            await fixture.until {
                fixture.cache.view.statistics.activeDownloads + fixture.cache.view.statistics.queued == 0
            }
            #expect(fixture.origin.requests.count < 20)
            #expect(fixture.blobs.count == 1)
        }
    }

    @Test("a prefetch leaves download slots for other requests")
    func slots() async throws {
        try await withCache({ $0.downloadLimits = DownloadLimits(total: 6, perOrigin: 6) }) { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.pause()
            let requests = (1...50).map { fixture.request(url($0)) }
            let task = Task { await fixture.cache.prefetch(requests, concurrency: 50) { _ in } }
            await fixture.until { fixture.cache.view.statistics.queued == 48 }
            #expect(fixture.cache.view.statistics.activeDownloads == 2)
            let urgent = Task { await fixture.code(url(99)) }
            await fixture.until { fixture.origin.requests.last?.url == url(99) }
            fixture.origin.resume()
            #expect(await urgent.value == nil)
            let summary = await task.value
            #expect(summary.fetched == 50)
        }
    }
}
