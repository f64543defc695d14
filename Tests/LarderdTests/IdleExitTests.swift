import Logging
import Synchronization
import Testing

@testable import larderd

@Suite("The end of an agent that nobody needs")
struct IdleExitTests {
    /// A clock on which each sleep is over at once, and the test says what has changed by then.
    private final class SteppedClock: Clock {
        struct Instant: InstantProtocol {
            var offset: Swift.Duration
            func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
            func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
            static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
        }

        private let time = Mutex(Swift.Duration.zero)
        let minimumResolution = Swift.Duration.nanoseconds(1)
        var now: Instant { Instant(offset: time.withLock { $0 }) }
        var elapsed: Swift.Duration { time.withLock { $0 } }

        func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
            try Task.checkCancellation()
            time.withLock { $0 = deadline.offset }
        }
    }

    /// An agent whose only client leaves at a time, and which has work until another.
    private func end(
        clientLeaves: Duration, workUntil: Duration = .zero, returns: Duration? = nil, log: LogLines = LogLines()
    ) async -> (time: Duration, stops: Int) {
        let clock = SteppedClock()
        let stops = Mutex(0)
        let idleExit = IdleExit(
            patience: .seconds(900), idleTime: { clock.elapsed < clientLeaves ? nil : clock.elapsed - clientLeaves },
            work: { within in
                #expect(within == .seconds(900))
                return clock.elapsed < workUntil ? "namespace default polls its source" : nil
            },
            stopAccepting: {
                stops.withLock { $0 += 1 }
                // Somebody came at the last moment, once.
                return returns == nil || stops.withLock { $0 } > 1
            }, clock: clock, logger: log.logger)
        await idleExit.wait()
        return (clock.elapsed, stops.withLock { $0 })
    }

    @Test("it comes when nobody was connected for the whole time, and is told")
    func idle() async {
        let log = LogLines()
        #expect(await end(clientLeaves: .zero, log: log) == (.seconds(900), 1))
        #expect(
            log.taken.map(\.message) == [
                "nobody was connected for 15 min and nothing is due: the agent ends, and the socket starts it again"
            ])
        #expect(await end(clientLeaves: .seconds(1)) == (.seconds(901), 1))
        #expect(await end(clientLeaves: .seconds(5000)) == (.seconds(5900), 1))
    }

    @Test("work that is due holds it up, which is told once")
    func work() async {
        let log = LogLines()
        #expect(await end(clientLeaves: .zero, workUntil: .seconds(2000), log: log) == (.seconds(2040), 1))
        let messages = log.taken.map(\.message)
        #expect(messages.first == "nobody is connected, but the agent stays: namespace default polls its source")
        #expect(messages.count == 2)
    }

    @Test("who connects at the last moment is served")
    func lastMoment() async {
        #expect(await end(clientLeaves: .zero, returns: .seconds(900)) == (.seconds(960), 2))
    }
}
