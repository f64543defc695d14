import Synchronization
import TestSupport
import Testing

@testable import larderd

@Suite("Exit of an idle agent")
struct IdleExitTests {
    /// Simulates an agent until it exits. All times count from the start of the agent.
    /// - Parameters:
    ///   - clientLeaves: the time at which the only client disconnects; 0 for no client
    ///   - workUntil: the time until which work is due
    ///   - isPrevented: whether the first attempt to stop accepting connections fails, because a client has just
    ///     connected
    /// - Returns: the time at which the agent exits, and the number of its attempts to stop accepting connections
    private func end(
        clientLeaves: Duration, workUntil: Duration = .zero, isPrevented: Bool = false,
        log: LogRecorder = LogRecorder()
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
                return !isPrevented || stops.withLock { $0 } > 1
            }, clock: clock, logger: log.logger)
        await idleExit.wait()
        return (clock.now.offset, stops.withLock { $0 })
    }

    @Test("an agent without clients exits after the idle timeout and logs the reason")
    func idle() async {
        let log = LogRecorder()
        #expect(await end(clientLeaves: .zero, log: log) == (.seconds(900), 1))
        #expect(
            log.take().map(\.message) == [
                """
                no client was connected for 15 min and no work is due; the agent exits, and the socket starts it for the \
                next client
                """
            ])
        #expect(await end(clientLeaves: .seconds(1)) == (.seconds(901), 1))
        #expect(await end(clientLeaves: .seconds(5000)) == (.seconds(5900), 1))
    }

    @Test("work that is due soon, such as a poll, delays the exit, and the delay is logged once")
    func work() async {
        let log = LogRecorder()
        #expect(await end(clientLeaves: .zero, workUntil: .seconds(2000), log: log) == (.seconds(2040), 1))
        let messages = log.take().map(\.message)
        #expect(
            messages.first == "no client is connected, but the agent keeps running: namespace default polls its source")
        #expect(messages.count == 2)
    }

    @Test("a client that connects just before the exit prevents it")
    func clientJustBeforeExit() async {
        #expect(await end(clientLeaves: .zero, isPrevented: true) == (.seconds(960), 2))
    }
}
