import LarderUpstream
import Testing

@testable import LarderImages

@Suite("Negative cache")
struct NegativeCacheTests {
    private let key = ImageKey("x")

    /// The number of seconds for which a failure is cached.
    private func seconds(_ error: ImageError, isReachable: Bool = true) -> Int {
        var cache = NegativeCache()
        cache.remember(error, image: key, origin: "o", isReachable: isReachable, now: 1000)
        return (cache.failure(of: key, origin: "o", url: "u", now: 1000)?.until ?? 1000) - 1000
    }

    @Test("without a lifetime in the response, the kind of the failure determines how long it is cached")
    func durations() {
        for (status, expected) in [(404, 300), (410, 300), (403, 60), (418, 60), (429, 60), (500, 5), (503, 5)] {
            #expect(seconds(.status(status)) == expected, "\(status)")
        }
        #expect(seconds(.status(503, retryAfter: .seconds(40))) == 40)
        #expect(seconds(.status(429, retryAfter: .seconds(86_400))) == 600)
        #expect(seconds(.status(500, retryAfter: .seconds(40))) == 40)
        #expect(seconds(.status(202, retryAfter: .seconds(1))) == 1)
        #expect(seconds(.status(404, retryAfter: .zero)) == 0)
        #expect(seconds(.unreachable, isReachable: false) == 2)
        #expect(seconds(.unreachable) == 5)
        #expect(seconds(.silent, isReachable: false) == 5)
        for code: ImageError.Code in [.notAnImage, .tooManyPixels, .tooLarge, .truncatedImage, .lengthMismatch] {
            #expect(seconds(ImageError(code, "")) == 60, "\(code)")
        }
        for code: ImageError.Code in [.cancelled, .cacheFull, .storageFailed, .shuttingDown] {
            #expect(seconds(ImageError(code, "")) == 0, "\(code)")
        }
    }

    @Test(
        "only Retry-After and the freshness of a 404 or 410 determine how long a failure is cached, instead of the kind"
    )
    func explicitLifetimes() {
        #expect(seconds(.status(404).with(lifetime: 0)) == 0)
        #expect(seconds(.status(404).with(lifetime: 1)) == 1)
        #expect(seconds(.status(410).with(lifetime: 120)) == 120)
        #expect(seconds(.status(404).with(lifetime: 1 << 31)) == 86_400)
        #expect(seconds(.status(503).with(lifetime: 120)) == 5)
        #expect(seconds(.status(403).with(lifetime: 1)) == 60)
        #expect(seconds(.status(403).with(lifetime: 0)) == 0)
        #expect(seconds(.status(503, retryAfter: .seconds(40)).with(lifetime: 0)) == 40)
        #expect(seconds(ImageError(.notAnImage, "").with(lifetime: 0)) == 0)
        for code: ImageError.Code in [.notAnImage, .truncatedImage, .lengthMismatch, .digestMismatch] {
            #expect(seconds(ImageError(code, "").with(lifetime: 86_400)) == 60, "\(code)")
        }
        #expect(seconds(ImageError(UpstreamError(.empty, "", status: 200)).with(lifetime: 86_400)) == 60)
        // The lifetime does not apply, because an interrupted transfer is not a response.
        #expect(seconds(.silent.with(lifetime: 3600)) == 5)
    }

    @Test("a wrong expected digest is cached for the URL and the digest")
    func digests() throws {
        let digest = try #require(BlobDigest(sha256: [1]))
        var cache = NegativeCache()
        cache.remember(
            ImageError(.digestMismatch, ""), image: key, expectedDigest: digest, origin: "o", isReachable: true,
            now: 1000)
        func until(_ image: ImageKey, _ digest: BlobDigest?) -> Int? {
            cache.failure(of: image, expectedDigest: digest, origin: "o", url: "u", now: 1000)?.until
        }
        #expect(until(key, digest) == 1060)
        #expect(until(key, BlobDigest(sha256: [2])) == nil)
        #expect(until(key, nil) == nil)
        #expect(until(ImageKey("y"), digest) == nil)
        cache.succeeded(key)
        #expect(until(key, digest) == 1060)
        // Other failures concern requests with any digest.
        cache.remember(
            ImageError(.notAnImage, ""), image: ImageKey("y"), expectedDigest: digest, origin: "o", isReachable: true,
            now: 1000)
        #expect(until(ImageKey("y"), nil) == 1060)
        #expect(until(ImageKey("y"), digest) == 1060)
    }

