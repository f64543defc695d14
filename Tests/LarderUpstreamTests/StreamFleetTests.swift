import TestSupport
import Testing

@testable import LarderUpstream

/// Many hosts that keep a connection to one origin, and ask it now and then besides: each is driven by the plan and the
/// backoff that agents use.
private struct StreamFleet {
    private enum Timer {
        case poll
        case connection
    }

    private struct Host {
        var schedule: PollSchedule
        var plan: PollPlan
        var backoff = Backoff()
        var isConnected = false
    }

    /// The requests in each second, connections included.
    private(set) var load: [Int] = []
    /// The load of one connection and one question in each interval.
    let mean: Double
    private var hosts: [Host]
    private var generator: SeededGenerator
    private var calendar: [[(host: Int, timer: Timer, due: Duration)]] = []

    private static let start = Duration.seconds(1_700_000_000)

    init(count: Int, interval: Duration, boot: Duration, seed: UInt64) {
        mean = 2 * Double(count) / (interval / .seconds(1))
        generator = SeededGenerator(seed: seed)
        hosts = (0..<count).map { number in
            let schedule = PollSchedule(interval: interval, seed: "host-\(number)\u{0}https://config.example/\(seed)")
            return Host(schedule: schedule, plan: PollPlan(schedule))
        }
        for index in hosts.indices {
            let poll = hosts[index].plan.delay(
                after: .started(holding: true), at: Self.start + boot, using: &generator)
            enter(index, .poll, at: boot + poll)
            enter(index, .connection, at: boot + hosts[index].schedule.connectionDelay(after: .started(holding: true)))
        }
    }

    /// Lets time pass.
    ///
    /// - Parameter outage: when the origin is out; all connections break when it begins
    mutating func run(until end: Duration, outage: Range<Duration>, retryAfter: (Duration) -> Duration?) {
        for second in load.count..<Int(end / .seconds(1)) {
            load.append(0)
            if second == Int(outage.lowerBound / .seconds(1)) {
                for index in hosts.indices where hosts[index].isConnected {
                    hosts[index].isConnected = false
                    hosts[index].backoff.reset()
                    reconnect(index, at: outage.lowerBound, nil)
                }
            }
            guard second < calendar.count else { continue }
            var next = 0
            while next < calendar[second].count {
                turn(calendar[second][next], outage, retryAfter)
                next += 1
            }
            calendar[second] = []
        }
    }

    private mutating func turn(
        _ entry: (host: Int, timer: Timer, due: Duration), _ outage: Range<Duration>,
        _ retryAfter: (Duration) -> Duration?
    ) {
        load[load.count - 1] += 1
        let isOut = outage.contains(entry.due)
        switch entry.timer {
        case .poll:
            let delay = hosts[entry.host].plan.delay(
                after: isOut ? .unanswered : .answered, at: Self.start + entry.due, using: &generator)
            enter(entry.host, .poll, at: entry.due + delay)
        case .connection:
            hosts[entry.host].isConnected = !isOut
            if isOut { reconnect(entry.host, at: entry.due, retryAfter(entry.due)) }
        }
    }

    private mutating func reconnect(_ index: Int, at now: Duration, _ retryAfter: Duration?) {
        let delay = hosts[index].backoff.next(retryAfter: retryAfter, using: &generator)
        enter(index, .connection, at: now + delay)
    }

    private mutating func enter(_ index: Int, _ timer: Timer, at due: Duration) {
        let second = Int(due.components.seconds)
        if second >= calendar.count { calendar += Array(repeating: [], count: second + 600 - calendar.count) }
        calendar[second].append((index, timer, due))
    }

    var areAllConnected: Bool { hosts.allSatisfy(\.isConnected) }

    /// The most requests in one second, from a second on, in terms of the mean.
    func peak(from start: Int) -> Double { Double(load[start...].max() ?? 0) / mean }
}

@Suite("A fleet of 10,000 hosts that keep a connection")
struct StreamFleetTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The second in which all hosts boot.
        var boot = 0
        var retryAfter: @Sendable (Duration) -> Duration? = { _ in nil }

        static let all = [
            Case(testDescription: "that lost it at once"),
            Case(testDescription: "that were told the end of the outage") { .seconds(1_200) - $0 },
            Case(testDescription: "that were told to come back in 30 seconds") { _ in .seconds(30) },
            Case(testDescription: "that booted in the same second of the outage", boot: 900),
            Case(testDescription: "that booted in the second of the origin's return", boot: 1_200),
        ]
    }

    @Test("after an outage of 10 minutes no second carries more than 3 times the mean load", arguments: Case.all)
    func outage(_ given: Case) {
        let seed = SeededGenerator.randomSeed
        var fleet = StreamFleet(count: 10_000, interval: .seconds(300), boot: .seconds(given.boot), seed: seed)
        fleet.run(
            until: .seconds(2_400), outage: .seconds(600)..<(.seconds(1_200)), retryAfter: given.retryAfter)
        #expect(fleet.peak(from: 1_200) <= 3, "seed \(seed)")
        #expect(fleet.areAllConnected, "seed \(seed)")
    }
}
