import LarderHTTPSemantics
import TestSupport
import Testing

@testable import LarderImages

@Suite("Images stored by clients")
struct ImagePutTests {
    @Test("a put image is a hit until its lifetime ends, even after a restart")
    func put() async throws {
        try await withPath { path in
            do {
                let fixture = try await CacheFixture.open(path)
                var request = fixture.request(url(1))
                request.cacheKey = "chart"
                let stored = try await fixture.cache.put(request, .bytes(picture(1)), lifetime: 60)
                #expect(stored.bytes == 1000 && stored.details.hasAlpha == true)
                let image = try await fixture.cache.image(request)
                #expect(image.digest == stored.digest && image.source == .hit && image.freshness == .fresh)
                fixture.cache.view.release(image.digest)
                #expect(await fixture.code(url(1), .cacheOnly) == .notCached)
                await fixture.cache.stop()
            }
            let fixture = try await CacheFixture.open(path)
            var request = fixture.request(url(1))
            request.cacheKey = "chart"
            let image = try await fixture.cache.image(request)
            #expect(image.source == .hit)
            fixture.cache.view.release(image.digest)
            fixture.clock.advance(61)
            #expect(fixture.cache.view.hit(request, now: fixture.clock.now) == nil)
            #expect(fixture.origin.requests.isEmpty)
            await fixture.cache.stop()
        }
    }

    @Test("a put replaces a cached image, whose file is removed with its last reference")
    func replacing() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            let first = try await fixture.get(url(1))
            let second = try await fixture.cache.put(fixture.request(url(1)), .bytes(picture(2)), lifetime: 60)
            #expect(try await fixture.get(url(1)).digest == second.digest)
            try await fixture.settle()
            #expect(!fixture.cache.accounts.retain(first.digest))
            #expect(fixture.blobs.count == 1)
        }
    }

    @Test("a put rejects the same content as a download and leaves nothing behind")
    func refusals() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 10_000, freeBytes: 0, bytesPerImage: 5000) }) { fixture in
            func code(_ bytes: [UInt8], url: String = url(1), digest: BlobDigest? = nil) async -> ImageError.Code? {
                var request = fixture.request(url)
                request.expectedDigest = digest
                do throws(ImageError) {
                    _ = try await fixture.cache.put(request, .bytes(bytes), lifetime: 60)
                    return nil
                } catch {
                    return error.code
                }
            }
            #expect(await code(Array("<html>".utf8)) == .notAnImage)
            #expect(await code([]) == .notAnImage)
            #expect(await code(Array(picture(1).dropLast())) == .truncatedImage)
            #expect(await code(EncodedImages.opaqueJPEGXL) == .excludedType)
            #expect(await code(picture(1, size: 5001)) == .tooLarge)
            #expect(await code(picture(1), digest: BlobDigest(sha256: [])) == .digestMismatch)
            #expect(await code(picture(1), url: "file:///1.png") == .invalidURL)
            #expect(fixture.cache.view.statistics.entries == 0 && fixture.blobs.isEmpty)
            #expect(fixture.cache.view.statistics.reservedBytes == 0)
            // Images are evicted as for a download.
            for number in 0..<30 { #expect(await code(picture(number), url: url(number)) == nil) }
            #expect(fixture.cache.view.statistics.bytes <= 10_000)
            #expect(fixture.cache.view.statistics.entries == 10)
        }
    }
}
