import LarderTesting
import Synchronization
import Testing

@Suite("Test clock", .timeLimit(.minutes(5)))
struct ClockTests {
    private let clock = TestClock()

    @Test("sleeps end in the order of their deadlines when the clock passes them")
    func order() async {
        let clock = clock
        let (ended, end) = AsyncStream.makeStream(of: Int.self)
        let tasks = [3, 1, 2].map { seconds in
            Task {
                try await clock.sleep(for: .seconds(seconds))
                end.yield(seconds)
            }
        }
        await clock.waitForSleepers(3)
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
    func cancellation() async {
        let clock = clock
        let task = Task { try await clock.sleep(for: .seconds(1)) }
        await clock.waitForSleepers()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let other = Task { try await clock.sleep(for: .seconds(1)) }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        await #expect(throws: Never.self) { try await other.value }
    }

    @Test("a sleep until a time that has passed ends at once")
    func past() async throws {
        clock.advance(by: .seconds(5))
        try await clock.sleep(until: TestClock.Instant(offset: .seconds(5)))
    }
}
