import LarderEncoding
import TestSupport
import Testing

@testable import LarderUpstream

@Suite("Poll plan")
struct PollPlanTests {
    private static let minute = Duration.seconds(60)
    private static let start = Duration.seconds(1_700_000_000)

    /// Simulates a host that has a document and whose polls all fail.
    ///
    /// - Returns: the times of its polls
    private func requests(
        of host: String, interval: Duration = minute, count: Int, retryAfter: Duration? = nil,
        _ generator: inout SeededGenerator
    ) -> [Duration] {
        var plan = PollPlan(PollSchedule(interval: interval, seed: host))
        var now = Self.start
        return (0..<count).map { number in
            let event = PollPlan.Event.failed(holding: true, retryAfter: retryAfter)
            now += plan.delay(after: number == 0 ? .started(holding: true) : event, at: now, using: &generator)
            return now
        }
    }

    @Test("without a document, the first wait is within the first-fetch window, and the range of waits grows to 5 min")
    func firstFetch() {
        var generator = SeededGenerator(seed: 8)
        for number in 0..<100 {
            let schedule = PollSchedule(
                interval: .seconds(3_600), seed: "host-\(number)", firstFetchWindow: Self.minute)
            var plan = PollPlan(schedule)
            let first = plan.delay(after: .started(holding: false), at: Self.start, using: &generator)
            #expect(first == schedule.splay(within: Self.minute) && first < Self.minute)
            for ceiling in [60, 120, 240, 300] {
                let delay = plan.delay(
                    after: .failed(holding: false, retryAfter: nil), at: Self.start, using: &generator)
                #expect(delay <= .seconds(ceiling))
            }
        }
    }

    @Test("with neither a document nor a first-fetch window, the first poll is immediate, and its retry within 2 s")
    func immediateFirstPoll() {
        var generator = SeededGenerator(seed: 1)
        var plan = PollPlan(PollSchedule(interval: .seconds(3_600), seed: "a"))
        #expect(plan.delay(after: .started(holding: false), at: Self.start, using: &generator) == .zero)
        for ceiling in [2, 4, 8, 16] {
            let delay = plan.delay(after: .failed(holding: false, retryAfter: nil), at: Self.start, using: &generator)
            #expect(delay <= .seconds(ceiling))
        }
    }

    @Test("with a document, the first poll is at the host's scheduled time, which is the same at every start")
    func scheduledTime() {
        var generator = SeededGenerator(seed: 2)
        for number in 0..<100 {
            let schedule = PollSchedule(interval: Self.minute, seed: "host-\(number)")
            var moments: [Duration] = []
            for second in 0..<60 {
                var plan = PollPlan(schedule)
                let now = Self.start + .seconds(second)
                let delay = plan.delay(after: .started(holding: true), at: now, using: &generator)
                #expect(delay > .zero && delay <= Self.minute * 1.05)
                moments.append((now + delay - schedule.phase).remainder(by: Self.minute))
            }
            #expect(moments.allSatisfy { $0 <= Self.minute * 0.05 })
        }
    }

    @Test("a start with a document counts as a restart if the host has been up for more than 10 minutes")
    func restart() {
        #expect(PollPlan.start(holding: true, uptime: .seconds(601)) == .restarted)
        #expect(PollPlan.start(holding: true, uptime: .seconds(600)) == .started(holding: true))
        #expect(PollPlan.start(holding: false, uptime: .seconds(601)) == .started(holding: false))
    }

    @Test("after a restart, a stream connects at the host's offset in a tenth of the interval, 5 to 30 s")
    func connectionAfterRestart() {
        for (interval, window) in [(10, 5), (60, 6), (300, 30), (86_400, 30)] {
            let schedule = PollSchedule(interval: .seconds(interval), seed: "a", firstFetchWindow: .seconds(2))
            let delay = schedule.connectionDelay(after: .restarted)
            #expect(delay == schedule.splay(within: .seconds(window)))
        }
    }

