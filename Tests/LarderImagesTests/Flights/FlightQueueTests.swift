import TestSupport
import Testing

@testable import LarderImages

@Suite("The order of downloads")
struct FlightQueueTests {
    private func started(_ queue: inout FlightQueue<String>) -> [String] {
        var result: [String] = []
        while let id = queue.next() { result.append(id) }
        return result
    }

    @Test("the more urgent comes first, then the one that waits for longest")
    func order() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 1, perOrigin: 1))
        for (id, priority) in [("p", .prefetch), ("n1", .normal), ("l", .low), ("h", .high), ("n2", .normal)]
            as [(String, ImagePriority)]
        {
            queue.add(id, origin: id, priority: priority)
        }
        var order: [String] = []
        while let id = queue.next() {
            let second = queue.next()
            #expect(second == nil)
            order.append(id)
            queue.finish(id)
        }
        #expect(order == ["h", "n1", "n2", "l", "p"])
        #expect(queue.running == 0 && queue.queued == 0)
    }

    @Test("an origin that has as many as it may is passed over")
    func fullOrigin() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 4, perOrigin: 2))
        for number in 0..<4 { queue.add("a\(number)", origin: "a", priority: .high) }
        for number in 0..<3 { queue.add("b\(number)", origin: "b", priority: .low) }
        #expect(started(&queue) == ["a0", "a1", "b0", "b1"])
        queue.finish("b0")
        #expect(started(&queue) == ["b2"])
        queue.finish("a1")
        #expect(started(&queue) == ["a2"])
        #expect(queue.running == 4 && queue.queued == 1)
    }

    @Test("prefetches leave four places in all and two at an origin to those that somebody waits for")
    func prefetches() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 8, perOrigin: 4))
        for number in 0..<10 { queue.add("a\(number)", origin: "a", priority: .prefetch) }
        #expect(started(&queue) == ["a0", "a1"])
        for number in 0..<10 { queue.add("b\(number)", origin: "b", priority: .prefetch) }
        #expect(started(&queue) == ["b0", "b1"])
        for number in 0..<10 { queue.add("c\(number)", origin: "c", priority: .prefetch) }
        #expect(started(&queue).isEmpty)
        // Four places are left, two of them at each origin.
        for number in 0..<4 { queue.add("A\(number)", origin: "a", priority: .low) }
        for number in 0..<4 { queue.add("B\(number)", origin: "b", priority: .low) }
        #expect(started(&queue) == ["A0", "A1", "B0", "B1"])
        // What is free again is not for a prefetch while fewer than four are.
        for id in ["A0", "A1"] { queue.finish(id) }
        queue.finish("a0")
        #expect(started(&queue) == ["A2", "A3"])
    }

    @Test("prefetches come on where the limits are small")
    func smallLimits() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 0, perOrigin: -1))
        queue.add("p", origin: "a", priority: .prefetch)
        queue.add("q", origin: "b", priority: .prefetch)
        #expect(started(&queue) == ["p"])
        queue.finish("p")
        #expect(started(&queue) == ["q"])
    }

    @Test("a download becomes more urgent and less again, and keeps its place in time")
    func priorities() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 1, perOrigin: 1))
        var next: String?
        for id in ["1", "2", "3", "4"] { queue.add(id, origin: "a", priority: .normal) }
        queue.raise("4", .high)
        queue.raise("3", .low)
        queue.raise("2", .high)
        queue.raise("unknown", .high)
        next = queue.next()
        #expect(next == "2")
        queue.lower("4", .normal)
        queue.lower("1", .high)
        queue.lower("2", .prefetch)
        queue.finish("2")
        next = queue.next()
        #expect(next == "1")
        queue.finish("1")
        next = queue.next()
        #expect(next == "3")
    }

    @Test("what waits can be forgotten, what runs has to be finished")
    func cancelling() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 1, perOrigin: 1))
        for id in ["1", "2", "3"] { queue.add(id, origin: "a", priority: .normal) }
        #expect(started(&queue) == ["1"])
        let cancelled = ["1", "unknown", "2", "2"].map { queue.cancel($0) }
        #expect(cancelled == [false, false, true, false])
        queue.finish("3")
        #expect(started(&queue).isEmpty)
        queue.finish("1")
        #expect(started(&queue) == ["3"])
    }

    @Test("limits that are raised let more run, lowered ones stop nothing that runs")
    func changedLimits() {
        var queue = FlightQueue<String>(limits: FlightLimits(total: 2, perOrigin: 2))
        for id in ["1", "2", "3", "4"] { queue.add(id, origin: "a", priority: .normal) }
        #expect(started(&queue) == ["1", "2"])
        queue.limits = FlightLimits(total: 3, perOrigin: 3)
        #expect(started(&queue) == ["3"])
        queue.limits = FlightLimits(total: 1, perOrigin: 1)
        queue.finish("1")
        queue.finish("2")
        #expect(started(&queue).isEmpty)
        queue.finish("3")
        #expect(started(&queue) == ["4"])
    }

    /// The same queue, written so that nothing can be wrong with it but its speed.
    private struct PlainQueue {
        var limits: FlightLimits
        var waiting: [(id: Int, origin: String, priority: ImagePriority)] = []
        var running: [(id: Int, origin: String)] = []

        mutating func next() -> Int? {
            let order = waiting.indices.sorted {
                (waiting[$1].priority, waiting[$0].id) < (waiting[$0].priority, waiting[$1].id)
            }
            for index in order {
                let flight = waiting[index]
                let there = running.filter { $0.origin == flight.origin }.count
                let isPrefetch = flight.priority == .prefetch
                guard running.count < (isPrefetch ? limits.prefetches : limits.total),
                    there < (isPrefetch ? limits.prefetchesPerOrigin : limits.perOrigin)
                else { continue }
                waiting.remove(at: index)
                running.append((flight.id, flight.origin))
                return flight.id
            }
            return nil
        }
    }

    @Test("in every order of events it does what the plain list does", arguments: 0..<20)
    func random(_ seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed))
        let limits = FlightLimits(
            total: .random(in: 1...12, using: &generator), perOrigin: .random(in: 1...5, using: &generator))
        var queue = FlightQueue<Int>(limits: limits)
        var plain = PlainQueue(limits: limits)
        for id in 0..<400 {
            let priority = ImagePriority.allCases.randomElement(using: &generator) ?? .normal
            let origin = ["a", "b", "c", "d"].randomElement(using: &generator) ?? ""
            queue.add(id, origin: origin, priority: priority)
            plain.waiting.append((id, origin, priority))
            if let index = plain.waiting.indices.randomElement(using: &generator) {
                let other = ImagePriority.allCases.randomElement(using: &generator) ?? .normal
                let waiting = plain.waiting[index].id
                switch Int.random(in: 0..<6, using: &generator) {
                case 0:
                    queue.raise(waiting, other)
                    plain.waiting[index].priority = max(plain.waiting[index].priority, other)
                case 1:
                    queue.lower(waiting, other)
                    plain.waiting[index].priority = min(plain.waiting[index].priority, other)
                case 2:
                    let wasThere = queue.cancel(waiting)
                    #expect(wasThere)
                    plain.waiting.remove(at: index)
                default: break
                }
            }
            if Bool.random(using: &generator), let index = plain.running.indices.randomElement(using: &generator) {
                queue.finish(plain.running[index].id)
                plain.running.remove(at: index)
            }
            while true {
                let (found, expected) = (queue.next(), plain.next())
                #expect(found == expected)
                if found == nil || found != expected { break }
            }
            #expect(queue.running == plain.running.count)
            #expect(queue.queued == plain.waiting.count)
        }
    }
}
