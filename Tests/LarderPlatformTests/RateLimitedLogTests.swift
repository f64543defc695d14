import LarderPlatform
import Synchronization
import TestSupport
import Testing

@Suite("Rate-limited log")
struct RateLimitedLogTests {
    /// A rate-limited log and the lines that it has written. Each event is a number, and combined events are a list of
    /// numbers.
    private final class Fixture {
        let clock = ManualClock()
        let log: RateLimitedLog<String, [Int]>
        private var lines: AsyncStream<String>.Iterator

        init(burst: Int = 1) {
            let (stream, continuation) = AsyncStream<String>.makeStream()
            lines = stream.makeAsyncIterator()
            log = RateLimitedLog(every: .seconds(10), burst: burst, clock: clock) { key, entry, count in
                continuation.yield("\(key) \(entry) \(count)")
            }
        }

        // Ends the timers of the log. Otherwise they would sleep until the end of all tests.
        deinit { log.reset() }

        var nextLine: String? { get async { await lines.next(isolation: #isolation) } }

        @discardableResult
        func add(_ number: Int, to key: String = "a") -> Bool {
            log.add(key) { $0 = ($0 ?? []) + [number] }
        }

        /// Waits until this number of timers sleep, then advances the clock to the end of their interval.
        func endInterval(of timers: Int = 1) async {
            await clock.waitForSleepers(timers)
            clock.advance(by: .seconds(10))
        }
    }

    @Test("the first event is written at once, and later ones are combined at the end of each interval")
    func combined() async {
        let fixture = Fixture()
        let isWritten = (1...4).map { fixture.add($0) }
        #expect(isWritten == [true, false, false, false])
        #expect(await fixture.nextLine == "a [1] 1")
        await fixture.endInterval()
        #expect(await fixture.nextLine == "a [2, 3, 4] 3")
        #expect(!fixture.add(5))
        await fixture.endInterval()
        #expect(await fixture.nextLine == "a [5] 1")
    }

    @Test("after an interval without events, the next event is written at once")
    func quiet() async {
        let fixture = Fixture()
        fixture.add(1)
        #expect(await fixture.nextLine == "a [1] 1")
        await fixture.endInterval()
        fixture.add(2)
        #expect(await fixture.nextLine == "a [2] 1")
    }

    @Test("events with different keys are limited separately and written in separate lines")
    func keys() async {
        let fixture = Fixture()
        for number in 1...3 { fixture.add(number) }
        #expect(fixture.add(1, to: "b"))
        #expect(await fixture.nextLine == "a [1] 1")
        #expect(await fixture.nextLine == "b [1] 1")
        await fixture.endInterval(of: 2)
        #expect(await fixture.nextLine == "a [2, 3] 2")
    }

    @Test("each event of a burst is written in its own line; a combined line counts towards the next burst")
    func burst() async {
        let fixture = Fixture(burst: 3)
        for number in 1...5 { #expect(fixture.add(number) == (number <= 3)) }
        for number in 1...3 { #expect(await fixture.nextLine == "a [\(number)] 1") }
        await fixture.endInterval()
        #expect(await fixture.nextLine == "a [4, 5] 2")
        for number in 6...8 { #expect(fixture.add(number) == (number <= 7)) }
    }

    @Test("flush writes the combined events, and the next event is written at once")
    func flush() async {
        let fixture = Fixture()
        for number in 1...3 { fixture.add(number) }
        fixture.log.flush()
        fixture.log.flush()
        #expect(fixture.add(4))
        for line in ["a [1] 1", "a [2, 3] 2", "a [4] 1"] { #expect(await fixture.nextLine == line) }
    }

    @Test("reset drops the combined events, and the next event is written at once")
    func reset() async {
        let fixture = Fixture()
        for number in 1...3 { fixture.add(number) }
        fixture.log.reset()
        #expect(fixture.add(4))
        #expect(!fixture.add(5))
        fixture.log.flush()
        for line in ["a [1] 1", "a [4] 1", "a [5] 1"] { #expect(await fixture.nextLine == line) }
    }

    /// A clock whose sleeps end only when their task is cancelled.
    private final class CancellationClock: Clock {
        let minimumResolution = Duration.zero
        private let sleeps = AsyncStream.makeStream(of: Void.self)
        private let handler = Mutex<(@Sendable () -> Void)?>(nil)

        var now: ContinuousClock.Instant { .now }

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            let (end, continuation) = AsyncStream.makeStream(of: Never.self)
            await withTaskCancellationHandler {
                sleeps.continuation.yield()
                for await _ in end {}
            } onCancel: {
                handler.withLock { $0.take() }?()
                continuation.finish()
            }
            throw CancellationError()
        }

        func waitForSleep() async { for await _ in sleeps.stream { return } }

        /// Sets a function that is called when the next sleep is cancelled.
        func onNextCancellation(_ function: @escaping @Sendable () -> Void) { handler.withLock { $0 = function } }
    }

    @Test("timers are cancelled without the lock, so that code that runs on their cancellation can use the log")
    func cancellation() async {
        let (lines, continuation) = AsyncStream<String>.makeStream()
        let clock = CancellationClock()
        let log = RateLimitedLog<String, Int>(every: .seconds(10), clock: clock) { key, entry, _ in
            continuation.yield("\(key) \(entry)")
        }
        log.add("a") { $0 = 1 }
        await clock.waitForSleep()
        clock.onNextCancellation { log.add("a") { $0 = 2 } }
        log.reset()
        log.add("a") { $0 = 3 }
        log.flush()
        continuation.finish()
        #expect(await lines.reduce(into: []) { $0.append($1) } == ["a 1", "a 2", "a 3"])
    }
}
