import TestSupport

@testable import LarderUpstream

/// Simulates, on a virtual clock, many hosts that report to one receiver, and counts the reports in each second. The hosts
/// run the `ReportPlan` of the agent.
struct ReportFleet {
    /// The response of the receiver to a report.
    enum Answer {
        case accepted
        case refusal(retryAfter: Duration?)
        /// No response. The host gives up after its timeout.
        case silence
    }

    private struct Host {
        var plan: ReportPlan
        /// When the report in flight ends without a response; nil if none is in flight.
        var timeout: Duration?
    }

    private enum Event {
        /// The plan of a host may be due.
        case wake(host: Int, at: Duration)
        case change(host: Int, at: Duration)
    }

    private(set) var load: [Int] = []
    private var hosts: [Host]
    private var generator: SeededGenerator
    private var calendar = FleetCalendar<Event>()

    private static let timeout = Duration.seconds(10)

    /// - Parameter boots: when each host starts
    init(
        count: Int, interval: Duration = .seconds(300), window: Duration = .seconds(60), seed: UInt64,
        boots: (inout SeededGenerator) -> Duration
    ) {
        generator = SeededGenerator(seed: seed)
        hosts = []
        hosts.reserveCapacity(count)
        for number in 0..<count {
            hosts.append(
                Host(
                    plan: ReportPlan(
                        interval: interval, window: window, seed: FleetHost.seed(number, seed),
                        startingAt: boots(&generator))))
            plan(number)
        }
    }

    /// Lets the content of the reports of all hosts change at times after `start`.
    mutating func change(at start: Duration, within spread: Duration = .zero) {
        for index in hosts.indices {
            let moment = start + .random(from: .zero, to: spread, using: &generator)
            calendar.add(.change(host: index, at: moment), at: moment)
        }
    }

    mutating func run(until end: Duration, receiver: (Duration) -> Answer) {
        for second in load.count..<Int(end / .seconds(1)) {
            load.append(0)
            while let event = calendar.next(in: second) {
                switch event {
                case .change(let index, let now):
                    hosts[index].plan.changed(at: now)
                    plan(index)
                case .wake(let index, let now): wake(index, now, receiver)
                }
            }
        }
    }

    private mutating func wake(_ index: Int, _ now: Duration, _ receiver: (Duration) -> Answer) {
        if hosts[index].timeout == now {
            hosts[index].timeout = nil
            return ended(index, .failed(retryAfter: nil), now)
        }
        // A change may have made the report earlier, and this event obsolete.
        guard hosts[index].plan.due == now else { return }
        load[load.count - 1] += 1
        hosts[index].plan.began(at: now)
        switch receiver(now) {
        case .accepted: ended(index, .accepted, now)
        case .refusal(let retryAfter): ended(index, .failed(retryAfter: retryAfter), now)
        case .silence:
            hosts[index].timeout = now + Self.timeout
            calendar.add(.wake(host: index, at: now + Self.timeout), at: now + Self.timeout)
        }
    }

    private mutating func ended(_ index: Int, _ end: ReportPlan.End, _ now: Duration) {
        hosts[index].plan.ended(end, at: now, time: FleetHost.start + now, using: &generator)
        plan(index)
    }

    private mutating func plan(_ index: Int) {
        guard let due = hosts[index].plan.due else { return }
        calendar.add(.wake(host: index, at: due), at: due)
    }
}
