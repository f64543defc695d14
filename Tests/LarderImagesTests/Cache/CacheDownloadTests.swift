import Foundation
import LarderHTTPSemantics
import LarderUpstream
import Testing

@testable import LarderImages

@Suite("Shared downloads of the image cache")
struct CacheDownloadTests {
    @Test("200 ask, half of them cancel: one request, and the others have the image")
    func halfCancel() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.hold()
            let tasks = (0..<200).map { _ in
                Task { try await fixture.cache.image(fixture.request(url(1))) }
            }
            await fixture.waiters(200, for: url(1))
            for (number, task) in tasks.enumerated() where number % 2 == 0 { task.cancel() }
            await fixture.waiters(100, for: url(1))
            fixture.origin.letGo()
            var sources: [CachedImage.Source: Int] = [:]
            for (number, task) in tasks.enumerated() {
                if number % 2 == 0 {
                    await #expect(throws: ImageCache.cancelled) { try await task.value }
                } else {
                    let image = try await task.value
                    #expect(image.bytes == 1000)
                    sources[image.source, default: 0] += 1
                    fixture.cache.release(image.digest)
                }
            }
            #expect(fixture.origin.asked.count == 1)
            #expect(fixture.origin.cancelled == 0)
            // Who began it may be among those that went.
            #expect(sources[.joined, default: 0] >= 99)
            #expect(fixture.cache.statistics.leasedBytes == 0)
            #expect(fixture.cache.hit(fixture.request(url(1)), now: fixture.clock.now)?.freshness == .fresh)
        }
    }

    @Test("the last one goes: the download is cancelled, nothing stays on disk, and who asks then begins anew")
    func allCancel() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.hold()
            let tasks = (0..<20).map { _ in Task { try await fixture.get(url(1)) } }
            await fixture.waiters(20, for: url(1))
            await fixture.until { fixture.origin.asked.count == 1 }
            for task in tasks { task.cancel() }
            for task in tasks { await #expect(throws: ImageCache.cancelled) { try await task.value } }
            await fixture.until { fixture.origin.cancelled == 1 }
            fixture.origin.letGo()
            let again = try await fixture.get(url(1))
            #expect(again.source == .miss)
            #expect(fixture.origin.asked.count == 2)
            let isRemoved = try await fixture.cache.remove(fixture.request(url(1)))
            #expect(isRemoved)
            #expect(filesBelow(fixture.path + "/blobs").isEmpty)
            #expect(filesBelow(fixture.path + "/tmp").isEmpty)
            #expect(fixture.cache.statistics.reservedBytes == 0)
        }
    }

    @Test("a download that is complete when the last one goes leaves nothing either")
    func cancelledAtTheEnd() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            // The task is cancelled by the origin itself, when the body is on its way already.
            let task = Task { try await fixture.get(url(1)) }
            fixture.origin.answer { _ in
                task.cancel()
                return .image(picture(1), [("Cache-Control", "max-age=60")])
            }
            _ = try? await task.value
            await fixture.until { fixture.cache.statistics.flights == 0 }
            try await fixture.settle()
            let isHeld = fixture.cache.peek(fixture.request(url(1)), now: fixture.clock.now) != nil
            #expect(fixture.blobs.count == (isHeld ? 1 : 0))
            #expect(fixture.cache.statistics.leasedBytes == 0)
            #expect(filesBelow(fixture.path + "/tmp").isEmpty)
        }
    }

    @Test("a failure reaches everybody that waited, and is remembered for a while")
    func failure() async throws {
        try await withCache { fixture in
            fixture.origin.fail(.status(404))
            fixture.origin.hold()
            let tasks = (0..<10).map { _ in Task { await fixture.code(url(1)) } }
            await fixture.waiters(10, for: url(1))
            fixture.origin.letGo()
            for task in tasks { #expect(await task.value == .upstreamFailed) }
            #expect(await fixture.code(url(1)) == .upstreamFailed)
            #expect(fixture.origin.asked.count == 1)
            #expect(await fixture.code(url(1), .networkOnly) == .upstreamFailed)
            #expect(fixture.origin.asked.count == 2)
            fixture.clock.advance(301)
            fixture.origin.answer(picture(1))
            #expect(await fixture.code(url(1)) == nil)
        }
    }

    @Test("a signature that is refused fails nobody who has another one")
    func signatures() async throws {
        let origin = try ImageOrigin("https://img.example", ignoredQuery: ["sig", "X-Amz-*"])
        try await withCache({ $0.origins = [origin] }) { fixture in
            fixture.origin.answer { order in
                order.url.hasSuffix("sig=old")
                    ? .failure(.status(403)) : .image(picture(1), [("Cache-Control", "max-age=60")])
            }
            fixture.origin.hold()
            let old = Task { await fixture.code(url(1) + "?sig=old") }
            await fixture.waiters(1, for: url(1))
            let new = Task { await fixture.code(url(1) + "?X-Amz-Date=1&sig=new") }
            await fixture.waiters(2, for: url(1))
            fixture.origin.letGo()
            #expect(await old.value == .upstreamFailed)
            #expect(await new.value == nil)
            #expect(fixture.origin.asked.map(\.url.count).count == 2)
            // Now anybody has it, whatever his signature.
            #expect(await fixture.code(url(1) + "?sig=old") == nil)
            #expect(fixture.origin.asked.count == 2)
        }
    }

    @Test("an expected digest fails those that expected it, and no others")
    func digests() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            fixture.origin.hold()
            let other = BlobDigest(hex: String(repeating: "a", count: 64))
            let wrong = ImageRequest(url: url(1), expectedDigest: other)
            let plain = Task { await fixture.code(url(1)) }
            await fixture.waiters(1, for: url(1))
            let joined = Task { () -> ImageError.Code? in
                do { fixture.cache.release(try await fixture.cache.image(wrong).digest) } catch {
                    return (error as? ImageError)?.code
                }
                return nil
            }
            await fixture.waiters(2, for: url(1))
            fixture.origin.letGo()
            #expect(await plain.value == nil)
            #expect(await joined.value == .digestDisagrees)
            #expect(fixture.origin.asked.count == 1)
            // What is held is not what is wanted: it is not served, and not what a condition would be about.
            #expect(fixture.cache.hit(wrong, now: fixture.clock.now) == nil)
            #expect(fixture.cache.peek(wrong, now: fixture.clock.now) == nil)
        }
    }

    @Test("the most urgent of those that wait decides when a flight starts")
    func priorities() async throws {
        try await withCache({ $0.flights = DownloadLimits(total: 1, perOrigin: 1) }) { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.hold()
            func ask(_ number: Int, _ priority: ImagePriority) -> Task<Void, any Error> {
                Task {
                    let request = ImageRequest(url: url(number), priority: priority)
                    fixture.cache.release(try await fixture.cache.image(request).digest)
                }
            }
            // It does not give its place to another one of priority high.
            let first = ask(1, .high)
            await fixture.waiters(1, for: url(1))
            let low = ask(2, .low)
            await fixture.waiters(1, for: url(2))
            let normal = ask(3, .normal)
            await fixture.waiters(1, for: url(3))
            #expect(fixture.cache.statistics.queued == 2)
            let urgent = ask(2, .high)
            await fixture.waiters(2, for: url(2))
            fixture.origin.letGo()
            for task in [first, low, normal, urgent] { try await task.value }
            #expect(fixture.origin.asked.map(\.url) == [url(1), url(2), url(3)])
        }
    }

    private func get(_ url: String, _ user: UInt32, _ fixture: CacheFixture) async throws {
        let image = try await fixture.cache.image(ImageRequest(url: url, user: user))
        fixture.cache.release(image.digest)
    }

    @Test("64 downloads of a user that do not end take half of the places, and another user is served")
    func userShare() async throws {
        try await withCache { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.hold()
            let slow = (0..<64).map { number in
                Task { try await get("https://slow\(number % 16).example/\(number).png", 1, fixture) }
            }
            await fixture.until { fixture.cache.statistics.flights + fixture.cache.statistics.queued == 64 }
            #expect(fixture.cache.statistics.flights == 8)
            let other = Task { try await get(url(1), 2, fixture) }
            await fixture.until { fixture.origin.asked.last?.url == url(1) }
            #expect(fixture.cache.statistics.flights == 9)
            // An image that one user has to wait for does not wait for another one's share.
            let joined = Task { try await get("https://slow15.example/63.png", 2, fixture) }
            await fixture.until { fixture.origin.asked.last?.url == "https://slow15.example/63.png" }
            fixture.origin.letGo()
            for task in slow + [other, joined] { try await task.value }
        }
    }

    @Test("a waiting download of priority high takes the place of the slowest one, which starts again later")
    func preemption() async throws {
        try await withCache({ $0.flights = DownloadLimits(total: 2, perOrigin: 2) }) { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=60")]) }
            fixture.origin.hold()
            let slow = Task { try await fixture.get(url(1)) }
            await fixture.waiters(1, for: url(1))
            fixture.clock.advance(100)
            let young = Task { try await fixture.get(url(2)) }
            await fixture.waiters(1, for: url(2))
            let urgent = Task {
                let request = ImageRequest(url: url(3), priority: .high)
                fixture.cache.release(try await fixture.cache.image(request).digest)
            }
            await fixture.until { fixture.origin.asked.last?.url == url(3) }
            #expect(fixture.origin.cancelled == 1)
            #expect(fixture.cache.statistics.queued == 1)
            fixture.origin.letGo()
            try await urgent.value
            #expect(try await slow.value.source == .miss)
            #expect(try await young.value.source == .miss)
            #expect(fixture.origin.asked.map(\.url) == [url(1), url(2), url(3), url(1)])
        }
    }

    @Test("a stop fails those that wait, and leaves the cache in order")
    func stop() async throws {
        try await withPath { path in
            let fixture = try await CacheFixture.open(path)
            fixture.origin.answer(picture(1))
            try await fixture.get(url(1))
            fixture.origin.hold()
            let task = Task { await fixture.code(url(2)) }
            await fixture.waiters(1, for: url(2))
            await fixture.cache.stop()
            #expect(await task.value == .shuttingDown)
            #expect(await fixture.code(url(3)) == .shuttingDown)
            #expect(FileManager.default.fileExists(atPath: path + "/clean"))
            #expect(filesBelow(path + "/tmp").isEmpty)
        }
    }
}
