import TestSupport
import Testing

@Suite("Everything at once on one namespace")
struct ScenarioTests {
    @Test(
        "10,000 commands and edits keep their order, and each answer says what the command did",
        arguments: [1, 2, SeededGenerator.randomSeed] as [UInt64])
    func steps(_ seed: UInt64) async {
        let scenario = await Scenario.run(seed: seed, steps: 10_000)
        scenario.ledger.checkForced()
        let hint = "LARDER_TEST_SEED=\(seed) repeats it; \(scenario.ledger.counts)"
        #expect(scenario.ledger.violations == [], "\(hint)")
        #expect(scenario.isFinished || !scenario.ledger.violations.isEmpty, "somebody waits for ever; \(hint)")
    }
}
