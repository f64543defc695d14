import Logging
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import larderd

@Suite("Watchdog feeder")
struct WatchdogFeederTests {
    /// A watchdog feeder with two probes, `a` and `b`. Records the notifications to the watchdog and the requests to
    /// the probes. A probe in `blocked` responds only when the test calls `answer`. Other probes respond immediately.
    private final class Agent {
        let loop = EmbeddedEventLoop()
        let log = LogRecorder()
        /// The number of notifications that the watchdog has received.
        var fed = 0
        /// The number of requests to each probe.
        var requests: [String: Int] = [:]
        var blocked: Set<String> = []
        var waiting: [String: @Sendable () -> Void] = [:]
        /// The error with which notifications fail; nil if they succeed.
        var failure: (any Error)?

        func start() -> WatchdogFeeder {
            let feeder = WatchdogFeeder(
                on: loop, interval: .seconds(20), probes: { [unowned self] in ["a", "b"].map(probe) },
                feed: { [unowned self] in
                    if let failure { throw failure }
                    fed += 1
                }, logger: log.logger)
            feeder.start()
            loop.run()
            return feeder
        }

        private func probe(_ name: String) -> Probe {
            requests[name, default: 0] += 1
            // `Probe` takes a sendable closure, but everything runs on one thread here.
            nonisolated(unsafe) let agent = self
            return Probe(name: name) { responded in
                if agent.blocked.contains(name) { agent.waiting[name] = responded } else { responded() }
            }
        }

        func advance(_ seconds: Int64) { loop.advanceTime(by: .seconds(seconds)) }

        func answer(_ name: String) {
            waiting.removeValue(forKey: name)?()
            loop.run()
        }
    }

    @Test("while all probes respond, the watchdog is fed at the start and twice per interval, and nothing is logged")
    func healthy() {
        let agent = Agent()
        let feeder = agent.start()
        #expect(agent.fed == 1)
        agent.advance(9)
        #expect(agent.fed == 1)
        agent.advance(1)
        #expect(agent.fed == 2)
        for _ in 0..<10 { agent.advance(10) }
        #expect(agent.fed == 12)
        #expect(agent.requests == ["a": 12, "b": 12])
        #expect(agent.log.take() == [])
        feeder.stop()
        agent.advance(100)
        #expect(agent.fed == 12)
    }

    @Test("if a probe does not respond, the watchdog is not fed, and the log names the probe before the timeout")
    func blocked() {
        let agent = Agent()
        let feeder = agent.start()
        agent.blocked = ["b"]
        // Nothing is logged 14.9 s after the watchdog was last fed. The probe is logged after 15 s.
        agent.advance(10)
        agent.loop.advanceTime(by: .milliseconds(4_900))
        #expect(agent.log.take() == [])
        agent.loop.advanceTime(by: .milliseconds(100))
        let lines = agent.log.take()
        #expect(lines.map(\.level) == [.error])
        #expect(lines.first?.fields == ["probe": "b"])
        #expect(lines.first?.message.hasPrefix("no response for 5.0 s from b; ") == true)
        agent.advance(1000)
        #expect(agent.fed == 1)
        #expect(agent.log.take() == [])
        feeder.stop()
    }

    @Test("a late response of a probe is logged, and the watchdog is fed again")
    func late() {
        let agent = Agent()
        agent.blocked = ["a", "b"]
        let feeder = agent.start()
        agent.advance(6)
        #expect(agent.log.take().first?.fields == ["probe": "a, b"])
        agent.answer("b")
        #expect(agent.fed == 0)
        agent.blocked = []
        agent.answer("a")
        #expect(agent.fed == 1)
        #expect(agent.log.take().map(\.message) == ["all parts of the agent respond again, after 6.0 s"])
        agent.advance(10)
        #expect(agent.fed == 2)
        feeder.stop()
    }

    @Test("a late response to an earlier request of a probe does not count as a response to the current request")
    func answerToEarlierRound() {
        let agent = Agent()
        agent.blocked = ["a"]
        let feeder = agent.start()
        let answer = agent.waiting["a"]
        agent.answer("a")
        agent.advance(10)
        answer?()
        agent.loop.run()
        #expect(agent.fed == 1)
        agent.answer("a")
        #expect(agent.fed == 2)
        feeder.stop()
    }

    @Test("a failed notification to the service manager is logged and retried")
    func failedNotification() {
        struct Failure: Error {}
        let agent = Agent()
        agent.failure = Failure()
        let feeder = agent.start()
        #expect(agent.log.take().map(\.level) == [.warning])
        agent.failure = nil
        agent.advance(10)
        #expect(agent.fed == 1)
        feeder.stop()
    }
}
