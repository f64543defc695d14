import TestSupport
import Testing

@testable import LarderUpstream

/// Ten thousand hosts and an outage of their origin, which must not see them come back together.
@Suite("A fleet of 10,000 hosts")
struct FleetTests {
    /// How hosts came to be there when the outage begins, and how the origin fails.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var interval = 60
        /// The seconds that are looked at together: where few hosts ask in one, its load says nothing.
        var width = 1
        /// When hosts start.
        var boots = 0..<60
        var isHolding = true
        var outage = 180..<780
        /// What the origin does while it is out.
        var answer: @Sendable (Duration) -> Fleet.Answer = { _ in .refusal(retryAfter: nil) }

        static let all = [
            Case(testDescription: "that started at different times"),
            Case(testDescription: "that had nothing and booted in the same second", boots: 0..<1, isHolding: false),
            Case(testDescription: "that booted in the same second", boots: 0..<1),
            Case(testDescription: "that booted in the same second of the outage", boots: 300..<301),
            Case(
                testDescription: "that had nothing and booted in the same second of the outage", boots: 300..<301,
                isHolding: false),
            Case(testDescription: "that booted half an interval before the end", boots: 750..<751),
            Case(testDescription: "that booted in the second of the origin's return", boots: 780..<781),
            Case(testDescription: "that were left waiting") { _ in .silence },
            Case(testDescription: "that were told to come back in 2 minutes") { _ in
                .refusal(retryAfter: .seconds(120))
            },
            Case(testDescription: "that were told to come back in 5 seconds") { _ in .refusal(retryAfter: .seconds(5))
            },
            Case(testDescription: "that were told the end of the outage") { now in
                .refusal(retryAfter: .seconds(780) - now)
            },
            Case(
                testDescription: "that had nothing and were told the end of the outage", boots: 300..<301,
                isHolding: false
            ) { .refusal(retryAfter: .seconds(780) - $0) },
            Case(testDescription: "that ask every 10 seconds", interval: 10, boots: 170..<171),
            Case(testDescription: "that ask every 5 minutes", interval: 300),
            Case(
                testDescription: "that ask every hour", interval: 3_600, width: 60, boots: 0..<3_600,
                outage: 7_800..<8_400),
            Case(testDescription: "after 5 seconds", outage: 180..<185),
            Case(testDescription: "after half an interval", outage: 180..<210),
            Case(testDescription: "after an interval", outage: 180..<240),
        ]
    }

    @Test("after an outage no second carries more than 3 times the mean load, for hosts", arguments: Case.all)
    func outage(_ given: Case) {
        let seed = SeededGenerator.randomSeed
        var fleet = Fleet(
            count: 10_000, interval: .seconds(given.interval), isHolding: given.isHolding, seed: seed
        ) { generator in
            .random(from: .seconds(given.boots.lowerBound), to: .seconds(given.boots.upperBound), using: &generator)
        }
        let end = given.outage.upperBound
        // The longest wait, and two intervals of peace.
        let settled = end + 300 + given.interval
        fleet.run(until: .seconds(settled + given.interval)) { now, _ in
            given.outage.contains(Int(now.components.seconds)) ? given.answer(now) : .document
        }
        #expect(fleet.peak(from: end, width: given.width) <= 3, "seed \(seed)")
        let steady = fleet.average(from: settled)
        #expect(abs(steady - 1) < 0.1, "each host asks once in each interval again; seed \(seed)")
        #expect(fleet.oldestAnswer ?? .zero >= .seconds(end), "everybody is back; seed \(seed)")
    }

    @Test("hosts that all begin with nothing get through to an origin that carries twice its usual load")
    func overload() {
        let seed = SeededGenerator.randomSeed
        var fleet = Fleet(count: 10_000, seed: seed) { .random(from: .zero, to: .seconds(1), using: &$0) }
        let capacity = Int(fleet.mean * 2)
        fleet.run(until: .seconds(1_200)) { _, count in count > capacity ? .refusal(retryAfter: nil) : .document }
        #expect(fleet.oldestAnswer != nil, "seed \(seed)")
        #expect(fleet.peak(from: 600) <= 2, "seed \(seed)")
    }
}
