import TestSupport
import Testing

@Suite("Fleet of 10,000 hosts that keep a connection")
struct StreamFleetTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The second in which all hosts boot.
        var boot = 0
        var retryAfter: @Sendable (Duration) -> Duration? = { _ in nil }

        static let all = [
            Case(testDescription: "all connections end at the same time"),
            Case(testDescription: "hosts get the end of the outage as Retry-After") { .seconds(1_200) - $0 },
            Case(testDescription: "hosts get a Retry-After of 30 seconds") { _ in .seconds(30) },
            Case(testDescription: "hosts boot in the same second of the outage", boot: 900),
            Case(testDescription: "hosts boot in the second in which the outage ends", boot: 1_200),
        ]
    }

    @Test("after an outage of 10 minutes no second has more than 3 times the mean load", arguments: Case.all)
    func outage(_ given: Case) {
        let seed = SeededGenerator.randomSeed
        var fleet = StreamFleet(count: 10_000, interval: .seconds(300), boot: .seconds(given.boot), seed: seed)
        fleet.run(
            until: .seconds(2_400), outage: .seconds(600)..<(.seconds(1_200)), retryAfter: given.retryAfter)
        // The mean load if each host connects once and polls once in each interval.
        let mean = 2 * Double(10_000) / 300
        #expect(Double(fleet.load[1_200...].max() ?? 0) <= 3 * mean, "seed \(seed)")
        #expect(fleet.areAllConnected, "seed \(seed)")
    }
}
