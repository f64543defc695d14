import TestSupport
import Testing

@testable import LarderUpstream

/// Checks that 10,000 hosts do not all return in the same seconds after an outage of their origin.
@Suite("Fleet of 10,000 hosts")
struct FleetTests {
    /// When the hosts start, and how the origin fails.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var interval = 60
        /// The number of seconds over which the load is averaged. With long intervals, too few hosts poll in one second
        /// for a meaningful comparison with the mean.
        var width = 1
        /// The seconds in which hosts start.
        var boots = 0..<60
        var hasDocument = true
        var outage = 180..<780
        /// The response of the origin during the outage.
        var answer: @Sendable (Duration) -> Fleet.Answer = { _ in .refusal(retryAfter: nil) }

        static let all = [
            Case(testDescription: "hosts that start at different times"),
            Case(
                testDescription: "hosts without a document that boot in the same second", boots: 0..<1,
                hasDocument: false),
            Case(testDescription: "hosts that boot in the same second", boots: 0..<1),
            Case(testDescription: "hosts that boot in the same second of the outage", boots: 300..<301),
            Case(
                testDescription: "hosts without a document that boot in the same second of the outage",
                boots: 300..<301,
                hasDocument: false),
            Case(testDescription: "hosts that boot half an interval before the end of the outage", boots: 750..<751),
            Case(testDescription: "hosts that boot in the second in which the outage ends", boots: 780..<781),
            Case(testDescription: "hosts that get no response") { _ in .silence },
            Case(testDescription: "hosts that get a Retry-After of 2 minutes") { _ in
                .refusal(retryAfter: .seconds(120))
            },
            Case(testDescription: "hosts that get a Retry-After of 5 seconds") { _ in .refusal(retryAfter: .seconds(5))
            },
            Case(testDescription: "hosts that get the end of the outage as Retry-After") { now in
                .refusal(retryAfter: .seconds(780) - now)
            },
            Case(
                testDescription: "hosts without a document that get the end of the outage as Retry-After",
                boots: 300..<301,
                hasDocument: false
            ) { .refusal(retryAfter: .seconds(780) - $0) },
            Case(testDescription: "hosts that poll every 10 seconds", interval: 10, boots: 170..<171),
            Case(testDescription: "hosts that poll every 5 minutes", interval: 300),
            Case(
                testDescription: "hosts that poll every hour", interval: 3_600, width: 60, boots: 0..<3_600,
                outage: 7_800..<8_400),
            Case(testDescription: "an outage of 5 seconds", outage: 180..<185),
            Case(testDescription: "an outage of half an interval", outage: 180..<210),
            Case(testDescription: "an outage of one interval", outage: 180..<240),
        ]
    }

    @Test("after an outage no second has more than 3 times the mean load", arguments: Case.all)
    func outage(_ given: Case) {
        let seed = SeededGenerator.randomSeed
        var fleet = Fleet(
            count: 10_000, interval: .seconds(given.interval), hasDocument: given.hasDocument, seed: seed
        ) { generator in
            .random(from: .seconds(given.boots.lowerBound), to: .seconds(given.boots.upperBound), using: &generator)
        }
        let end = given.outage.upperBound
        // By this time all hosts have polled again, because the longest wait is 300 s and one interval.
        let settled = end + 300 + given.interval
        fleet.run(until: .seconds(settled + given.interval)) { now, _ in
            given.outage.contains(Int(now.components.seconds)) ? given.answer(now) : .document
        }
        #expect(fleet.peak(from: end, width: given.width) <= 3, "seed \(seed)")
        let steady = fleet.average(from: settled)
        #expect(abs(steady - 1) < 0.1, "hosts do not poll once per interval again; seed \(seed)")
        #expect(fleet.oldestAnswer ?? .zero >= .seconds(end), "a host has not polled since the outage; seed \(seed)")
    }

    @Test("all hosts without a document get one from an origin that serves only twice the mean load")
    func overload() {
        let seed = SeededGenerator.randomSeed
        var fleet = Fleet(count: 10_000, seed: seed) { .random(from: .zero, to: .seconds(1), using: &$0) }
        let capacity = Int(fleet.mean * 2)
        fleet.run(until: .seconds(1_200)) { _, count in count > capacity ? .refusal(retryAfter: nil) : .document }
        #expect(fleet.oldestAnswer != nil, "seed \(seed)")
        #expect(fleet.peak(from: 600) <= 2, "seed \(seed)")
    }
}
