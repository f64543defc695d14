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
        #expect(leases.extend(a, until: .distantFuture) == nil)
        #expect(leases.add(a, until: .distantFuture) == 1)
        #expect(leases.add(b, until: .distantFuture) == 2)
        #expect(leases.extend(a, until: .distantFuture) == 1)
        #expect(leases.release(1) == (true, nil))
        #expect(leases.release(1) == (true, a))
        #expect(leases.release(1) == (false, nil))
        // The numbers of ended leases are not reused.
        #expect(leases.extend(a, until: .distantFuture) == nil)
        #expect(leases.add(a, until: .distantFuture) == 3)
        #expect(Set(leases.endAll()) == [a, b] && leases.count == 0)
    }

    @Test("a lease lasts until the latest requested time")
    func times() throws {
        var leases = ImageLeases()
        let (a, b) = (try digest(1), try digest(2))
        _ = leases.add(a, until: .uptimeNanoseconds(10))
        _ = leases.extend(a, until: .uptimeNanoseconds(5))
        _ = leases.add(b, until: .distantFuture)
        #expect(leases.expiry(at: .uptimeNanoseconds(9)) == ([], .uptimeNanoseconds(10)))
        #expect(leases.end(1, ifExpiredAt: .uptimeNanoseconds(9)) == nil)
        #expect(leases.expiry(at: .uptimeNanoseconds(10)) == ([1], .distantFuture))
        // A lease that is extended during the sweep stays.
        _ = leases.extend(a, until: .uptimeNanoseconds(12))
        #expect(leases.end(1, ifExpiredAt: .uptimeNanoseconds(10)) == nil)
        #expect(leases.end(1, ifExpiredAt: .uptimeNanoseconds(12)) == a)
        #expect(leases.expiry(at: .uptimeNanoseconds(12)) == ([], .distantFuture) && leases.count == 1)
        #expect(leases.release(1) == (false, nil))
    }

    @Test("a connection has a maximum number of leases")
    func limit() throws {
        var leases = ImageLeases()
        for number in 0..<ImageLeases.max {
            #expect(!leases.isFull)
            _ = leases.add(try digest(number), until: .distantFuture)
        }
        #expect(leases.isFull)
    }

    @Test("one timer serves all leases and fires when the first of them ends")
    func sweep() {
        let loop = EmbeddedEventLoop()
        let sweep = LeaseTimer(eventLoop: loop)
        let start = loop.now
        var (ends, sweeps): ([NIODeadline], Int) = ([start + .seconds(30), start + .seconds(10)], 0)
        sweep.sweep = { now, end in
            sweeps += 1
            ends.removeAll { $0 <= now }
            end(ends.min() ?? .distantFuture)
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

    @Test("no sweep begins before the previous one has ended, and leases taken during a sweep are watched")
    func longSweep() {
        let loop = EmbeddedEventLoop()
        let sweep = LeaseTimer(eventLoop: loop)
        let start = loop.now
        var pending: [(NIODeadline) -> Void] = []
        sweep.sweep = { _, end in pending.append(end) }
        sweep.watch(until: start + .seconds(10))
        loop.advanceTime(by: .seconds(10))
        #expect(pending.count == 1)
        sweep.watch(until: start + .seconds(20))
        loop.advanceTime(by: .seconds(20))
        #expect(pending.count == 1)
        pending.removeFirst()(start + .seconds(40))
        loop.advanceTime(by: .seconds(1))
        #expect(pending.count == 1)
        pending.removeFirst()(start + .seconds(40))
        loop.advanceTime(by: .seconds(8))
        #expect(pending.isEmpty)
        loop.advanceTime(by: .seconds(1))
        #expect(pending.count == 1)
    }

    @Test("work on many items is deferred at the end of each time slice, in the order of the items")
    func slices() {
        let loop = EmbeddedEventLoop()
        var (items, isComplete): ([Int], Bool) = ([], false)
        loop.forEachInSlices([1, 2, 3]) { item in
            items.append(item)
            // Longer than a time slice.
            let end = NIODeadline.now() + .milliseconds(1)
            while NIODeadline.now() < end {}
        } andThen: {
            isComplete = true
        }
        #expect(items == [1] && !isComplete)
        loop.run()
        #expect(items == [1, 2, 3] && isComplete)
    }
}
