import LarderHTTPSemantics
import LarderJSON

@testable import LarderConfigModel
@testable import LarderConfigSources

/// The source of a scenario. Its document changes, and its version sometimes decreases. At random, it responds late,
/// fails or returns an invalid document.
struct ScenarioSource: ConfigSource {
    let scenario: Scenario

    var location: String { "scripted:source" }
    var identity: String { location }

    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse {
        let (ledger, clock) = (scenario.ledger, scenario.clock)
        let id = ledger.newID("fetch")
        let serial = validator?.etag.flatMap { Int($0) }
        let began = ledger.beganFetch(id, validator: serial, isForced: reason == .forced)
        ledger.count("\(reason)")
        var upstream = scenario.upstream
        do {
            try await clock.sleep(for: scenario.generator.duration(upTo: reason == .longPoll ? 20 : 2))
        } catch {
            ledger.endedFetch(id, with: nil)
            throw ConfigError(.cancelled, "cancelled")
        }
        // The response may contain the document as it was at the beginning or at the end of the request.
        if scenario.generator.oneIn(2) { upstream = scenario.upstream }
        var document: ScenarioLedger.Document?
        defer { ledger.endedFetch(id, with: document) }
        if !scenario.isCalm, scenario.generator.oneIn(8) { throw ConfigError(.upstreamFailed, id) }
        if !scenario.isCalm, scenario.generator.oneIn(20) { throw ConfigError(.rejected, id) }
        if serial == upstream.serial { return .notModified }
        document = ScenarioLedger.Document(
            version: upstream.version, serial: upstream.serial, isForced: reason == .forced, began: began)
        return response(id, upstream)
    }

    private func response(_ id: String, _ upstream: Scenario.Upstream) -> SourceResponse {
        .document(
            SourceDocument(
                value: ["remote": .string(id)], version: UpstreamVersion("\(upstream.version)"),
                validator: Validator(etag: "\(upstream.serial)")))
    }

    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments? {
        SourceDocuments(after: scenario.signals) {
            let serial = await validator()?.etag.flatMap { Int($0) }
            let (ledger, upstream) = (scenario.ledger, scenario.upstream)
            if !scenario.isCalm, scenario.generator.oneIn(8) {
                return SourceDelivery(.failure(ConfigError(.upstreamFailed, "down")))
            }
            if serial == upstream.serial { return SourceDelivery(.success(.notModified)) }
            let id = ledger.newID("delivery")
            ledger.count("delivery")
            ledger.delivered(
                id,
                ScenarioLedger.Document(
                    version: upstream.version, serial: upstream.serial, isForced: false, isDelivery: true,
                    began: ledger.now()))
            return SourceDelivery(.success(response(id, upstream)))
        }
    }
}
