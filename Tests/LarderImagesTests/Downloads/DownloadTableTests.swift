import LarderUpstream
import TestSupport
import Testing

@testable import LarderImages

@Suite("Download table")
struct DownloadTableTests {
    /// A table whose continuations and tasks are numbers.
    private typealias Table = DownloadTable<Int, Int>

    private let keys = ImageKeyResolver([])
    private let received = ByteCounter()

    private func table(total: Int = 16, perOrigin: Int = 6) -> Table {
        Table(limits: DownloadLimits(total: total, perOrigin: perOrigin), received: received)
    }

    private func request(
        _ number: Int, _ priority: ImagePriority = .normal, user: UInt32? = nil, digest: BlobDigest? = nil
    ) -> ImageRequest {
        ImageRequest(url: url(number), expectedDigest: digest, priority: priority, user: user)
    }

    /// Adds a request as a waiter.
    ///
    /// - Returns: the waiter, and whether its download is new
    @discardableResult
    private func join(
        _ table: inout Table, _ request: ImageRequest, _ continuation: Int, unconditionally: Bool = false
    ) throws -> (waiter: WaiterID, isNew: Bool) {
        let waiter = table.makeWaiterID()
        let isNew = table.join(
            waiter, request, at: try keys.location(of: request), unconditionally: unconditionally, continuation)
        return (waiter, isNew)
    }

    /// Starts all downloads that may start. In these tests, the number in the ID of a download also represents its
    /// task.
    @discardableResult
    private func start(_ table: inout Table) -> [TransferID] {
        var started: [TransferID] = []
        while let id = table.next(at: 0) {
            table.started(id, id.number)
            started.append(id)
        }
        return started
    }

    @Test("requests for one image share a download and end with it")
    func share() throws {
        var table = table()
        let areNew = try [1, 1, 2].enumerated().map { try join(&table, request($1), $0 + 1).isNew }
        #expect(areNew == [true, false, true])
        let ids = start(&table)
        #expect(ids.count == 2 && table.counts == (running: 2, queued: 0))
        // A request with `unconditionally` does not join the conditional download, but starts a new one. Later requests
        // join the new download.
        let isForcedNew = try join(&table, request(1), 4, unconditionally: true).isNew
        #expect(isForcedNew)
        guard case .removed(let removed) = table.end(ids[0], wasCancelled: false) else { Issue.record(); return }
        #expect(removed.waiters.map(\.continuation).sorted() == [1, 2])
        #expect(removed.waiters.filter(\.isFirst).map(\.continuation) == [1])
        let isNew = try join(&table, request(1), 5).isNew
        #expect(!isNew)
        #expect(table.ids.count == 2)
    }

    @Test("cancelling a download returns its waiters, and its task if it is running")
    func cancel() throws {
        var table = table(total: 1)
        for number in [1, 1, 2] { try join(&table, request(number), number) }
        let ids = start(&table)
        let queued = try #require(table.ids.last)
        let first = table.cancel(ids[0])
        #expect(first?.waiters == [1, 1] && first?.running == ids[0].number)
        let second = table.cancel(queued)
        #expect(second?.waiters == [2] && second?.running == nil)
        let unknown = table.cancel(queued)
        #expect(unknown == nil && table.isEmpty)
        guard case .abandoned = table.end(ids[0], wasCancelled: true) else { Issue.record(); return }
        #expect(table.counts == (running: 0, queued: 0))
    }

    @Test("a download ends when its last waiter leaves, unless it runs in the background")
    func leave() throws {
        var table = table()
        let first = try join(&table, request(1), 1).waiter
        let second = try join(&table, request(1), 2).waiter
        let ids = start(&table)
        let left = table.leave(first)
        let removal = try #require(left)
        #expect(removal.continuation == 1 && removal.cancelled == nil && !removal.mayStartOthers)
        let leftLast = table.leave(second)
        let last = try #require(leftLast)
        #expect(last.continuation == 2 && last.cancelled == ids[0].number && last.mayStartOthers)
        #expect(table.isEmpty)
        let unknown = table.leave(second)
        #expect(unknown == nil)
        // The slot of the cancelled download becomes free only when its task has ended.
        #expect(table.counts.running == 1)
        guard case .abandoned = table.end(ids[0], wasCancelled: true) else { Issue.record(); return }
        #expect(table.counts.running == 0)

        let location = try keys.location(of: request(2))
        let began = (0..<2).map { _ in table.beginInBackground(location, url: url(2), user: nil) }
        #expect(began == [true, false])
        let waiter = try join(&table, request(2), 3).waiter
        let cancelled = table.leave(waiter)?.cancelled
        #expect(cancelled == nil)
        #expect(!table.isEmpty)
    }

