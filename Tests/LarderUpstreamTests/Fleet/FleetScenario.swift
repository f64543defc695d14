@testable import LarderUpstream

/// A situation of a fleet of hosts, such as an outage of their source, with limits on the requests in its busiest
/// second. `contrib/fleet.sh` compiles this file, the simulations and the polling code of the agent into a separate
/// program.
struct FleetScenario: Sendable {
    /// The busiest second in one part of the scenario.
    struct Figure {
        let part: String
        let peak: Int
        /// The number of requests divided by the seconds over which they are meant to spread.
        let mean: Double
        /// The maximum peak, as a multiple of the mean.
        let limit: Double

        init(_ part: String, _ load: some Collection<Int>, mean: Double, limit: Double) {
            self.part = part
            self.mean = mean
            self.limit = limit
            peak = load.max() ?? 0
        }

        var ratio: Double { Double(peak) / mean }

        /// Whether the peak is within the limit plus five standard deviations, because the peak varies at random. In
        /// large fleets the deviations are negligible.
        var isWithinLimit: Bool { Double(peak) <= limit * mean + 5 * (limit * mean).squareRoot() }
    }

    let name: String
    /// Simulates `count` hosts.
    let run: @Sendable (_ count: Int, _ seed: UInt64) -> [Figure]

    static let all =
        outages.map(polling) + [closedConnections] + [0, 3, 10].map(longPolling) + [
            upgrade, cut(hasOtherEndpoints: false), cut(hasOtherEndpoints: true),
        ]
        + outages.map { streaming($0, hasOtherEndpoints: false) }
        + outages.map { streaming($0, hasOtherEndpoints: true) } + [powerUp(2), powerUp(60), overload]
        + [3, 60, 600].map(reporting) + [rollout(within: 0), rollout(within: 60), rollout(within: 0, outage: 60)]

    private static let outages = [3, 10, 60, 600]
    /// The number of hosts that are simulated at a time. A million at a time would need too much memory.
    private static let batch = 100_000

    /// Simulates `count` hosts in batches and adds up their loads. Hosts do not influence each other.
    private static func load(_ count: Int, _ seed: UInt64, _ simulate: (_ count: Int, _ seed: UInt64) -> [Int]) -> [Int]
    {
        var sum: [Int] = []
        for (number, first) in stride(from: 0, to: count, by: batch).enumerated() {
            let load = simulate(min(batch, count - first), seed &+ UInt64(number))
            sum = sum.isEmpty ? load : zip(sum, load).map { $0 + $1 }
        }
        return sum
    }

    // MARK: Polls

    private static func polling(_ outage: Int) -> FleetScenario {
        FleetScenario(name: "polls every 60 s, outage of \(outage) s") { count, seed in
            let (start, end) = (180, 180 + outage)
            let load = load(count, seed) { count, seed in
                var fleet = Fleet(count: count, hasDocument: true, seed: seed) {
                    .random(from: .zero, to: .seconds(60), using: &$0)
                }
                fleet.run(until: .seconds(end + 720)) { now, _ in
                    (start..<end).contains(Int(now.components.seconds)) ? .refusal(retryAfter: nil) : .document
                }
                return fleet.load
            }
            let mean = Double(count) / 60
            return [
                Figure("during", load[start..<end], mean: mean, limit: 2.1),
                Figure("after", load[end...], mean: mean, limit: 2.1),
                Figure("10 minutes after", load[(end + 600)...], mean: mean, limit: 1.1),
            ]
        }
    }

    /// A load balancer is restarted while hosts reuse their connections, which are kept for 15 s after a request.
    private static let closedConnections = FleetScenario(
        name: "polls every 10 s over reused connections, restart of a load balancer"
    ) { count, seed in
        let start = 60
        let load = load(count, seed) { count, seed in
            var fleet = Fleet(count: count, interval: .seconds(10), hasDocument: true, seed: seed) {
                .random(from: .zero, to: .seconds(10), using: &$0)
            }
            fleet.run(until: .seconds(start)) { _, _ in .document }
            fleet.closeConnections()
            fleet.run(until: .seconds(start + 60)) { _, _ in .document }
            return fleet.load
        }
        return [Figure("after", load[start...], mean: Double(count) / 10, limit: 2.1)]
    }

    /// A load balancer is restarted, which ends all long polls. Each host then sends a poll and the next long poll.
    private static func longPolling(_ outage: Int) -> FleetScenario {
        FleetScenario(name: "long polls, interval of 60 s, restart of a load balancer within \(outage) s") {
            count, seed in
            let start = 120
            let load = load(count, seed) { count, seed in
                var fleet = LongPollFleet(count: count, interval: .seconds(60), seed: seed)
                fleet.run(until: .seconds(start + 300), outage: .seconds(start)..<(.seconds(start + outage)))
                return fleet.load
            }
            return [Figure("after", load[start...], mean: Double(count) / 6, limit: 2.1)]
        }
    }

    // MARK: Streams

    private static func streams(
        _ count: Int, _ seed: UInt64, outage: Int, hasOtherEndpoints: Bool = false
    ) -> (start: Int, load: [Int]) {
        let start = 400
        let load = load(count, seed) { count, seed in
            var fleet = StreamFleet(
                count: count, interval: .seconds(300), hasOtherEndpoints: hasOtherEndpoints, seed: seed)
            fleet.run(
                until: .seconds(start + outage + 400), outage: .seconds(start)..<(.seconds(start + outage)))
            return fleet.load
        }
        return (start, load)
    }

