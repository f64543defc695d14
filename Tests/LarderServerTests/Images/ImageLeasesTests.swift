import NIOCore
import NIOEmbedded
import Testing

@testable import LarderImages
@testable import LarderServer

@Suite("Image leases")
struct ImageLeasesTests {
    private func digest(_ number: Int) throws -> BlobDigest {
        let digits = String(number, radix: 16)
        return try #require(BlobDigest(hex: String(repeating: "0", count: 64 - digits.count) + digits))
    }

    @Test("a blob has one lease with one reference, and the lease ends when it is released as often as it was taken")
    func counting() throws {
        var leases = ImageLeases()
        let (a, b) = (try digest(1), try digest(2))
        #expect(leases.take(a, until: .distantFuture) == (1, true))
        #expect(leases.take(b, until: .distantFuture) == (2, true))
        #expect(leases.take(a, until: .distantFuture) == (1, false))
        #expect(leases.release(1) == (true, nil))
        #expect(leases.release(1) == (true, a))
        #expect(leases.release(1) == (false, nil))
        // The numbers of ended leases are not reused.
        #expect(leases.take(a, until: .distantFuture) == (3, true))
        #expect(Set(leases.endAll()) == [a, b] && leases.count == 0)
    }

    @Test("a lease lasts until the latest requested time")
    func times() throws {
        var leases = ImageLeases()
        let (a, b) = (try digest(1), try digest(2))
        _ = leases.take(a, until: .uptimeNanoseconds(10))
        _ = leases.take(a, until: .uptimeNanoseconds(5))
        _ = leases.take(b, until: .distantFuture)
        #expect(leases.nextEnd == .uptimeNanoseconds(10))
        #expect(leases.expire(at: .uptimeNanoseconds(9)).isEmpty)
        #expect(leases.expire(at: .uptimeNanoseconds(10)) == [a])
        #expect(leases.nextEnd == nil && leases.count == 1)
        #expect(leases.release(1) == (false, nil))
    }

    @Test("at the maximum number of leases, only a blob that already has a lease can be leased")
    func limit() throws {
        var leases = ImageLeases()
        for number in 0..<ImageLeases.max { _ = leases.take(try digest(number), until: .distantFuture) }
        #expect(leases.hasRoom(for: try digest(0)))
        #expect(!leases.hasRoom(for: try digest(ImageLeases.max)))
    }

    @Test("one timer serves all leases and fires when the first of them ends")
    func sweep() {
        let loop = EmbeddedEventLoop()
        let sweep = LeaseTimer(eventLoop: loop)
        let start = loop.now
        var (ends, sweeps): ([NIODeadline], Int) = ([start + .seconds(30), start + .seconds(10)], 0)
        sweep.sweep = { now in
            sweeps += 1
            ends.removeAll { $0 <= now }
            return ends.min()
        }
        for end in ends { sweep.watch(until: end) }
        loop.advanceTime(by: .seconds(9))
        #expect(sweeps == 0)
        loop.advanceTime(by: .seconds(1))
        #expect(sweeps == 1 && ends == [start + .seconds(30)])
        loop.advanceTime(by: .seconds(20))
        #expect(sweeps == 2 && ends.isEmpty)
        loop.advanceTime(by: .seconds(1000))
        #expect(sweeps == 2)
    }
}