    @Test("a queued download that loses its last waiter never starts")
    func leaveQueue() throws {
        var table = table(total: 1)
        try join(&table, request(1), 1)
        start(&table)
        let waiter = try join(&table, request(2), 2).waiter
        let left = table.leave(waiter)
        let removal = try #require(left)
        #expect(removal.cancelled == nil && removal.mayStartOthers)
        #expect(table.counts == (running: 1, queued: 0))
    }

    @Test("a preempted download that has waiters is queued again")
    func requeue() throws {
        var table = table(total: 1)
        try join(&table, request(1, .low, user: 1), 1)
        let slow = start(&table)[0]
        try join(&table, request(2, .high, user: 1), 2)
        // Only one download is preempted at a time.
        let stopped = (0..<2).map { _ in table.preempt(at: 10) }
        #expect(stopped == [slow.number, nil])
        guard case .requeued = table.end(slow, wasCancelled: true) else { Issue.record(); return }
        #expect(table.isQueued(slow))
        let urgent = start(&table)
        #expect(urgent.map { table[$0]?.url } == [url(2)])
        #expect(table[slow]?.waiters.count == 1)
    }

    @Test("if a waiter takes a stale image, the download continues in the background")
    func detach() throws {
        var table = table()
        let first = try join(&table, request(1), 1).waiter
        try join(&table, request(1), 2)
        let id = start(&table)[0]
        let waiting = table.noteFailure(.unreachable, of: id)
        #expect(waiting.count == 2 && table[id]?.failure?.code == .offline)
        let none = table.detach([], from: id)
        #expect(none.isEmpty && table[id]?.isBackground == false)
        let detached = table.detach([first], from: id)
        #expect(detached == [1])
        #expect(table[id]?.isBackground == true && table[id]?.waiters.count == 1)
        let left = table.leave(first)
        #expect(left == nil)
    }

    @Test("a download counts its origin as reachable after it received bytes or another download got a response")
    func reachable() throws {
        var table = table()
        try join(&table, request(1), 1)
        let location = try keys.location(of: request(1))
        let id = start(&table)[0]
        let first = try #require(table[id])
        #expect(!table.isReachable(first))
        table.originResponded(location.address.origin)
        #expect(table.isReachable(first))
        try join(&table, request(2), 2)
        let other = start(&table)[0]
        let second = try #require(table[other])
        #expect(!table.isReachable(second))
        second.progress.add(5)
        #expect(table.isReachable(second) && received.bytes == 5)
    }

    @Test(
        "random sequences of operations resume each waiter once and cancel each task at most once",
        arguments: UInt64(0)..<20)
    func randomWalk(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var table = table(total: 3, perOrigin: 2)
        var waiting: [WaiterID: Int] = [:]
        var running: Set<TransferID> = []
        var (resumed, cancelled): ([Int], [Int]) = ([], [])
        for step in 1...400 {
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1:
                let priority = ImagePriority.allCases.randomElement(using: &generator) ?? .normal
                let user = Bool.random(using: &generator) ? UInt32.random(in: 0..<3, using: &generator) : nil
                let number = Int.random(in: 0..<5, using: &generator)
                waiting[try join(&table, request(number, priority, user: user), step).waiter] = step
            case 2:
                guard let waiter = waiting.keys.sorted(by: { $0.number < $1.number }).randomElement(using: &generator)
                else { continue }
                let continuation = waiting.removeValue(forKey: waiter)
                let left = table.leave(waiter)
                let removal = try #require(left)
                #expect(removal.continuation == continuation)
                resumed.append(removal.continuation)
                if let task = removal.cancelled { cancelled.append(task) }
            case 3:
                if let task = table.preempt(at: step) { #expect(running.contains { $0.number == task }) }
            case 4:
                guard let id = running.sorted().randomElement(using: &generator) else { continue }
                running.remove(id)
                if case .removed(let removed) = table.end(id, wasCancelled: Bool.random(using: &generator)) {
                    let ended = removed.waiters.map(\.continuation)
                    resumed += ended
                    waiting = waiting.filter { !ended.contains($0.value) }
                }
            default: running.formUnion(start(&table))
            }
            #expect(table.counts.running == running.count && running.count <= 3)
            #expect(table.ids.reduce(0) { $0 + (table[$1]?.waiters.count ?? 0) } == waiting.count)
        }
        let rest = table.removeAll()
        #expect(rest.waiters.sorted() == waiting.values.sorted())
        #expect(table.isEmpty)
        #expect(Set(resumed).count == resumed.count)
        #expect(Set(cancelled).count == cancelled.count)
        for id in running { guard case .abandoned = table.end(id, wasCancelled: true) else { Issue.record(); return } }
        #expect(table.counts == (running: 0, queued: 0))
    }
}