    /// All agents are restarted in the same second, while their hosts keep running.
    private static let upgrade = FleetScenario(name: "agents with streams upgraded at the same moment") { count, seed in
        let load = load(count, seed) { count, seed in
            var fleet = StreamFleet(count: count, interval: .seconds(300), after: .restarted, seed: seed)
            fleet.run(until: .seconds(330), outage: .zero ..< .zero)
            return fleet.load
        }
        return [
            Figure("first 30 s", load[..<30], mean: Double(count) / 30, limit: 2.1),
            Figure("after", load[30...], mean: Double(count) / 300, limit: 2.1),
        ]
    }

    private static func cut(hasOtherEndpoints: Bool) -> FleetScenario {
        let window = hasOtherEndpoints ? 3 : 30
        let endpoint = hasOtherEndpoints ? "another endpoint, " : ""
        return FleetScenario(name: "streams cut at the same moment, \(endpoint)window of \(window) s") {
            let (start, load) = streams($0, $1, outage: 0, hasOtherEndpoints: hasOtherEndpoints)
            return [Figure("after", load[start...], mean: Double($0) / Double(window), limit: 5)]
        }
    }

    private static func streaming(_ outage: Int, hasOtherEndpoints: Bool) -> FleetScenario {
        let window = hasOtherEndpoints ? 3 : 30
        let endpoint = hasOtherEndpoints ? " of all endpoints" : ""
        return FleetScenario(name: "streams, outage\(endpoint) of \(outage) s, window of \(window) s") {
            let (start, load) = streams($0, $1, outage: outage, hasOtherEndpoints: hasOtherEndpoints)
            let mean = Double($0) / Double(window)
            return [
                Figure("during", load[start..<(start + outage)], mean: mean, limit: 5),
                Figure("after", load[(start + outage)...], mean: mean, limit: 3),
            ]
        }
    }

    // MARK: Power-up

    private static func powerUp(_ window: Int) -> FleetScenario {
        FleetScenario(name: "power-up with an empty cache, window of \(window) s") { count, seed in
            let load = load(count, seed) { count, seed in
                var fleet = Fleet(
                    count: count, interval: .seconds(300), firstFetchWindow: .seconds(window), seed: seed
                ) { _ in .zero }
                fleet.run(until: .seconds(300)) { _, _ in .document }
                return fleet.load
            }
            let isComplete = load[..<window].reduce(0, +) == count
            let mean = Double(count) / Double(window)
            return [
                Figure("first requests", load[..<window], mean: mean, limit: isComplete ? 3 : 0),
                Figure("polls that follow", load[window...], mean: Double(count) / 300, limit: 2.1),
            ]
        }
    }

    /// A source that serves only half the rate at which hosts send their first requests, and rejects the rest.
    private static let overload = FleetScenario(
        name: "power-up with an empty cache, window of 2 s, the source serves half of that rate"
    ) { count, seed in
        var fleet = Fleet(count: count, interval: .seconds(300), seed: seed) { _ in .zero }
        let capacity = count / 4
        fleet.run(until: .seconds(300)) { _, number in number > capacity ? .refusal(retryAfter: nil) : .document }
        let limit: Double = fleet.oldestAnswer == nil ? 0 : 3
        return [Figure("all requests", fleet.load, mean: Double(count) / 2, limit: limit)]
    }

    // MARK: Reports

    private static func reports(
        _ count: Int, _ seed: UInt64, rollout: (start: Int, spread: Int)? = nil, outage: Range<Int>, until end: Int
    ) -> [Int] {
        load(count, seed) { count, seed in
            var fleet = ReportFleet(count: count, seed: seed) { .random(from: .zero, to: .seconds(300), using: &$0) }
            if let rollout { fleet.change(at: .seconds(rollout.start), within: .seconds(rollout.spread)) }
            fleet.run(until: .seconds(end)) { now in
                outage.contains(Int(now.components.seconds)) ? .silence : .accepted
            }
            return fleet.load
        }
    }

    /// The receiver of reports does not respond for a time.
    private static func reporting(_ outage: Int) -> FleetScenario {
        FleetScenario(name: "reports every 300 s, outage of the receiver of \(outage) s") { count, seed in
            let (start, end) = (900, 900 + outage)
            let load = reports(count, seed, outage: start..<end, until: end + 1200)
            let mean = Double(count) / 300
            return [
                Figure("during", load[start..<end], mean: mean, limit: 3),
                Figure("after", load[end...], mean: mean, limit: 3),
            ]
        }
    }

    /// All hosts get another configuration, and report it within 60 s besides their other reports.
    /// - Parameters:
    ///   - spread: the time over which the hosts get the configuration: 0 for a stream, the interval for polls
    ///   - outage: how long the receiver does not respond from the same moment on
    private static func rollout(within spread: Int, outage: Int = 0) -> FleetScenario {
        let receiver = outage > 0 ? ", outage of the receiver of \(outage) s" : ""
        return FleetScenario(name: "reports after a rollout to all hosts within \(spread) s\(receiver)") {
            count, seed in
            let start = 900
            let load = reports(
                count, seed, rollout: (start, spread), outage: start..<(start + outage), until: start + 1200)
            let window = start + 60 + spread
            return [
                Figure("first \(60 + spread) s", load[start..<window], mean: Double(count) / 60, limit: 3),
                Figure("after", load[window...], mean: Double(count) / 60, limit: 3),
                Figure("10 minutes after", load[(start + 600)...], mean: Double(count) / 300, limit: 3),
            ]
        }
    }
}
