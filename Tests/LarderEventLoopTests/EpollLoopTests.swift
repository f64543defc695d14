import Foundation
import NIOCore
import Synchronization
import Testing

@testable import LarderEventLoop

@Suite("Epoll event loop")
struct EpollLoopTests {
    /// Entries in the order in which they were added.
    private final class Record: Sendable {
        private let entries = Mutex<[String]>([])
        func note(_ entry: String) { entries.withLock { $0.append(entry) } }
        var all: [String] { entries.withLock { $0 } }
    }

    @Test("work submitted by one thread runs in order on the thread of the loop")
    func order() async throws {
        let loop = try EpollLoop(name: "order")
        let record = Record()
        for number in 0..<1000 {
            loop.execute {
                loop.preconditionInEventLoop()
                record.note("\(number)")
            }
        }
        #expect(try await loop.submit { loop.inEventLoop }.get())
        #expect(!loop.inEventLoop)
        #expect(record.all == (0..<1000).map { "\($0)" })
        loop.stop()
    }

    @Test("work submitted by many threads runs once each")
    func manyThreads() async throws {
        let loop = try EpollLoop(name: "many")
        let sum = try await withThrowingTaskGroup(of: Int.self) { group in
            for task in 0..<8 {
                group.addTask {
                    var own = 0
                    for number in 0..<500 { own += try await loop.submit { task * 1000 + number }.get() }
                    return own
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(sum == (0..<8).map { $0 * 500_000 + 499 * 250 }.reduce(0, +))
        loop.stop()
    }

    @Test("timers fire in order and not early; cancelled timers do not fire")
    func timers() async throws {
        let loop = try EpollLoop(name: "timers")
        let record = Record()
        let begin = loop.now
        // Adds and cancels the timers on the loop, so that no timer can fire before the cancellation.
        let (cancelled, late) = try await loop.submit {
            let cancelled = loop.scheduleTask(in: .milliseconds(2)) { record.note("cancelled") }
            let late = loop.scheduleTask(in: .milliseconds(30)) { record.note("late") }
            _ = loop.scheduleTask(in: .milliseconds(10)) { record.note("soon") }
            cancelled.cancel()
            return (cancelled, late)
        }.get()
        await #expect(throws: EventLoopError.self) { try await cancelled.futureResult.get() }
        try await late.futureResult.get()
        #expect(loop.now >= begin + .milliseconds(30))
        #expect(record.all == ["soon", "late"])
        loop.stop()
    }

    @Test("timers count the time during which the system is suspended")
    func bootTime() throws {
        let loop = try EpollLoop(name: "boottime")
        func bootTime() -> NIODeadline {
            var time = timespec()
            clock_gettime(CLOCK_BOOTTIME, &time)
            return .uptimeNanoseconds(UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
        }
        let before = bootTime()
        let now = loop.now
        #expect(before <= now && now <= bootTime())
        loop.stop()
    }

    @Test("a timer with a long wait fires, also after timers with earlier and later deadlines")
    func longWaits() async throws {
        let loop = try EpollLoop(name: "long-waits")
        let record = Record()
        _ = loop.scheduleTask(in: .hours(1)) { record.note("hour") }
        _ = loop.scheduleTask(deadline: .distantFuture) { record.note("never") }
        let late = loop.scheduleTask(in: .milliseconds(1_100)) { record.note("late") }
        _ = loop.scheduleTask(in: .milliseconds(1_050)) { record.note("soon") }
        try await late.futureResult.get()
        #expect(record.all == ["soon", "late"])
        loop.stop()
    }

    @Test("deferred work runs in order; work that it defers runs in a later iteration")
    func deferredWork() async throws {
        let loop = try EpollLoop(name: "deferred")
        let record = Record()
        // The test waits with a continuation instead of submitted work. If the loop had used up its time slice, work
        // that the test submits would run after the deferred work, in an order that the test does not expect.
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            loop.execute {
                loop.deferWork {
                    record.note("first")
                    loop.deferWork {
                        record.note("third")
                        done.resume()
                    }
                    loop.execute { record.note("submitted") }
                }
                loop.deferWork { record.note("second") }
            }
        }
        #expect(record.all.count == 4)
        #expect(record.all.filter { $0 != "submitted" } == ["first", "second", "third"])
        #expect(record.all.last == "third")
        loop.stop()
    }

    @Test("work that is submitted while the loop stops runs")
    func stopping() async throws {
        let loop = try EpollLoop(name: "stopping")
        await withCheckedContinuation { done in
            loop.execute {
                loop.stop()
                loop.execute { done.resume() }
            }
        }
    }

    @Test("work that is submitted after the thread has ended is a fatal error")
    func stopped() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let loop = try EpollLoop(name: "stopped-loop")
            try await loop.submit {}.get()
            loop.stop()
            while try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").contains(where: { thread in
                (try? String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8)) == "stopped-loop\n"
            }) {
                await Task.yield()
            }
            loop.execute {}
        }
        let output = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(output.contains("an event loop has stopped"))
    }

    @Test("an actor can run on the loop")
    func actors() async throws {
        actor Counter {
            let loop: EpollLoop
            var count = 0
            init(_ loop: EpollLoop) { self.loop = loop }
            nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
            func add() -> Bool {
                count += 1
                return loop.inEventLoop
            }
        }
        let loop = try EpollLoop(name: "actor")
        let counter = Counter(loop)
        for _ in 0..<100 { #expect(await counter.add()) }
        #expect(await counter.count == 100)
        loop.stop()
    }

    @Test("events of a descriptor that is closed in the same iteration are dropped, even if its number is reused")
    func closedInSameIteration() async throws {
        final class Reader: EpollTarget {
            let (socket, record, name): (CInt, Record, String)
            var onReady: () -> Void = {}
            init(_ socket: CInt, _ record: Record, _ name: String) {
                (self.socket, self.record, self.name) = (socket, record, name)
            }
            override func ready(_ events: EpollEvents) {
                record.note(name)
                onReady()
            }
        }
        let epoll = try Epoll()
        let record = Record()
        var pairs: [[CInt]] = []
        for _ in 0..<2 {
            var ends: [CInt] = [-1, -1]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            pairs.append(ends)
        }
        let readers = [Reader(pairs[0][0], record, "first"), Reader(pairs[1][0], record, "second")]
        for (index, reader) in readers.enumerated() {
            try epoll.add(reader.socket, [.readable, .onEdges], reader)
            let other = readers[1 - index]
            reader.onReady = {
                // The reader that runs first closes the descriptor of the other reader. A new descriptor gets the
                // number of the closed one.
                epoll.forget(other.socket)
                // dup2 closes the descriptor and reuses its number in one call, so no descriptor of a concurrent test
                // gets the number.
                let next = dup2(pairs[index][1], other.socket)
                #expect(next == other.socket)
                let reader = Reader(next, record, "next")
                #expect(throws: Never.self) { try epoll.add(next, [.readable, .onEdges], reader) }
            }
            _ = [UInt8(1)].withUnsafeBytes { write(pairs[index][1], $0.baseAddress, 1) }
        }
        epoll.wait(atMost: 0)
        #expect(record.all == ["first"])
    }
}

