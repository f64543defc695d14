import Logging
import Synchronization
import TestSupport
import Testing

@testable import larderd

@Suite("The end of an agent that nobody needs")
struct IdleExitTests {
    /// An agent whose only client leaves at a time, and which has work until another.
    private func end(
        clientLeaves: Duration, workUntil: Duration = .zero, returns: Duration? = nil, log: LogRecorder = LogRecorder()
    ) async -> (time: Duration, stops: Int) {
        let clock = ImmediateClock()
        let stops = Mutex(0)
        let idleExit = IdleExit(
            idleTimeout: .seconds(900),
            idleTime: { clock.now.offset < clientLeaves ? nil : clock.now.offset - clientLeaves },
            work: { within in
                #expect(within == .seconds(900))
                return clock.now.offset < workUntil ? "namespace default polls its source" : nil
            },
            stopAccepting: {
                stops.withLock { $0 += 1 }
                // Somebody came at the last moment, once.
                return returns == nil || stops.withLock { $0 } > 1
            }, clock: clock, logger: log.logger)
        await idleExit.wait()
        return (clock.now.offset, stops.withLock { $0 })
    }

    @Test("it comes when nobody was connected for the whole time, and is told")
    func idle() async {
        let log = LogRecorder()
        #expect(await end(clientLeaves: .zero, log: log) == (.seconds(900), 1))
        #expect(
            log.take().map(\.message) == [
                "nobody was connected for 15 min and nothing is due: the agent ends, and the socket starts it again"
            ])
        #expect(await end(clientLeaves: .seconds(1)) == (.seconds(901), 1))
        #expect(await end(clientLeaves: .seconds(5000)) == (.seconds(5900), 1))
    }

    @Test("work that is due holds it up, which is told once")
    func work() async {
        let log = LogRecorder()
        #expect(await end(clientLeaves: .zero, workUntil: .seconds(2000), log: log) == (.seconds(2040), 1))
        let messages = log.take().map(\.message)
        #expect(messages.first == "nobody is connected, but the agent stays: namespace default polls its source")
        #expect(messages.count == 2)
    }

    @Test("who connects at the last moment is served")
    func lastMoment() async {
        #expect(await end(clientLeaves: .zero, returns: .seconds(900)) == (.seconds(960), 2))
    }
}
