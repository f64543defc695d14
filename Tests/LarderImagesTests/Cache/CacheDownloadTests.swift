import Foundation
import LarderHTTPSemantics
import LarderUpstream
import Testing

@testable import LarderImages

@Suite("Shared downloads")
struct CacheDownloadTests {
    @Test("if half of 200 concurrent requests are cancelled, the others share one download")
    func halfCancel() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.pause()
            let tasks = (0..<200).map { _ in
                Task { try await fixture.cache.image(fixture.request(url(1))) }
            }
            await fixture.waitForWaiters(200, for: url(1))
            for (number, task) in tasks.enumerated() where number % 2 == 0 { task.cancel() }
            await fixture.waitForWaiters(100, for: url(1))
            fixture.origin.resume()
            var sources: [CachedImage.Source: Int] = [:]
            for (number, task) in tasks.enumerated() {
                if number % 2 == 0 {
                    await #expect(throws: ImageError.cancelled) { try await task.value }
                } else {
                    let image = try await task.value
                    #expect(image.bytes == 1000)
                    sources[image.source, default: 0] += 1
                    fixture.cache.view.release(image.digest)
                }
            }
            #expect(fixture.origin.requests.count == 1)
            #expect(fixture.origin.cancelled == 0)
            // One of the remaining 100 requests may have started the download. The others have joined it.
            #expect(sources[.joined, default: 0] >= 99)
            #expect(fixture.cache.view.statistics.leasedBytes == 0)
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: fixture.clock.now)?.freshness == .fresh)
        }
    }

    @Test("cancelling the last request stops the download and leaves no file; a later request starts a new one")
    func allCancel() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.pause()
            let tasks = (0..<20).map { _ in Task { try await fixture.get(url(1)) } }
            await fixture.waitForWaiters(20, for: url(1))
            await fixture.until { fixture.origin.requests.count == 1 }
            for task in tasks { task.cancel() }
            for task in tasks { await #expect(throws: ImageError.cancelled) { try await task.value } }
            await fixture.until { fixture.origin.cancelled == 1 }
            fixture.origin.resume()
            let again = try await fixture.get(url(1))
            #expect(again.source == .miss)
            #expect(fixture.origin.requests.count == 2)
            let isRemoved = try await fixture.cache.remove(fixture.request(url(1)))
            #expect(isRemoved)
            #expect(filesBelow(fixture.path + "/blobs").isEmpty)
            #expect(filesBelow(fixture.path + "/tmp").isEmpty)
            #expect(fixture.cache.view.statistics.reservedBytes == 0)
        }
    }

    @Test("cancelling a download fails all its requests and stops it; a later request starts a new one")
    func cancelDownload() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.pause()
            let tasks = (0..<3).map { _ in Task { try await fixture.get(url(1)) } }
            await fixture.waitForWaiters(3, for: url(1))
            await fixture.until { fixture.origin.requests.count == 1 }
            let download = try #require(await fixture.cache.downloadsInProgress().first)
            #expect(download.url == url(1) && download.waiters == 3 && !download.isQueued)
            #expect(await fixture.cache.cancelDownload(download.id) == 3)
            for task in tasks {
                let error = await #expect(throws: ImageError.self) { try await task.value }
                #expect(error?.code == .cancelled)
            }
            await fixture.until { fixture.origin.cancelled == 1 }
            #expect(await fixture.cache.cancelDownload(download.id) == nil)
            #expect(await fixture.cache.downloadsInProgress().isEmpty)
            fixture.origin.resume()
            #expect(try await fixture.get(url(1)).source == .miss)
        }
    }

    @Test("cancelling a request while its image arrives leaves a complete image or nothing")
    func cancelledDuringBody() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            // The origin cancels the task directly before it sends the body.
            let task = Task { try await fixture.get(url(1)) }
            fixture.origin.answer { _ in
                task.cancel()
                return .image(picture(1), [("Cache-Control", "max-age=60")])
            }
            _ = try? await task.value
            await fixture.until { fixture.cache.view.statistics.activeDownloads == 0 }
            try await fixture.settle()
            let isCached = fixture.cache.view.peek(fixture.request(url(1)), now: fixture.clock.now) != nil
            #expect(fixture.blobs.count == (isCached ? 1 : 0))
            #expect(fixture.cache.view.statistics.leasedBytes == 0)
            #expect(filesBelow(fixture.path + "/tmp").isEmpty)
        }
    }

    @Test("a failure reaches all waiting requests and is cached for 300 s")
    func failure() async throws {
        try await withCache { fixture in
            fixture.origin.fail(.status(404))
            fixture.origin.pause()
            let tasks = (0..<10).map { _ in Task { await fixture.code(url(1)) } }
            await fixture.waitForWaiters(10, for: url(1))
            fixture.origin.resume()
            for task in tasks { #expect(await task.value == .upstreamFailed) }
            #expect(await fixture.code(url(1)) == .upstreamFailed)
            #expect(fixture.origin.requests.count == 1)
            #expect(await fixture.code(url(1), .networkOnly) == .upstreamFailed)
            #expect(fixture.origin.requests.count == 2)
            fixture.clock.advance(301)
            fixture.origin.answer(picture(1))
            #expect(await fixture.code(url(1)) == nil)
        }
    }

    @Test("if the origin rejects a URL's signature, requests for the same image with another signature do not fail")
    func signatures() async throws {
        let origin = try ImageOrigin("https://img.example", ignoredQuery: ["sig", "X-Amz-*"])
        try await withCache({ $0.origins = [origin] }) { fixture in
            fixture.origin.answer { order in
                order.url.hasSuffix("sig=old")
                    ? .failure(.status(403)) : .image(picture(1), [("Cache-Control", "max-age=60")])
            }
            fixture.origin.pause()
            let old = Task { await fixture.code(url(1) + "?sig=old") }
            await fixture.waitForWaiters(1, for: url(1))
            let new = Task { await fixture.code(url(1) + "?X-Amz-Date=1&sig=new") }
            await fixture.waitForWaiters(2, for: url(1))
            fixture.origin.resume()
            #expect(await old.value == .upstreamFailed)
            #expect(await new.value == nil)
            #expect(fixture.origin.requests.map(\.url.count).count == 2)
            // The image is now cached for URLs with any signature.
            #expect(await fixture.code(url(1) + "?sig=old") == nil)
            #expect(fixture.origin.requests.count == 2)
        }
    }

    @Test("an image fails only those of its waiting requests that expect another digest")
    func digests() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.pause()
            let other = BlobDigest(hex: String(repeating: "a", count: 64))
            let wrong = ImageRequest(url: url(1), expectedDigest: other)
            let plain = Task { await fixture.code(url(1)) }
            await fixture.waitForWaiters(1, for: url(1))
            let joined = Task { () -> ImageError.Code? in
                do { fixture.cache.view.release(try await fixture.cache.image(wrong).digest) } catch {
                    return (error as? ImageError)?.code
                }
                return nil
            }
            await fixture.waitForWaiters(2, for: url(1))
            fixture.origin.resume()
            #expect(await plain.value == nil)
            #expect(await joined.value == .digestMismatch)
            #expect(fixture.origin.requests.count == 1)
            // The cached image has another digest, so it is neither served nor revalidated.
            #expect(fixture.cache.view.hit(wrong, now: fixture.clock.now) == nil)
            #expect(fixture.cache.view.peek(wrong, now: fixture.clock.now) == nil)
        }
    }

    @Test("the highest priority of the waiting requests decides when a download starts")
    func priorities() async throws {
        try await withCache({ $0.downloadLimits = DownloadLimits(total: 1, perOrigin: 1) }) { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.pause()
            func start(_ number: Int, _ priority: ImagePriority) -> Task<Void, any Error> {
                Task {
                    let request = ImageRequest(url: url(number), priority: priority)
                    fixture.cache.view.release(try await fixture.cache.image(request).digest)
                }
            }
            // The first download has priority high, so that it is not preempted and keeps the only slot.
            let first = start(1, .high)
            await fixture.waitForWaiters(1, for: url(1))
            let low = start(2, .low)
            await fixture.waitForWaiters(1, for: url(2))
            let normal = start(3, .normal)
            await fixture.waitForWaiters(1, for: url(3))
            #expect(fixture.cache.view.statistics.queued == 2)
            let urgent = start(2, .high)
            await fixture.waitForWaiters(2, for: url(2))
            fixture.origin.resume()
            for task in [first, low, normal, urgent] { try await task.value }
            #expect(fixture.origin.requests.map(\.url) == [url(1), url(2), url(3)])
        }
    }

    private func get(_ url: String, _ user: UInt32, _ fixture: CacheFixture) async throws {
        let image = try await fixture.cache.image(ImageRequest(url: url, user: user))
        fixture.cache.view.release(image.digest)
    }

    @Test("64 stalled downloads of a user take only half of the slots, and another user is served")
    func userShare() async throws {
        try await withCache { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.pause()
            let slow = (0..<64).map { number in
                Task { try await get("https://slow\(number % 16).example/\(number).png", 1, fixture) }
            }
            await fixture.until {
                fixture.cache.view.statistics.activeDownloads + fixture.cache.view.statistics.queued == 64
            }
            #expect(fixture.cache.view.statistics.activeDownloads == 8)
            let other = Task { try await get(url(1), 2, fixture) }
            await fixture.until { fixture.origin.requests.last?.url == url(1) }
            #expect(fixture.cache.view.statistics.activeDownloads == 9)
            // A queued download that another user requests starts within that user's share.
            let joined = Task { try await get("https://slow15.example/63.png", 2, fixture) }
            await fixture.until { fixture.origin.requests.last?.url == "https://slow15.example/63.png" }
            fixture.origin.resume()
            for task in slow + [other, joined] { try await task.value }
        }
    }

    @Test("a queued download of priority high preempts the slowest one, which restarts later")
    func preemption() async throws {
        try await withCache({ $0.downloadLimits = DownloadLimits(total: 2, perOrigin: 2) }) { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.pause()
            let slow = Task { try await fixture.get(url(1)) }
            await fixture.waitForWaiters(1, for: url(1))
            fixture.clock.advance(100)
            let young = Task { try await fixture.get(url(2)) }
            await fixture.waitForWaiters(1, for: url(2))
            let urgent = Task {
                let request = ImageRequest(url: url(3), priority: .high)
                fixture.cache.view.release(try await fixture.cache.image(request).digest)
            }
            await fixture.until { fixture.origin.requests.last?.url == url(3) }
            #expect(fixture.origin.cancelled == 1)
            #expect(fixture.cache.view.statistics.queued == 1)
            fixture.origin.resume()
            try await urgent.value
            #expect(try await slow.value.source == .miss)
            #expect(try await young.value.source == .miss)
            #expect(fixture.origin.requests.map(\.url) == [url(1), url(2), url(3), url(1)])
        }
    }

    @Test("stopping the cache fails waiting requests and marks the directory as clean")
    func stop() async throws {
        try await withPath { path in
            let fixture = try await CacheFixture.open(path)
            fixture.origin.answer(picture(1))
            try await fixture.get(url(1))
            fixture.origin.pause()
            let task = Task { await fixture.code(url(2)) }
            await fixture.waitForWaiters(1, for: url(2))
            await fixture.cache.stop()
            #expect(await task.value == .shuttingDown)
            #expect(await fixture.code(url(3)) == .shuttingDown)
            #expect(FileManager.default.fileExists(atPath: path + "/clean"))
            #expect(filesBelow(path + "/tmp").isEmpty)
        }
    }
}