@Suite("Timer queue")
struct TimerQueueTests {
    private func at(_ time: Int) -> NIODeadline { .uptimeNanoseconds(UInt64(time)) }

    @Test("due timers are returned in order of time, and in order of addition if their times are equal")
    func order() {
        var (queue, done) = (TimerQueue(), [Int]())
        for (index, time) in [30, 10, 20, 10, 40].enumerated() { _ = queue.add(at: at(time)) { done.append(index) } }
        #expect(queue.next == at(10))
        while let action = queue.takeDue(at: at(30)) { action() }
        #expect(done == [1, 3, 2, 0])
        #expect(queue.next == at(40))
    }

    @Test("a cancelled timer releases its action at once, and cancelled timers do not accumulate")
    func cancelled() {
        final class Owner {}
        var queue = TimerQueue()
        weak var released: Owner?
        let timer: TimerQueue.Timer
        do {
            let owner = Owner()
            released = owner
            timer = queue.add(at: at(1)) { withExtendedLifetime(owner) {} }
        }
        #expect(released != nil)
        queue.cancel(timer)
        #expect(released == nil)
        queue.cancel(timer)
        for time in 2..<10_000 { queue.cancel(queue.add(at: at(time)) {}) }
        #expect(queue.count < 200)
        var done = 0
        _ = queue.add(at: at(5)) { done += 1 }
        while let action = queue.takeDue(at: at(20_000)) { action() }
        #expect(done == 1)
        #expect(queue.count == 0)
    }
}
