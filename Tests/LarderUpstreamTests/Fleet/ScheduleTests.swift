import Foundation
import TestSupport
import Testing

@testable import LarderUpstream

@Suite("Backoff")
struct BackoffTests {
    @Test("waits are spread evenly between the floor and a ceiling that doubles with each failure, up to the cap")
    func ceilings() {
        var generator = SeededGenerator(seed: 1)
        let ceilings: [Duration] = [2, 4, 8, 16, 30, 30, 30].map { .seconds($0) }
        var waits: [[Duration]] = Array(repeating: [], count: ceilings.count)
        for _ in 0..<2_000 {
            var backoff = Backoff(floor: .seconds(1), base: .seconds(2), cap: .seconds(30))
            for step in ceilings.indices {
                #expect(backoff.ceiling == ceilings[step])
                waits[step].append(backoff.next(using: &generator))
            }
        }
        for (ceiling, waits) in zip(ceilings, waits) {
            #expect(waits.allSatisfy { $0 >= .seconds(1) && $0 <= ceiling })
            // Full jitter uses the whole range: the shortest, longest and mean wait of 2,000 are within a twentieth of
            // the range from its start, end and middle.
            let span = ceiling - .seconds(1)
            #expect(waits.min() ?? ceiling < .seconds(1) + span / 20)
            #expect(waits.max() ?? .zero > ceiling - span / 20)
            let mean = waits.reduce(.zero, +) / waits.count
            #expect(mean > .seconds(1) + span * 0.45 && mean < .seconds(1) + span * 0.55)
        }
    }

    @Test("after a reset, waits are as short as after a first failure")
    func reset() {
        var generator = SeededGenerator(seed: 2)
        var backoff = Backoff()
        let first = backoff.ceiling
        for _ in 0..<5 { _ = backoff.next(using: &generator) }
        #expect(backoff.failures == 5)
        backoff.reset()
        #expect(backoff.failures == 0)
        #expect(backoff.ceiling == first)
    }

    @Test("the wait is Retry-After, limited to a cap, plus a jitter of at most the same length")
    func retryAfter() {
        var generator = SeededGenerator(seed: 3)
        var waits: [Duration] = []
        for _ in 0..<100 {
            var backoff = Backoff(base: .seconds(2), cap: .seconds(90), retryAfterCap: .seconds(600))
            let wait = backoff.next(retryAfter: .seconds(60), using: &generator)
            #expect(wait >= .seconds(60) && wait <= .seconds(120))
            waits.append(wait)
            #expect(backoff.next(retryAfter: .seconds(1_000_000), using: &generator) <= .seconds(690))
            #expect(backoff.next(retryAfter: .seconds(-1), using: &generator) <= .seconds(8))
        }
        #expect(
            (waits.max() ?? .zero) - (waits.min() ?? .zero) > .seconds(40),
            "hosts with the same Retry-After are not spread")
    }

    @Test("contradictory parameters do not cause a trap", arguments: [-1.0, 0, 5, 1e9, 1e18])
    func extremes(_ seconds: Double) {
        var generator = SeededGenerator(seed: 4)
        for other in [-1.0, 0, 5, 1e9, 1e18] {
            var backoff = Backoff(
                floor: .seconds(seconds), base: .seconds(other), cap: .seconds(seconds), retryAfterCap: .seconds(other))
            for _ in 0..<200 { #expect(backoff.next(retryAfter: .seconds(other), using: &generator) >= .zero) }
        }
    }
}

@Suite("Poll schedule")
struct PollScheduleTests {
    private let minute = Duration.seconds(60)

    @Test("the phase of a host (its time within the interval) is the same in every process and every version")
    func stable() {
        #expect(PollSchedule(interval: minute, seed: "host-1|http://o/c").phase == .nanoseconds(53_175_902_703))
    }

    @Test("the phases of hosts whose names differ in few characters are spread evenly over the interval")
    func spread() {
        var buckets = Array(repeating: 0, count: 60)
        for host in 0..<6_000 {
            let schedule = PollSchedule(interval: minute, seed: "host-\(host)|http://origin.example/config")
            #expect(schedule.phase >= .zero && schedule.phase < minute)
            buckets[Int(schedule.phase.components.seconds)] += 1
        }
        // 100 hosts are expected in each second; 5 standard deviations of a binomial distribution are 50.
        #expect(buckets.allSatisfy { (50...150).contains($0) }, "\(buckets)")
    }

    @Test("a host polls once per interval, within the jitter of its scheduled time")
    func intervals() {
        var generator = SeededGenerator(seed: 5)
        let schedule = PollSchedule(interval: minute, seed: "a", jitter: 0.1)
        var now = Duration.seconds(1_700_000_000)
        var slots: Set<Int64> = []
        for _ in 0..<1_000 {
            let delay = schedule.delay(after: now, using: &generator)
            #expect(delay >= minute / 4 && delay <= minute * 7 / 4)
            now += delay
            let offset = now - schedule.phase
            let slot = (offset + minute / 2).components.seconds / 60
            #expect(slots.insert(slot).inserted, "polled twice in one interval")
            let deviation = offset - .seconds(slot * 60)
            #expect(deviation >= .zero - minute / 10 && deviation <= minute / 10)
        }
        #expect((slots.max() ?? 0) - (slots.min() ?? 0) == 999, "an interval was skipped")
    }

    @Test("hosts that start in the same second do not poll in the same second")
    func herd() {
        var generator = SeededGenerator(seed: 6)
        var seconds = Array(repeating: 0, count: 120)
        for host in 0..<6_000 {
            let schedule = PollSchedule(interval: minute, seed: "host-\(host)")
            let delay = schedule.delay(after: .seconds(1_700_000_000), using: &generator)
            seconds[Int(delay.components.seconds)] += 1
        }
        #expect(seconds.max() ?? 0 < 160)
    }

    @Test("a host's splay is within the window and never changes")
    func splay() {
        let schedule = PollSchedule(interval: minute, seed: "a")
        let splay = schedule.splay(within: .seconds(10))
        #expect(splay >= .zero && splay < .seconds(10))
        #expect(splay == PollSchedule(interval: minute * 2, seed: "a").splay(within: .seconds(10)))
        #expect(schedule.splay(within: .zero) == .zero)
    }

    @Test("no parameter value causes a trap", arguments: [-1.0, 0, 1e-9, 1e9, 1e18])
    func extremes(_ seconds: Double) {
        var generator = SeededGenerator(seed: 7)
        for jitter in [-1, 0, 0.25, 99, .infinity] {
            let schedule = PollSchedule(interval: .seconds(seconds), seed: "", jitter: jitter)
            #expect(schedule.delay(after: .seconds(1_700_000_000), using: &generator) > .zero)
            #expect(schedule.delay(after: .zero, using: &generator) > .zero)
        }
    }
}
