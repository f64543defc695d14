import TestSupport
import Testing

@testable import LarderImages

@Suite("Download queue")
struct DownloadQueueTests {
    private func started(_ queue: inout DownloadQueue<String>) -> [String] {
        var result: [String] = []
        while let id = queue.next() { result.append(id) }
        return result
    }

    @Test("downloads start by priority, then by age")
    func order() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 1, perOrigin: 1))
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

    @Test("an origin at its limit is skipped")
    func fullOrigin() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 4, perOrigin: 2))
        for number in 0..<4 { queue.add("a\(number)", origin: "a", priority: .high) }
        for number in 0..<3 { queue.add("b\(number)", origin: "b", priority: .low) }
        #expect(started(&queue) == ["a0", "a1", "b0", "b1"])
        queue.finish("b0")
        #expect(started(&queue) == ["b2"])
        queue.finish("a1")
        #expect(started(&queue) == ["a2"])
        #expect(queue.running == 4 && queue.queued == 1)
    }

    @Test("prefetches leave four slots in total, and two slots of each origin, free for other downloads")
    func prefetches() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 8, perOrigin: 4))
        for number in 0..<10 { queue.add("a\(number)", origin: "a", priority: .prefetch) }
        #expect(started(&queue) == ["a0", "a1"])
        for number in 0..<10 { queue.add("b\(number)", origin: "b", priority: .prefetch) }
        #expect(started(&queue) == ["b0", "b1"])
        for number in 0..<10 { queue.add("c\(number)", origin: "c", priority: .prefetch) }
        #expect(started(&queue).isEmpty)
        // Four slots are left, two at each origin.
        for number in 0..<4 { queue.add("A\(number)", origin: "a", priority: .low) }
        for number in 0..<4 { queue.add("B\(number)", origin: "b", priority: .low) }
        #expect(started(&queue) == ["A0", "A1", "B0", "B1"])
        // A prefetch does not get a free slot while fewer than four slots are free.
        for id in ["A0", "A1"] { queue.finish(id) }
        queue.finish("a0")
        #expect(started(&queue) == ["A2", "A3"])
    }

    @Test("prefetches also start if the limits are small")
    func smallLimits() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 0, perOrigin: -1))
        queue.add("p", origin: "a", priority: .prefetch)
        queue.add("q", origin: "b", priority: .prefetch)
        #expect(started(&queue) == ["p"])
        queue.finish("p")
        #expect(started(&queue) == ["q"])
    }

    @Test("a download whose priority changes keeps its age")
    func priorities() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 1, perOrigin: 1))
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

    @Test("a queued download can be cancelled; a running one must be finished")
    func cancelling() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 1, perOrigin: 1))
        for id in ["1", "2", "3"] { queue.add(id, origin: "a", priority: .normal) }
        #expect(started(&queue) == ["1"])
        let cancelled = ["1", "unknown", "2", "2"].map { queue.cancel($0) }
        #expect(cancelled == [false, false, true, false])
        queue.finish("3")
        #expect(started(&queue).isEmpty)
        queue.finish("1")
        #expect(started(&queue) == ["3"])
    }

    @Test("raised limits start more downloads, and lowered limits stop no running one")
    func changedLimits() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 2, perOrigin: 2))
        for id in ["1", "2", "3", "4"] { queue.add(id, origin: "a", priority: .normal) }
        #expect(started(&queue) == ["1", "2"])
        queue.limits = DownloadLimits(total: 3, perOrigin: 3)
        #expect(started(&queue) == ["3"])
        queue.limits = DownloadLimits(total: 1, perOrigin: 1)
        queue.finish("1")
        queue.finish("2")
        #expect(started(&queue).isEmpty)
        queue.finish("3")
        #expect(started(&queue) == ["4"])
    }

    @Test("a user gets at most half of all slots, and never the last slot of an origin; the agent has no such limit")
    func userLimits() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 9, perOrigin: 3))
        for number in 0..<20 { queue.add("a\(number)", origin: "o\(number)", user: 1, priority: .high) }
        #expect(started(&queue) == ["a0", "a1", "a2", "a3", "a4"])
        for number in 0..<3 { queue.add("b\(number)", origin: "p", user: 2, priority: .low) }
        #expect(started(&queue) == ["b0", "b1"])
        queue.add("c", origin: "p", user: 3, priority: .low)
        queue.add("agent", origin: "q", priority: .low)
        #expect(started(&queue) == ["c", "agent"])
        queue.finish("a3")
        #expect(started(&queue) == ["a5"])
    }

    @Test("users alternate, whatever the number and priority of their downloads, except for prefetches")
    func fairness() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 1, perOrigin: 1))
        for number in 0..<4 { queue.add("a\(number)", origin: "o", user: 1, priority: .high) }
        for number in 0..<2 { queue.add("b\(number)", origin: "o", user: 2, priority: .normal) }
        queue.add("c", origin: "o", user: 3, priority: .prefetch)
        var order: [String] = []
        while let id = queue.next() {
            order.append(id)
            queue.finish(id)
        }
        #expect(order == ["a0", "b0", "a1", "b1", "a2", "a3", "c"])
    }

    @Test("a download that is assigned to another user counts towards that user's limit")
    func assignment() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 4, perOrigin: 4))
        for number in 0..<4 { queue.add("a\(number)", origin: "o", user: 1, priority: .normal) }
        #expect(started(&queue) == ["a0", "a1"])
        #expect(queue.isLessLoaded(2, than: 1))
        queue.assign("a3", to: 2)
        #expect(started(&queue) == ["a3"])
        // Assigning a running download frees a slot in the share of its previous user.
        queue.assign("a0", to: 3)
        #expect(started(&queue) == ["a2"])
        for id in ["a0", "a1", "a2", "a3"] { queue.finish(id) }
        #expect(queue.running == 0 && queue.queued == 0)
    }

    @Test("a running download is awaited if another user's queued download, other than a prefetch, needs its slot")
    func demand() {
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 3, perOrigin: 3, perUser: 2))
        func awaited(_ queue: DownloadQueue<String>) -> [String] {
            let demand = queue.demand
            return queue.runningIDs.filter { queue.isAwaited($0, demand) }.sorted()
        }
        for number in 0..<4 { queue.add("a\(number)", origin: "o", user: 1, priority: .normal) }
        queue.add("b", origin: "p", user: 2, priority: .normal)
        #expect(started(&queue) == ["a0", "b", "a1"])
        // The queued downloads of user 1 wait only because user 1 is at its limit. No other user needs a slot, so no
        // running download is awaited.
        #expect(awaited(queue) == [])
        queue.add("c0", origin: "q", user: 3, priority: .prefetch)
        #expect(awaited(queue) == [])
        queue.add("c1", origin: "q", user: 3, priority: .normal)
        #expect(awaited(queue) == ["a0", "a1", "b"])
        queue.limits = DownloadLimits(total: 9, perOrigin: 2, perUser: 9)
        #expect(started(&queue) == ["c1"])
        queue.add("d", origin: "o", user: 4, priority: .low)
        #expect(awaited(queue) == ["a0", "a1"])
    }

    @Test("a queued download of priority high preempts the slowest one whose slot it can use")
    func preemption() {
        let speeds = ["a0": 50, "a1": 10, "b0": 5, "b1": 1]
        func victim(_ queue: DownloadQueue<String>) -> String? { queue.preemption { speeds[$0] ?? .max } }
        var queue = DownloadQueue<String>(limits: DownloadLimits(total: 4, perOrigin: 4))
        for number in 0..<2 { queue.add("a\(number)", origin: "o", user: 1, priority: .normal) }
        for number in 0..<2 { queue.add("b\(number)", origin: "p", user: 2, priority: .normal) }
        #expect(started(&queue).count == 4)
        queue.add("n", origin: "q", user: 3, priority: .normal)
        #expect(victim(queue) == nil)
        queue.add("h", origin: "q", user: 3, priority: .high)
        #expect(victim(queue) == "b1")
        queue.requeue("b1")
        #expect(started(&queue) == ["h"])
        // Downloads of priority high are not preempted. User 1 is at its limit, so a2 can only replace a download of
        // user 1.
        queue.raise("a1", .high)
        queue.add("a2", origin: "o", user: 1, priority: .high)
        #expect(victim(queue) == "a0")
        queue.add("b2", origin: "p", user: 2, priority: .high)
        #expect(victim(queue) == "b0", "user 2 has fewer downloads and comes first")
        queue.finish("a0")
        #expect(started(&queue).count == 1)
        // A preempted download keeps its age.
        for id in ["a1", "a2", "b0", "b2", "h"] { queue.finish(id) }
        #expect(started(&queue).contains("b1"))
    }

    @Test("random downloads of several users respect all limits, and all of them start", arguments: 0..<20)
    func randomUsers(_ seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed))
        let limits = DownloadLimits(
            total: .random(in: 1...12, using: &generator), perOrigin: .random(in: 1...5, using: &generator),
            perUser: .random(in: 1...6, using: &generator))
        var queue = DownloadQueue<Int>(limits: limits)
        var downloads: [Int: (origin: String, user: UInt32)] = [:]
        var running: Set<Int> = []
        func start() {
            while let id = queue.next() { running.insert(id) }
            #expect(running == queue.runningIDs)
            #expect(running.count <= limits.total)
            let byUser = Dictionary(grouping: running) { downloads[$0]?.user ?? 0 }
            #expect(byUser.values.allSatisfy { $0.count <= limits.perUser })
            let byOrigin = Dictionary(grouping: running) { downloads[$0]?.origin ?? "" }
            #expect(byOrigin.values.allSatisfy { $0.count <= limits.perOrigin })
        }
        for id in 0..<300 {
            let (origin, user) = (
                ["a", "b", "c"].randomElement(using: &generator) ?? "", UInt32.random(in: 1...4, using: &generator)
            )
            downloads[id] = (origin, user)
            queue.add(
                id, origin: origin, user: user,
                priority: ImagePriority.allCases.randomElement(using: &generator) ?? .low)
            start()
            if let victim = queue.preemption(speed: { $0 }) {
                queue.requeue(victim)
                running.remove(victim)
                start()
            }
            if Int.random(in: 0..<3, using: &generator) > 0, let done = running.randomElement(using: &generator) {
                queue.finish(done)
                running.remove(done)
                downloads[done] = nil
                start()
            }
        }
        while let done = running.first {
            queue.finish(done)
            running.remove(done)
            start()
        }
        #expect(queue.queued == 0 && queue.running == 0)
    }

    /// A simple and slow reference implementation.
    private struct ReferenceQueue {
        var limits: DownloadLimits
        var waiting: [(id: Int, origin: String, priority: ImagePriority)] = []
        var running: [(id: Int, origin: String)] = []

        mutating func next() -> Int? {
            let order = waiting.indices.sorted {
                (waiting[$1].priority, waiting[$0].id) < (waiting[$0].priority, waiting[$1].id)
            }
            for index in order {
                let download = waiting[index]
                let runningAtOrigin = running.filter { $0.origin == download.origin }.count
                let isPrefetch = download.priority == .prefetch
                guard running.count < (isPrefetch ? limits.prefetches : limits.total),
                    runningAtOrigin < (isPrefetch ? limits.prefetchesPerOrigin : limits.perOrigin)
                else { continue }
                waiting.remove(at: index)
                running.append((download.id, download.origin))
                return download.id
            }
            return nil
        }
    }

    @Test("the queue agrees with the reference implementation in random sequences of operations", arguments: 0..<20)
    func random(_ seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed))
        let limits = DownloadLimits(
            total: .random(in: 1...12, using: &generator), perOrigin: .random(in: 1...5, using: &generator))
        var queue = DownloadQueue<Int>(limits: limits)
        var reference = ReferenceQueue(limits: limits)
        for id in 0..<400 {
            let priority = ImagePriority.allCases.randomElement(using: &generator) ?? .normal
            let origin = ["a", "b", "c", "d"].randomElement(using: &generator) ?? ""
            queue.add(id, origin: origin, priority: priority)
            reference.waiting.append((id, origin, priority))
            if let index = reference.waiting.indices.randomElement(using: &generator) {
                let other = ImagePriority.allCases.randomElement(using: &generator) ?? .normal
                let waiting = reference.waiting[index].id
                switch Int.random(in: 0..<6, using: &generator) {
                case 0:
                    queue.raise(waiting, other)
                    reference.waiting[index].priority = max(reference.waiting[index].priority, other)
                case 1:
                    queue.lower(waiting, other)
                    reference.waiting[index].priority = min(reference.waiting[index].priority, other)
                case 2:
                    let wasQueued = queue.cancel(waiting)
                    #expect(wasQueued)
                    reference.waiting.remove(at: index)
                default: break
                }
            }
            if Bool.random(using: &generator), let index = reference.running.indices.randomElement(using: &generator) {
                queue.finish(reference.running[index].id)
                reference.running.remove(at: index)
            }
            while true {
                let (found, expected) = (queue.next(), reference.next())
                #expect(found == expected)
                if found == nil || found != expected { break }
            }
            #expect(queue.running == reference.running.count)
            #expect(queue.queued == reference.waiting.count)
        }
    }
}
