import LarderHTTPSemantics
import LarderJSON
import LarderUpstream
import TestSupport

@testable import LarderConfigModel
@testable import LarderConfigSources

/// The upstream of a scenario: its document changes, its version goes back at times, and it takes its time, fails or talks
/// nonsense by chance.
struct ScenarioSource: ConfigSource {
    let scenario: Scenario

    var kind: String { "scripted" }
    var location: String { "scripted:source" }

    func fetch(
        ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer {
        let (ledger, clock) = (scenario.ledger, scenario.clock)
        let id = ledger.newID("fetch")
        let held = validator?.etag.flatMap { Int($0) }
        let began = ledger.beganFetch(id, validator: held, isForced: occasion == .forced)
        ledger.count("\(occasion)")
        var upstream = scenario.upstream
        if occasion != .signalled {
            do {
                try await clock.sleep(for: scenario.chance.duration(upTo: occasion == .awaiting ? 20 : 2))
            } catch {
                ledger.endedFetch(id, with: nil)
                throw ConfigError(.cancelled, "cancelled")
            }
        }
        // An answer may have been made when the question came, or when it left.
        if scenario.chance.oneIn(2) { upstream = scenario.upstream }
        var document: ScenarioLedger.Document?
        defer { ledger.endedFetch(id, with: document) }
        if !scenario.isCalm, scenario.chance.oneIn(8) { throw ConfigError(.upstreamFailed, id) }
        if !scenario.isCalm, scenario.chance.oneIn(20) { throw ConfigError(.rejected, id) }
        if held == upstream.serial { return .notModified }
        document = ScenarioLedger.Document(
            version: upstream.version, serial: upstream.serial, isForced: occasion == .forced, began: began)
        return .document(
            SourceDocument(
                value: ["remote": .string(id)], version: UpstreamVersion("\(upstream.version)"),
                validator: Validator(etag: "\(upstream.serial)")))
    }

    func changes() -> AsyncStream<Void>? { scenario.signals }
}
