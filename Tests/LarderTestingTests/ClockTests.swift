import LarderClient
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import LarderTesting

@Suite("Test clock", .timeLimit(.minutes(15)))
struct ClockTests {
    private let clock = TestClock()

    @Test("sleeps end in the order of their deadlines when the clock passes them")
    func order() async throws {
        let clock = clock
        let (ended, end) = AsyncStream.makeStream(of: Int.self)
        let tasks = [3, 1, 2].map { seconds in
            Task {
                try await clock.sleep(for: .seconds(seconds))
                end.yield(seconds)
            }
        }
        try await clock.waitForSleepers(3)
        var iterator = ended.makeAsyncIterator()
        for seconds in 1...3 {
            clock.advance(by: .seconds(1))
            #expect(await iterator.next() == seconds)
        }
        for task in tasks { _ = await task.result }
        #expect(clock.now.offset == .seconds(3))
        #expect(clock.millisecondsSince1970 == TestClock().millisecondsSince1970 + 3000)
    }

    @Test("a cancelled sleep throws, and no longer counts as a sleeper")
    func cancellation() async throws {
        let clock = clock
        let task = Task { try await clock.sleep(for: .seconds(1)) }
        try await clock.waitForSleepers()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let other = Task { try await clock.sleep(for: .seconds(1)) }
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        await #expect(throws: Never.self) { try await other.value }
    }

    @Test("a sleep until a time that has passed ends at once")
    func past() async throws {
        clock.advance(by: .seconds(5))
        try await clock.sleep(until: TestClock.Instant(offset: .seconds(5)))
    }

    @Test("a wait for sleepers throws `cancelled` when its task is cancelled")
    func cancelledWait() async {
        let clock = clock
        let wait = Task { try await clock.waitForSleepers(2) }
        wait.cancel()
        let error = await #expect(throws: LarderClientError.self) { try await wait.value }
        #expect(error?.code == .cancelled)
    }

    @Test("a wait for sleepers that never sleep fails after its limit, with the numbers and advice")
    func limit() async {
        let error = await failure { () async throws(LarderClientError) in
            try await clock.waitForSleepers(2, within: .milliseconds(1))
        }
        #expect(error?.code == .timeout)
        #expect(error?.reason.contains("is 0, not 2, after 0.001 seconds") == true)
        #expect(error?.advice != nil)
    }

    @Test("a call that waits for a clock that stands still ends after a time on the clock of the machine")
    func callLimit() async {
        let connector = Connector(clock, callLimit: .milliseconds(1))
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        await withCheckedContinuation { continuation in
            _ = connector.schedule(loop, .hours(1)) { continuation.resume() }
        }
        #expect(clock.now.offset == .zero)
    }

    @Test("a timer that its event loop cancels does not fire, even if it is due")
    func cancelledTimer() async throws {
        let (clock, cancelled, due) = (clock, Count(), Count())
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        try await loop.submit {
            let deadline = clock.now.advanced(by: .seconds(1))
            let timer = clock.schedule({ cancelled.add() }, on: loop, at: deadline, for: cancelled)
            _ = clock.schedule({ due.add() }, on: loop, at: deadline, for: due)
            // The timers are due, but the event loop is busy.
            clock.advance(by: .seconds(1))
            timer.cancel()
        }.get()
        try await loop.submit {}.get()
        #expect(cancelled.value == 0 && due.value == 1)
    }

    private final class Count: Sendable {
        private let count = Atomic(0)

        var value: Int { count.load(ordering: .relaxed) }
        func add() { count.add(1, ordering: .relaxed) }
    }
}
