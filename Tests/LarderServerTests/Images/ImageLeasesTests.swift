import NIOCore
import NIOEmbedded
import Testing

@testable import LarderImages
@testable import LarderServer

@Suite("Leases")
struct ImageLeasesTests {
    private func digest(_ number: Int) throws -> BlobDigest {
        let digits = String(number, radix: 16)
        return try #require(BlobDigest(hex: String(repeating: "0", count: 64 - digits.count) + digits))
    }

    @Test("one blob has one lease, which takes one reference and is given back as often as it was taken")
    func counting() throws {
        var leases = ImageLeases()
        let (a, b) = (try digest(1), try digest(2))
        #expect(leases.take(a, until: .distantFuture) == (1, true))
        #expect(leases.take(b, until: .distantFuture) == (2, true))
        #expect(leases.take(a, until: .distantFuture) == (1, false))
        #expect(leases.release(1) == (true, nil))
        #expect(leases.release(1) == (true, a))
        #expect(leases.release(1) == (false, nil))
        // A number is never another lease's.
        #expect(leases.take(a, until: .distantFuture) == (3, true))
        #expect(Set(leases.endAll()) == [a, b] && leases.count == 0)
    }

    @Test("the latest time that was asked for counts")
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

    @Test("there is an end to them, but not to those that are there already")
    func limit() throws {
        var leases = ImageLeases()
        for number in 0..<ImageLeases.max { _ = leases.take(try digest(number), until: .distantFuture) }
        #expect(leases.hasRoom(for: try digest(0)))
        #expect(!leases.hasRoom(for: try digest(ImageLeases.max)))
    }

    @Test("one timer serves all, and goes by the earliest")
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
