import LarderUpstream
import Testing

@testable import LarderImages

@Suite("What is remembered of failures")
struct NegativeCacheTests {
    private let key = ImageKey("x")

    /// For how many seconds a failure is remembered.
    private func seconds(_ error: ImageError, isReachable: Bool = true) -> Int {
        var memory = NegativeCache()
        memory.remember(error, image: key, origin: "o", isReachable: isReachable, now: 1000)
        return (memory.failure(of: key, origin: "o", url: "u", now: 1000)?.until ?? 1000) - 1000
    }

    @Test("as long as fits their kind")
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
        for code: ImageError.Code in [.notAnImage, .tooManyPixels, .tooLarge, .truncatedImage, .lengthDisagrees] {
            #expect(seconds(ImageError(code, "")) == 60, "\(code)")
        }
        for code: ImageError.Code in [.cancelled, .noRoom, .storageFailed, .shuttingDown, .digestDisagrees] {
            #expect(seconds(ImageError(code, "")) == 0, "\(code)")
        }
    }

    @Test("as long as Retry-After of the response, else its freshness, specifies")
    func explicitLifetimes() {
        #expect(seconds(.status(404).with(lifetime: 0)) == 0)
        #expect(seconds(.status(404).with(lifetime: 1)) == 1)
        #expect(seconds(.status(503).with(lifetime: 120)) == 120)
        #expect(seconds(.status(404).with(lifetime: 1 << 31)) == 86_400)
        #expect(seconds(.status(503, retryAfter: .seconds(40)).with(lifetime: 0)) == 40)
        #expect(seconds(ImageError(.notAnImage, "").with(lifetime: 0)) == 0)
        #expect(seconds(ImageError(.notAnImage, "").with(lifetime: 7)) == 7)
        // A transfer that broke off is no response.
        #expect(seconds(.silent.with(lifetime: 3600)) == 5)
    }

    @Test("as long as the settings specify, if the response specifies nothing")
    func settings() {
        var memory = NegativeCache(lifetimes: FailureLifetimes(notFound: 10, refused: 20, serverError: 30, network: 0))
        func until(_ error: ImageError) -> Int? {
            memory.remember(error, image: key, origin: "o", isReachable: true, now: 1000)
            defer { memory.forgetAll() }
            return memory.failure(of: key, origin: "o", url: "u", now: 1000)?.until
        }
        #expect(until(.status(410)) == 1010)
        #expect(until(.status(403)) == 1020)
        #expect(until(ImageError(.notAnImage, "")) == 1020)
        #expect(until(.status(500)) == 1030)
        #expect(until(.silent) == nil)
    }

    @Test("an origin out of reach is asked less and less often, and at once again after it answered")
    func outages() {
        var memory = NegativeCache()
        var now = 1000
        for expected in [2, 4, 8, 16, 30, 30] {
            memory.remember(.unreachable, image: key, origin: "o", isReachable: false, now: now)
            // Others that fail of the same outage change nothing.
            memory.remember(.unreachable, image: ImageKey("y"), origin: "o", isReachable: false, now: now + 1)
            let failure = memory.failure(of: ImageKey("z"), origin: "o", url: "u", now: now)
            #expect(failure?.until == now + expected)
            #expect(memory.failure(of: key, origin: "p", url: "u", now: now) == nil)
            now += expected
            #expect(memory.failure(of: key, origin: "o", url: "u", now: now) == nil)
        }
        memory.reached("o")
        memory.remember(.unreachable, image: key, origin: "o", isReachable: false, now: now)
        #expect(memory.failure(of: key, origin: "o", url: "u", now: now)?.until == now + 2)
    }

    @Test("a silence is of its URL, an outage of all, and is told to others without the URL that met it")
    func others() {
        var memory = NegativeCache()
        memory.remember(.silent, image: key, origin: "o", isReachable: false, now: 1000)
        #expect(memory.failure(of: key, origin: "o", url: "u", now: 1000)?.error == .silent)
        #expect(memory.failure(of: ImageKey("y"), origin: "o", url: "u", now: 1000) == nil)
        memory.remember(.unreachable, image: key, origin: "p", isReachable: false, now: 1000)
        let error = memory.failure(of: ImageKey("y"), origin: "p", url: "https://o/own", now: 1000)?.error
        #expect(error?.message == "https://o/own was not asked for: nobody answers")
        #expect(error?.cause?.message.contains("secret") == false)
        #expect(error?.code == .offline)
    }

    @Test("never more than there is room for; what ends soonest goes first")
    func capacity() {
        var memory = NegativeCache(capacity: 100)
        for number in 0..<5000 {
            let error = ImageError.status(number % 2 == 0 ? 404 : 500)
            memory.remember(error, image: ImageKey("\(number)"), origin: "o", isReachable: true, now: 1000)
            memory.remember(.unreachable, image: key, origin: "\(number)", isReachable: false, now: 1000)
            #expect(memory.count <= 200)
        }
        #expect(memory.failure(of: ImageKey("4998"), origin: "", url: "u", now: 1000) != nil)
        memory.forgetAll()
        #expect(memory.count == 0)
    }
}
