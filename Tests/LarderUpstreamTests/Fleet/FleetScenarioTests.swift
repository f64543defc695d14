import TestSupport
import Testing

/// Runs the scenarios of the table in `contrib/benchmarks/README.md` with fewer hosts, and checks their limits.
@Suite("Fleet of 4,000 hosts")
struct FleetScenarioTests {
    @Test("the busiest second in each part of a scenario stays within its limit", arguments: FleetScenario.all)
    func share(_ scenario: FleetScenario) {
        let seed = SeededGenerator.randomSeed
        for figure in scenario.run(4_000, seed) {
            #expect(figure.isWithinLimit, "\(figure.part): \(figure.ratio) times the mean; seed \(seed)")
        }
    }
}

extension FleetScenario: CustomTestStringConvertible {
    var testDescription: String { name }
}
