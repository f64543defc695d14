import TestSupport

@testable import LarderUpstream

/// Many hosts that ask one origin, on a virtual clock. Each is driven by the plan that agents use; the requests are
/// counted by the second.
struct Fleet {
    /// What the origin does with a request.
    enum Answer {
        case document
        /// An error at once, with what it may say about coming back.
        case refusal(retryAfter: Duration?)
        /// Nothing; the host gives up after its timeout.
        case silence
    }

    private struct Host {
        var plan: PollPlan
        /// Whether it has a document to serve.
        var isHolding: Bool
        /// When it asks, or gives up.
        var due = Duration.zero
        var isWaiting = false
        var lastAnswer: Duration?
    }

    /// The requests in each second.
    private(set) var load: [Int] = []
    /// The load in steady state: by definition each host asks once in each interval.
    let mean: Double
    private let interval: Duration
    private var hosts: [Host]
    private var generator: SeededGenerator
    /// The hosts that are due, by second. Within a second they are in no order: they know nothing of each other.
    private var calendar: [[Int]] = []

    private static let timeout = Duration.seconds(10)
    /// 2023-11-14, so that nothing begins at a moment that schedules count from.
    private static let start = Duration.seconds(1_700_000_000)

    /// - Parameters:
    ///   - boots: when each host starts
    ///   - isHolding: whether hosts have a document from an earlier life
    ///   - firstFetchWindow: the time over which hosts without a document spread their first requests
    init(
        count: Int, interval: Duration = .seconds(60), isHolding: Bool = false,
        firstFetchWindow: Duration = .seconds(2), seed: UInt64, boots: (inout SeededGenerator) -> Duration
    ) {
        self.interval = interval
        mean = Double(count) / (interval / .seconds(1))
        generator = SeededGenerator(seed: seed)
        let url = "https://config.example/\(seed).json"
        hosts = (0..<count).map { number in
            let schedule = PollSchedule(
                interval: interval, seed: "host-\(number)\u{0}\(url)", firstFetchWindow: firstFetchWindow)
            return Host(plan: PollPlan(schedule), isHolding: isHolding)
        }
        for index in hosts.indices {
            hosts[index].due = boots(&generator)
            plan(index, after: .started(holding: isHolding))
        }
    }

    /// Lets time pass.
    ///
    /// - Parameter origin: told the moment of a request, and how many there were in this second
    mutating func run(until end: Duration, origin: (Duration, Int) -> Answer) {
        for second in load.count..<Int(end / .seconds(1)) {
            load.append(0)
            guard second < calendar.count else { continue }
            // What comes due in the second that runs is added behind.
            var next = 0
            while next < calendar[second].count {
                turn(calendar[second][next], origin)
                next += 1
            }
            calendar[second] = []
        }
    }

    private mutating func turn(_ index: Int, _ origin: (Duration, Int) -> Answer) {
        if hosts[index].isWaiting {
            hosts[index].isWaiting = false
            return plan(index, after: .failed(holding: hosts[index].isHolding, retryAfter: nil))
        }
        load[load.count - 1] += 1
        switch origin(hosts[index].due, load[load.count - 1]) {
        case .document:
            hosts[index].isHolding = true
            hosts[index].lastAnswer = hosts[index].due
            plan(index, after: .answered)
        case .refusal(let retryAfter):
            plan(index, after: .failed(holding: hosts[index].isHolding, retryAfter: retryAfter))
        case .silence:
            hosts[index].isWaiting = true
            hosts[index].due += Self.timeout
            enter(index)
        }
    }

    private mutating func plan(_ index: Int, after event: PollPlan.Event) {
        hosts[index].due += hosts[index].plan.delay(
            after: event, at: Self.start + hosts[index].due, using: &generator)
        enter(index)
    }

    private mutating func enter(_ index: Int) {
        let second = Int(hosts[index].due.components.seconds)
        if second >= calendar.count { calendar += Array(repeating: [], count: second + 600 - calendar.count) }
        calendar[second].append(index)
    }

    /// The most requests in so many seconds together, from a second on, in terms of the mean.
    func peak(from start: Int, width: Int = 1) -> Double {
        let sums = stride(from: start, through: load.count - width, by: width).map {
            load[$0..<($0 + width)].reduce(0, +)
        }
        return Double(sums.max() ?? 0) / Double(width) / mean
    }

    /// The load from a second on, in terms of the mean.
    func average(from start: Int) -> Double {
        Double(load[start...].reduce(0, +)) / Double(load.count - start) / mean
    }

    /// Since when every host has an answer; nil if one has none.
    var oldestAnswer: Duration? {
        hosts.contains { $0.lastAnswer == nil } ? nil : hosts.compactMap(\.lastAnswer).min()
    }
}