    @Test("the settings determine how long a failure is cached if the response does not")
    func settings() {
        var cache = NegativeCache(lifetimes: FailureLifetimes(notFound: 10, rejected: 20, serverError: 30, network: 0))
        func until(_ error: ImageError) -> Int? {
            cache.remember(error, image: key, origin: "o", isReachable: true, now: 1000)
            defer { cache.forgetAll() }
            return cache.failure(of: key, origin: "o", url: "u", now: 1000)?.until
        }
        #expect(until(.status(410)) == 1010)
        #expect(until(.status(403)) == 1020)
        #expect(until(ImageError(.notAnImage, "")) == 1020)
        #expect(until(.status(500)) == 1030)
        #expect(until(.silent) == nil)
    }

    @Test("the time for which an outage is cached doubles from 2 to 30 s and starts over after a response")
    func outages() {
        var cache = NegativeCache()
        var now = 1000
        for expected in [2, 4, 8, 16, 30, 30] {
            cache.remember(.unreachable, image: key, origin: "o", isReachable: false, now: now)
            // Other failures in the same outage do not extend the time for which the outage is cached.
            cache.remember(.unreachable, image: ImageKey("y"), origin: "o", isReachable: false, now: now + 1)
            let failure = cache.failure(of: ImageKey("z"), origin: "o", url: "u", now: now)
            #expect(failure?.until == now + expected)
            #expect(cache.failure(of: key, origin: "p", url: "u", now: now) == nil)
            now += expected
            #expect(cache.failure(of: key, origin: "o", url: "u", now: now) == nil)
        }
        cache.reached("o")
        cache.remember(.unreachable, image: key, origin: "o", isReachable: false, now: now)
        #expect(cache.failure(of: key, origin: "o", url: "u", now: now)?.until == now + 2)
    }

    @Test("a timeout affects one URL and an outage all URLs of its origin; the error does not name the failed URL")
    func others() {
        var cache = NegativeCache()
        cache.remember(.silent, image: key, origin: "o", isReachable: false, now: 1000)
        #expect(cache.failure(of: key, origin: "o", url: "u", now: 1000)?.error == .silent)
        #expect(cache.failure(of: ImageKey("y"), origin: "o", url: "u", now: 1000) == nil)
        cache.remember(.unreachable, image: key, origin: "p", isReachable: false, now: 1000)
        let error = cache.failure(of: ImageKey("y"), origin: "p", url: "https://o/own", now: 1000)?.error
        #expect(error?.message == "https://o/own was not requested: connection refused")
        #expect(error?.cause?.message.contains("secret") == false)
        #expect(error?.code == .offline)
    }

    @Test("the cache stays within its capacity and evicts the entries that expire first")
    func capacity() {
        var cache = NegativeCache(capacity: 100)
        for number in 0..<5000 {
            let error = ImageError.status(number % 2 == 0 ? 404 : 500)
            cache.remember(error, image: ImageKey("\(number)"), origin: "o", isReachable: true, now: 1000)
            cache.remember(.unreachable, image: key, origin: "\(number)", isReachable: false, now: 1000)
            #expect(cache.count <= 200)
        }
        #expect(cache.failure(of: ImageKey("4998"), origin: "", url: "u", now: 1000) != nil)
        cache.forgetAll()
        #expect(cache.count == 0)
    }
}
