import TestSupport

@testable import LarderUpstream

/// Simulates, on a virtual clock, many hosts that send long polls to one origin through a load balancer, and counts the
/// requests in each second. The hosts run the `PollPlan` of the agent.
struct LongPollFleet {
    private struct Host {
        var plan: PollPlan
        /// Whether a long poll is in progress.
        var isAwaiting = false
        /// The number of the next event of the host. Earlier events are void.
        var next = 0
    }

    private struct Entry {
        let host: Int
        let number: Int
        let due: Duration
    }

    /// The number of requests in each second.
    private(set) var load: [Int] = []
    private var hosts: [Host]
    private var generator: SeededGenerator
    /// Polls, and the ends of long polls.
    private var calendar = FleetCalendar<Entry>()

    /// The origin responds to a long poll after this time.
    private static let wait = Duration.seconds(60)

    /// Makes hosts that have a document and whose long polls began at different times.
    init(count: Int, interval: Duration, seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        hosts = (0..<count).map { number in
            Host(
                plan: PollPlan(PollSchedule(interval: interval, seed: FleetHost.seed(number, seed))), isAwaiting: true)
        }
        for index in hosts.indices { add(index, at: .random(from: .zero, to: Self.wait, using: &generator)) }
    }

    /// Runs the simulation until `end`.
    ///
    /// - Parameter outage: when no request is served. All long polls end without a response when it begins.
    mutating func run(until end: Duration, outage: Range<Duration>) {
        for second in load.count..<Int(end / .seconds(1)) {
            load.append(0)
            if second == Int(outage.lowerBound / .seconds(1)) { cut(at: outage.lowerBound) }
            while let entry = calendar.next(in: second) { handle(entry, outage) }
        }
    }

    private mutating func cut(at now: Duration) {
        for index in hosts.indices where hosts[index].isAwaiting {
            hosts[index].isAwaiting = false
            plan(index, after: .waitEnded, at: now)
        }
    }

    private mutating func handle(_ entry: Entry, _ outage: Range<Duration>) {
        guard entry.number == hosts[entry.host].next else { return }
        if !hosts[entry.host].isAwaiting {
            load[load.count - 1] += 1
            if outage.contains(entry.due) {
                return plan(entry.host, after: .failed(holding: true, retryAfter: nil), at: entry.due)
            }
        }
        // A long poll follows the poll or the previous long poll at once.
        load[load.count - 1] += 1
        hosts[entry.host].isAwaiting = true
        let delay = hosts[entry.host].plan.delay(after: .waited, at: FleetHost.start + entry.due, using: &generator)
        add(entry.host, at: entry.due + delay + Self.wait)
    }

    private mutating func plan(_ index: Int, after event: PollPlan.Event, at now: Duration) {
        add(index, at: now + hosts[index].plan.delay(after: event, at: FleetHost.start + now, using: &generator))
    }

    private mutating func add(_ index: Int, at due: Duration) {
        hosts[index].next += 1
        calendar.add(Entry(host: index, number: hosts[index].next, due: due), at: due)
    }
}
