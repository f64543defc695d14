import TestSupport

@testable import LarderUpstream

/// Simulates, on a virtual clock, many hosts that keep a connection to one source and also poll the source. The hosts
/// run the `PollPlan` and `ReconnectPlan` of the agent.
struct StreamFleet {
    private enum Timer {
        case poll
        case connection
    }

    private struct Host {
        var schedule: PollSchedule
        var poll: PollPlan
        var reconnect: ReconnectPlan
        var isConnected = false
        /// The number of connections planned so far. Only the last one is made.
        var planned = 0
    }

    /// The number of requests in each second: connections and polls.
    private(set) var load: [Int] = []
    private var hosts: [Host]
    private var generator: SeededGenerator
    private var calendar = FleetCalendar<Entry>()

    private struct Entry {
        let host: Int
        let timer: Timer
        let due: Duration
        /// The number of a planned connection.
        var number = 0
    }

    /// - Parameters:
    ///   - window: the time over which hosts spread their first attempts after a connection has ended; nil for the
    ///     default
    ///   - boot: when all hosts start; each has a document from before the start
    ///   - event: why they start
    init(
        count: Int, interval: Duration, window: Duration? = nil, hasOtherEndpoints: Bool = false,
        boot: Duration = .zero, after event: PollPlan.Event = .started(holding: true), seed: UInt64
    ) {
        generator = SeededGenerator(seed: seed)
        let window = ReconnectPlan.window(window, interval: interval, hasOtherEndpoints: hasOtherEndpoints)
        hosts = (0..<count).map { number in
            let seed = FleetHost.seed(number, seed)
            let schedule = PollSchedule(interval: interval, seed: seed, firstFetchWindow: .seconds(2))
            return Host(
                schedule: schedule, poll: PollPlan(schedule),
                reconnect: ReconnectPlan(window: window, firstFetchWindow: .seconds(2), seed: seed))
        }
        for index in hosts.indices {
            let poll = hosts[index].poll.delay(after: event, at: FleetHost.start + boot, using: &generator)
            add(index, .poll, at: boot + poll)
            add(index, .connection, at: boot + hosts[index].schedule.connectionDelay(after: event))
        }
    }

    /// Runs the simulation until `end`.
    ///
    /// - Parameters:
    ///   - outage: when the source is unavailable; all connections end when it begins
    ///   - retryAfter: returns the `Retry-After` of a connection attempt during the outage, given its time
    mutating func run(
        until end: Duration, outage: Range<Duration>, retryAfter: (Duration) -> Duration? = { _ in nil }
    ) {
        for second in load.count..<Int(end / .seconds(1)) {
            load.append(0)
            if second == Int(outage.lowerBound / .seconds(1)) { cut(at: outage.lowerBound) }
            while let entry = calendar.next(in: second) { handle(entry, outage, retryAfter) }
        }
    }

    private mutating func cut(at now: Duration) {
        for index in hosts.indices where hosts[index].isConnected {
            hosts[index].isConnected = false
            reconnect(index, after: .delivered, at: now, nil)
        }
    }

    private mutating func handle(
        _ entry: Entry, _ outage: Range<Duration>, _ retryAfter: (Duration) -> Duration?
    ) {
        let isDuringOutage = outage.contains(entry.due)
        switch entry.timer {
        case .poll:
            // A poll ends the wait for the next connection, and uses the document that is read over it. If there is no
            // connection, the poll is a second request.
            let isConnected = hosts[entry.host].isConnected
            if isConnected || isDuringOutage { load[load.count - 1] += 1 }
            if !isConnected { connect(entry, isDuringOutage, retryAfter) }
            let delay = hosts[entry.host].poll.delay(
                after: isDuringOutage ? .unanswered : .answered, at: FleetHost.start + entry.due, using: &generator)
            add(entry.host, .poll, at: entry.due + delay)
        case .connection:
            if entry.number == hosts[entry.host].planned { connect(entry, isDuringOutage, retryAfter) }
        }
    }

    private mutating func connect(_ entry: Entry, _ isDuringOutage: Bool, _ retryAfter: (Duration) -> Duration?) {
        load[load.count - 1] += 1
        hosts[entry.host].planned += 1
        hosts[entry.host].isConnected = !isDuringOutage
        if isDuringOutage { reconnect(entry.host, after: .failed, at: entry.due, retryAfter(entry.due)) }
    }

    private mutating func reconnect(
        _ index: Int, after end: ReconnectPlan.End, at now: Duration, _ retryAfter: Duration?
    ) {
        let delay = hosts[index].reconnect.delay(after: end, notBefore: retryAfter, using: &generator)
        add(index, .connection, at: now + delay)
    }

    private mutating func add(_ index: Int, _ timer: Timer, at due: Duration) {
        var entry = Entry(host: index, timer: timer, due: due)
        if timer == .connection {
            hosts[index].planned += 1
            entry.number = hosts[index].planned
        }
        calendar.add(entry, at: due)
    }

    var areAllConnected: Bool { hosts.allSatisfy(\.isConnected) }
}
