import TestSupport
import Testing

@testable import LarderImages

@Suite("Space reclaim queue")
struct SpaceReclaimQueueTests {
    /// A queue whose continuations are numbers.
    private typealias Queue = SpaceReclaimQueue<Int>

    private let full = Queue.Usage(bytes: 3000, retainedBytes: 3000, reservedBytes: 2000, leftoverBytes: 0)
    private let shortage = SpaceShortage(bytes: 1000, count: 0, taken: 5000)

    private func id(_ number: Int) -> TransferID { TransferID(number: number) }

    @discardableResult
    private func wait(
        _ queue: inout Queue, _ reason: Queue.Reason, for number: Int?, _ continuation: Int,
        _ shortage: SpaceShortage? = nil
    ) -> SpaceWaiterID {
        let waiter = queue.makeWaiterID()
        queue.add(waiter, reason, for: number.map(id), shortage, continuation)
        return waiter
    }

    @Test("the end of an eviction resumes the callers that wait for it, but not those that wait for space")
    func evictionEnds() {
        var queue = Queue()
        queue.beginReclaiming()
        wait(&queue, .eviction, for: 1, 1)
        wait(&queue, .eviction, for: nil, 2)
        wait(&queue, .space, for: 3, 3)
        #expect(queue.isReclaiming)
        let resumed = queue.endReclaiming().sorted()
        #expect(resumed == [1, 2])
        #expect(!queue.isReclaiming && queue.count == 1 && queue.isSettled)
    }

    @Test("freed space resumes the oldest waiter, and each waiter that finds space resumes the next")
    func chain() {
        var queue = Queue()
        for number in [3, 1, 2] { wait(&queue, .space, for: number, number) }
        let first = queue.spaceFreed()
        #expect(first == 1 && !queue.isSettled)
        let second = [queue.spaceFound(by: id(1)), queue.spaceFound(by: id(9))]
        #expect(second == [2, nil])
        // If a resumed transfer ends without having found space, its end resumes the next waiter.
        let third = [queue.spaceFreed(endOf: id(2)), queue.spaceFound(by: id(3))]
        #expect(third == [3, nil])
        #expect(queue.isEmpty && queue.isSettled)
        #expect(queue.changes == 2)
    }

    @Test("a waiter is resumed only once")
    func once() {
        var queue = Queue()
        let waiter = wait(&queue, .space, for: 1, 1)
        let resumed = [
            queue.remove(waiter, isResumed: false), queue.remove(waiter, isResumed: true), queue.spaceFreed(),
        ]
        #expect(resumed == [1, nil, nil])
        #expect(queue.isSettled)
    }

    @Test("if no image can be evicted, a transfer retries, waits or fails")
    func decisions() {
        var queue = Queue()
        func decide(
            _ number: Int, _ usage: Queue.Usage, changes: Int = 0, running: [Int]
        ) -> Queue.Decision {
            queue.decide(shortage, for: id(number), usage, changesBefore: changes, running: Set(running.map(id)))
        }
        // A transfer retries if something changed during its attempt, or if less space is in use than when the shortage
        // was found.
        guard case .retry = decide(1, full, changes: 7, running: [1, 2]) else { Issue.record(); return }
        var usage = full
        usage.bytes = 2999
        guard case .retry = decide(1, usage, running: [1, 2]) else { Issue.record(); return }
        // A transfer fails if all space belongs to leased or pinned images and no other space will become free.
        usage = full
        (usage.bytes, usage.retainedBytes, usage.reservedBytes) = (5000, 5000, 0)
        guard case .fail = decide(1, usage, running: [1, 2]) else { Issue.record(); return }
        // A download waits for another one. A put keeps its bytes and waits only for downloads.
        guard case .wait(.space, yielding: nil) = decide(1, full, running: [1, 2]) else { Issue.record(); return }
        guard case .wait(.restart, yielding: nil) = decide(9, full, running: [1]) else { Issue.record(); return }
        guard case .fail = decide(9, full, running: []) else { Issue.record(); return }
        guard case .fail = decide(1, full, running: [1]) else { Issue.record(); return }
        #expect(queue.isSettled)
    }

    @Test("if all downloads wait, the youngest one with bytes discards them")
    func yield() {
        var queue = Queue()
        wait(&queue, .space, for: 1, 1)
        wait(&queue, .restart, for: 5, 5)
        let running = Set([1, 2, 5].map(id))
        // The caller itself is the youngest, so it fails.
        guard case .fail = queue.decide(shortage, for: id(2), full, changesBefore: 0, running: running) else {
            Issue.record()
            return
        }
        var restarts = (0..<2).map { _ in queue.restart(id(2)) }
        #expect(restarts == [true, false])
        wait(&queue, .space, for: 2, 2)
        // Another download is younger than the caller.
        let others = Set([0, 1, 2, 5].map(id))
        guard
            case .wait(.space, yielding: 2) = queue.decide(
                shortage, for: id(0), full, changesBefore: 0, running: others)
        else {
            Issue.record()
            return
        }
        restarts = [2, 1].map { queue.restart(id($0)) }
        #expect(restarts == [true, false])
    }

    @Test("once a download has ended, it does not have to discard its bytes")
    func ended() {
        var queue = Queue()
        wait(&queue, .space, for: 1, 1)
        _ = queue.decide(shortage, for: id(2), full, changesBefore: 0, running: [id(1), id(2)])
        #expect(!queue.isSettled)
        queue.removeDownload(id(2))
        let isRestarted = queue.restart(id(2))
        #expect(!isRestarted && queue.isSettled)
    }

    @Test("oldestShortage is that of the oldest waiter whose shortage is known")
    func removable() {
        var queue = Queue()
        wait(&queue, .restart, for: 1, 1)
        wait(&queue, .space, for: 3, 3, SpaceShortage(bytes: 3, count: 0, taken: 0))
        let oldest = wait(&queue, .space, for: 2, 2, SpaceShortage(bytes: 2, count: 0, taken: 0))
        #expect(queue.oldestShortage?.waiter == oldest && queue.oldestShortage?.shortage.bytes == 2)
    }

    @Test("random operations leave no transfer waiting and resume each waiter once", arguments: UInt64(0)..<20)
    func randomWalk(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var queue = Queue()
        var running = Set((1...6).map(id))
        var waiting: [Int: TransferID] = [:]
        var continuation = 0
        func resume(_ resumed: Int?) { if let resumed { #expect(waiting.removeValue(forKey: resumed) != nil) } }
        while let next = running.subtracting(waiting.values).sorted().randomElement(using: &generator) {
            switch Int.random(in: 0..<3, using: &generator) {
            case 0:
                running.remove(next)
                queue.removeDownload(next)
                resume(queue.spaceFreed(endOf: next))
            case 1: resume(queue.spaceFound(by: next))
            default:
                let changes = queue.changes
                switch queue.decide(shortage, for: next, full, changesBefore: changes, running: running) {
                case .retry: break
                case .wait(let reason, let yielding):
                    resume(yielding)
                    continuation += 1
                    waiting[continuation] = next
                    wait(&queue, reason, for: next.number, continuation)
                case .fail:
                    guard queue.restart(next) else { continue }
                    resume(queue.resumeNext())
                }
            }
            // The oldest download always continues.
            #expect(running.isEmpty || !running.subtracting(waiting.values).isEmpty)
        }
        #expect(running.isEmpty && queue.isEmpty)
    }
}
