import Logging
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import larderd

@Suite("The watchdog")
struct WatchdogFeederTests {
    /// Two probes, each of which answers at once or when the test lets it, and what came of that.
    private final class Agent {
        let loop = EmbeddedEventLoop()
        let log = LogRecorder()
        var fed = 0
        var asked: [String: Int] = [:]
        var deaf: Set<String> = []
        var waiting: [String: @Sendable () -> Void] = [:]
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
            asked[name, default: 0] += 1
            // Everything here is on one thread; what a probe is made of need not know.
            nonisolated(unsafe) let agent = self
            return Probe(name) { answered in
                if agent.deaf.contains(name) { agent.waiting[name] = answered } else { answered() }
            }
        }

        func pass(_ seconds: Int64) { loop.advanceTime(by: .seconds(seconds)) }

        func answer(_ name: String) {
            waiting.removeValue(forKey: name)?()
            loop.run()
        }
    }

    @Test("is fed at the start and twice in each interval while all answer, and the log has nothing of it")
    func healthy() {
        let agent = Agent()
        let feeder = agent.start()
        #expect(agent.fed == 1)
        agent.pass(9)
        #expect(agent.fed == 1)
        agent.pass(1)
        #expect(agent.fed == 2)
        for _ in 0..<10 { agent.pass(10) }
        #expect(agent.fed == 12)
        #expect(agent.asked == ["a": 12, "b": 12])
        #expect(agent.log.take() == [])
        feeder.stop()
        agent.pass(100)
        #expect(agent.fed == 12)
    }

    @Test("is not fed while one does not answer, which the log names before the service manager acts")
    func deaf() {
        let agent = Agent()
        let feeder = agent.start()
        agent.deaf = ["b"]
        // The last feeding was 14.9 s ago, then 15.
        agent.pass(10)
        agent.loop.advanceTime(by: .milliseconds(4_900))
        #expect(agent.log.take() == [])
        agent.loop.advanceTime(by: .milliseconds(100))
        let lines = agent.log.take()
        #expect(lines.map(\.level) == [.error])
        #expect(lines.first?.fields == ["probe": "b"])
        #expect(lines.first?.message.hasPrefix("no answer for 5.0 s from b; ") == true)
        agent.pass(1000)
        #expect(agent.fed == 1)
        #expect(agent.log.take() == [])
        feeder.stop()
    }

    @Test("an answer that comes late feeds it again, and is told")
    func late() {
        let agent = Agent()
        agent.deaf = ["a", "b"]
        let feeder = agent.start()
        agent.pass(6)
        #expect(agent.log.take().first?.fields == ["probe": "a, b"])
        agent.answer("b")
        #expect(agent.fed == 0)
        agent.deaf = []
        agent.answer("a")
        #expect(agent.fed == 1)
        #expect(agent.log.take().map(\.message) == ["all parts of the agent answer again, after 6.0 s"])
        agent.pass(10)
        #expect(agent.fed == 2)
        feeder.stop()
    }

    @Test("an answer to an earlier round is none to this one")
    func twice() {
        let agent = Agent()
        agent.deaf = ["a"]
        let feeder = agent.start()
        let answer = agent.waiting["a"]
        agent.answer("a")
        agent.pass(10)
        answer?()
        agent.loop.run()
        #expect(agent.fed == 1)
        agent.answer("a")
        #expect(agent.fed == 2)
        feeder.stop()
    }

    @Test("a service manager that cannot be told is a line in the log, and tried again")
    func unheard() {
        struct Gone: Error {}
        let agent = Agent()
        agent.failure = Gone()
        let feeder = agent.start()
        #expect(agent.log.take().map(\.level) == [.warning])
        agent.failure = nil
        agent.pass(10)
        #expect(agent.fed == 1)
        feeder.stop()
    }
}