    @Test("after a long poll without a response, a host polls at its offset in a tenth of the interval or in 0.5 s")
    func waitEnded() {
        var generator = SeededGenerator(seed: 9)
        for (interval, window) in [(60, Duration.seconds(6)), (1, .milliseconds(500))] {
            let schedule = PollSchedule(interval: .seconds(interval), seed: "a")
            var plan = PollPlan(schedule)
            let delay = plan.delay(after: .waitEnded, at: Self.start, using: &generator)
            #expect(delay == schedule.splay(within: window))
        }
    }

    @Test("after a first failure a host that has a document retries within half an interval, then only on schedule")
    func failures() {
        var generator = SeededGenerator(seed: 3)
        for number in 0..<100 {
            let phase = PollSchedule(interval: Self.minute, seed: "host-\(number)").phase
            let times = requests(of: "host-\(number)", count: 12, &generator)
            #expect(times[1] - times[0] >= Self.minute / 10 && times[1] - times[0] <= Self.minute / 2)
            for (before, after) in zip(times[1...], times[2...]) {
                #expect(after - before >= Self.minute / 4, "polled twice for one scheduled time")
                #expect(after - before <= .seconds(300) + Self.minute, "waited longer than 5 minutes and one interval")
                let deviation = (after - phase + Self.minute / 20).remainder(by: Self.minute)
                #expect(deviation <= Self.minute / 10, "polled at a time that is not scheduled")
            }
        }
    }

    @Test("a host with an interval of one day polls about every 10 minutes during an outage")
    func longInterval() {
        var generator = SeededGenerator(seed: 4)
        let times = requests(of: "a", interval: .seconds(86_400), count: 20, &generator)
        for (before, after) in zip(times[1...], times[2...]) { #expect(after - before <= .seconds(18 * 60)) }
    }

    @Test("the next poll is at the first scheduled time after Retry-After, which is limited to an hour")
    func retryAfter() {
        var generator = SeededGenerator(seed: 5)
        for seconds in [1, 30, 90, 3_600, 1_000_000] {
            let times = requests(of: "a", count: 5, retryAfter: .seconds(seconds), &generator)
            for (before, after) in zip(times, times.dropFirst()) {
                #expect(after - before >= .seconds(min(seconds, 3_600)))
                #expect(after - before <= .seconds(min(seconds, 3_600)) + Self.minute * 1.05)
            }
        }
    }

    @Test("a successful request resets the count of failures, even if the plan did not schedule the request")
    func success() {
        var generator = SeededGenerator(seed: 6)
        var plan = PollPlan(PollSchedule(interval: Self.minute, seed: "a"))
        for step in 0..<4 {
            for _ in 0..<3 {
                _ = plan.delay(after: .failed(holding: true, retryAfter: nil), at: Self.start, using: &generator)
            }
            if step % 2 == 0 {
                plan.forgetFailures()
            } else {
                _ = plan.delay(after: .answered, at: Self.start, using: &generator)
            }
            #expect(plan.failures == 0)
        }
    }

    @Test("no value of the interval causes a trap", arguments: [-1.0, 0, 1e-9, 1, 1e9, 1e18])
    func extremes(_ seconds: Double) {
        var generator = SeededGenerator(seed: 7)
        var plan = PollPlan(PollSchedule(interval: .seconds(seconds), seed: ""))
        let events: [PollPlan.Event] = [
            .started(holding: true), .restarted, .waitEnded, .failed(holding: true, retryAfter: nil), .reconfigured,
            .failed(holding: true, retryAfter: .seconds(-1)), .failed(holding: false, retryAfter: .seconds(1e18)),
            .failed(holding: true, retryAfter: nil), .unanswered, .answered,
        ]
        for event in events {
            #expect(plan.delay(after: event, at: Self.start, using: &generator) >= .zero)
        }
    }
}

extension Duration {
    /// Returns the remainder of the division by `span`. The remainder is never negative.
    fileprivate func remainder(by span: Duration) -> Duration {
        let rest = wholeNanoseconds % span.wholeNanoseconds
        return .nanoseconds(rest < 0 ? rest + span.wholeNanoseconds : rest)
    }
}
