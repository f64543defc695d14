import TestSupport

@testable import LarderUpstream

/// Simulates, on a virtual clock, many hosts that poll one origin, and counts the requests in each second. The hosts
/// run the `PollPlan` of the agent.
struct Fleet {
    /// The response of the origin to a request.
    enum Answer {
        case document
        /// An error response without delay. `retryAfter`: the value of its `Retry-After`; nil if the response has none.
        case refusal(retryAfter: Duration?)
        /// No response. The host gives up after its timeout.
        case silence
    }

    private struct Host {
        var plan: PollPlan
        var hasDocument: Bool
        /// When the host sends its next request or, if `isWaiting`, stops waiting for the response to its last one.
        var due = Duration.zero
        var isWaiting = false
        /// Whether the connection that the host reuses for its next request has been closed.
        var isConnectionClosed = false
        var lastAnswer: Duration?
    }

    /// The number of requests in each second.
    private(set) var load: [Int] = []
    /// The requests per second in steady state, in which each host polls once per interval.
    let mean: Double
    private let interval: Duration
    private var hosts: [Host]
    private var generator: SeededGenerator
    /// The hosts that are due.
    private var calendar = FleetCalendar<Int>()

    private static let timeout = Duration.seconds(10)

    /// - Parameters:
    ///   - boots: when each host starts
    ///   - hasDocument: whether hosts have a document from before the start
    ///   - firstFetchWindow: the time over which hosts without a document spread their first requests
    init(
        count: Int, interval: Duration = .seconds(60), hasDocument: Bool = false,
        firstFetchWindow: Duration = .seconds(2), seed: UInt64, boots: (inout SeededGenerator) -> Duration
    ) {
        self.interval = interval
        mean = Double(count) / (interval / .seconds(1))
        generator = SeededGenerator(seed: seed)
        let url = "https://config.example/\(seed).json"
        hosts = (0..<count).map { number in
            let schedule = PollSchedule(
                interval: interval, seed: "host-\(number)\u{0}\(url)", firstFetchWindow: firstFetchWindow)
            return Host(plan: PollPlan(schedule), hasDocument: hasDocument)
        }
        for index in hosts.indices {
            hosts[index].due = boots(&generator)
            plan(index, after: .started(holding: hasDocument))
        }
    }

    /// Runs the simulation until `end`.
    ///
    /// - Parameter origin: returns the response, given the time of the request and the number of requests in the same
    ///   second so far, including this one
    mutating func run(until end: Duration, origin: (Duration, Int) -> Answer) {
        for second in load.count..<Int(end / .seconds(1)) {
            load.append(0)
            while let index = calendar.next(in: second) { handle(index, origin) }
        }
    }

    /// Closes the connections that hosts reuse for their next requests. No host notices this before it sends a request.
    mutating func closeConnections() {
        for index in hosts.indices { hosts[index].isConnectionClosed = true }
    }

    /// Sends the next request of a host, or ends one that was not answered in time.
    private mutating func handle(_ index: Int, _ origin: (Duration, Int) -> Answer) {
        if hosts[index].isWaiting {
            hosts[index].isWaiting = false
            return plan(index, after: .failed(holding: hosts[index].hasDocument, retryAfter: nil))
        }
        load[load.count - 1] += 1
        if hosts[index].isConnectionClosed {
            // The host repeats the request over a new connection.
            hosts[index].isConnectionClosed = false
            load[load.count - 1] += 1
        }
        switch origin(hosts[index].due, load[load.count - 1]) {
        case .document:
            hosts[index].hasDocument = true
            hosts[index].lastAnswer = hosts[index].due
            plan(index, after: .answered)
        case .refusal(let retryAfter):
            plan(index, after: .failed(holding: hosts[index].hasDocument, retryAfter: retryAfter))
        case .silence:
            hosts[index].isWaiting = true
            hosts[index].due += Self.timeout
            add(index)
        }
    }

    private mutating func plan(_ index: Int, after event: PollPlan.Event) {
        hosts[index].due += hosts[index].plan.delay(
            after: event, at: FleetHost.start + hosts[index].due, using: &generator)
        add(index)
    }

    private mutating func add(_ index: Int) { calendar.add(index, at: hosts[index].due) }

    /// The highest average load in a window of `width` seconds, as a multiple of the mean. The windows follow each
    /// other from second `start` on.
    func peak(from start: Int, width: Int = 1) -> Double {
        let sums = stride(from: start, through: load.count - width, by: width).map {
            load[$0..<($0 + width)].reduce(0, +)
        }
        return Double(sums.max() ?? 0) / Double(width) / mean
    }

    /// The average load from second `start` on, as a multiple of the mean.
    func average(from start: Int) -> Double {
        Double(load[start...].reduce(0, +)) / Double(load.count - start) / mean
    }

    /// The time of the last successful request of the host whose last successful request is the oldest. Nil if a host
    /// has never received a document.
    var oldestAnswer: Duration? {
        hosts.contains { $0.lastAnswer == nil } ? nil : hosts.compactMap(\.lastAnswer).min()
    }
}
