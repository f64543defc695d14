import TestSupport
import Testing

@testable import LarderUpstream

/// The table of `contrib/guides/fleets.md` for fewer hosts.
@Suite("A fleet of 4,000 hosts")
struct FleetScenarioTests {
    @Test("no second carries more than its share of the load:", arguments: FleetScenario.all)
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
