import TestSupport
import Testing

@testable import LarderUpstream

@Suite("Reconnect plan")
struct ReconnectPlanTests {
    private static func plan(_ host: Int, window: Duration = .seconds(30)) -> ReconnectPlan {
        ReconnectPlan(window: window, firstFetchWindow: .seconds(2), seed: "host-\(host)\u{0}http://o/events")
    }

    @Test("after a connection that delivered a document, a host always waits for the same time, its splay")
    func stable() {
        var generator = SeededGenerator(seed: 1)
        for host in 0..<100 {
            var plan = Self.plan(host)
            #expect(plan.splay >= ReconnectPlan.minSplay && plan.splay < .seconds(30))
            for _ in 0..<10 { #expect(plan.delay(after: .delivered, using: &generator) == plan.splay) }
        }
        #expect(Self.plan(1).splay == .nanoseconds(6_248_038_977), "the splay has changed")
    }

    @Test("splays are spread evenly over the window, and none is below 0.5 s")
    func spread() {
        var seconds = Array(repeating: 0, count: 30)
        for host in 0..<6_000 { seconds[Int(Self.plan(host).splay.components.seconds)] += 1 }
        // 203 hosts are expected in each second except the first; 5 standard deviations of a binomial distribution are
        // 70.
        #expect(seconds.allSatisfy { $0 <= 273 }, "\(seconds)")
        #expect((0..<6_000).allSatisfy { Self.plan($0).splay >= .milliseconds(500) })
    }

    @Test("the splay is added to the delay that the source requests; that delay is limited to an hour")
    func floor() {
        var generator = SeededGenerator(seed: 2)
        var plan = Self.plan(1)
        #expect(plan.delay(after: .delivered, notBefore: .seconds(60), using: &generator) == .seconds(60) + plan.splay)
        #expect(
            plan.delay(after: .delivered, notBefore: .seconds(1e9), using: &generator) == .seconds(3_600) + plan.splay)
        #expect(plan.delay(after: .failed, notBefore: .seconds(60), using: &generator) >= .seconds(60))
    }

    @Test("waits after failures are random within a window that doubles, up to 5 minutes")
    func failures() {
        var generator = SeededGenerator(seed: 3)
        var longest = Array(repeating: Duration.zero, count: 6)
        for host in 0..<1_000 {
            var plan = Self.plan(host)
            for _ in 0..<2 {
                _ = plan.delay(after: .delivered, using: &generator)
                for step in longest.indices {
                    longest[step] = max(longest[step], plan.delay(after: .failed, using: &generator))
                }
            }
        }
        for (step, limit) in [30, 60, 120, 240, 300, 300].enumerated() {
            #expect(longest[step] <= .seconds(limit) && longest[step] > .seconds(limit) * 0.9)
        }
    }

    @Test("before the first connection, the first retry is within 2 s, or within a longer first-fetch window")
    func neverConnected() {
        var generator = SeededGenerator(seed: 4)
        for host in 0..<100 {
            var plan = Self.plan(host)
            #expect(plan.delay(after: .failed, using: &generator) <= .seconds(2))
            #expect(plan.delay(after: .failed, using: &generator) <= .seconds(4))
        }
        var slow = ReconnectPlan(window: .seconds(1), firstFetchWindow: .seconds(60), seed: "a")
        let waits = (0..<100).map { _ in slow.delay(after: .failed, using: &generator) }
        #expect(waits[0] <= .seconds(60) && (waits.max() ?? .zero) > .seconds(60))
    }

    @Test("the default window is 0.1 intervals, at most 30 s; with several endpoints a tenth of it, at least 1 s")
    func windows() {
        typealias Plan = ReconnectPlan
        #expect(Plan.window(nil, interval: .seconds(60)) == .seconds(6))
        #expect(Plan.window(nil, interval: .seconds(3_600)) == .seconds(30))
        #expect(Plan.window(.seconds(90), interval: .seconds(60)) == .seconds(90))
        #expect(Plan.window(.seconds(90), interval: .seconds(60), hasOtherEndpoints: true) == .seconds(9))
        #expect(Plan.window(nil, interval: .seconds(60), hasOtherEndpoints: true) == .seconds(1))
        #expect(Plan.window(.zero, interval: .seconds(60), hasOtherEndpoints: true) == .zero)
    }

    @Test("no value of the window causes a trap", arguments: [-1.0, 0, 1e-9, 1e9, 1e18])
    func extremes(_ seconds: Double) {
        var generator = SeededGenerator(seed: 5)
        var plan = ReconnectPlan(window: .seconds(seconds), firstFetchWindow: .seconds(seconds), seed: "")
        for end in [ReconnectPlan.End.failed, .delivered, .failed] {
            let delay = plan.delay(after: end, notBefore: .seconds(seconds), using: &generator)
            #expect(delay >= ReconnectPlan.minSplay)
        }
    }
}
