import TestSupport
import Testing

@Suite("Concurrent clients of one namespace")
struct ScenarioTests {
    @Test(
        "10,000 random commands are applied in order, and each result matches the published snapshots",
        arguments: [1, 2, SeededGenerator.randomSeed] as [UInt64])
    func steps(_ seed: UInt64) async {
        let scenario = await Scenario.run(seed: seed, steps: 10_000)
        scenario.ledger.checkForced()
        let hint = "LARDER_TEST_SEED=\(seed) repeats it; \(scenario.ledger.counts)"
        #expect(scenario.ledger.violations == [], "\(hint)")
        #expect(scenario.isFinished || !scenario.ledger.violations.isEmpty, "the scenario did not finish; \(hint)")
    }
}
