import LarderJSON
import LarderUpstream

@testable import LarderConfigModel
@testable import LarderConfig

/// A client that sends random commands to a scenario's namespace and compares each result with the published snapshots.
struct ScenarioClient: Sendable {
    let number: Int
    let scenario: Scenario
    let refresher: ConfigRefreshService
    let host: FileLayerRefresher

    private var ledger: ScenarioLedger { scenario.ledger }
    /// The path that only this client sets.
    private var path: JSONPath { JSONPath(["set", "\(number)"]) }

    func run() async {
        while scenario.takeStep() {
            try? await scenario.clock.sleep(for: scenario.generator.duration(upTo: 3))
            await step()
        }
    }

    private func step() async {
        switch Int.random(in: 0..<100, using: &scenario.generator) {
        case ..<22: await refresh("refresh") { () async throws(ConfigError) in try await refresher.refreshIfNeeded() }
        case ..<32: await refresh("force") { () async throws(ConfigError) in try await refresher.forceRefresh() }
        case ..<36: await refresh("await") { () async throws(ConfigError) in try await refresher.awaitChange() }
        case ..<56: await push()
        case ..<66: await set()
        case ..<70: await unset()
        case ..<80: await refreshHost()
        case ..<85: scenario.hostContent += 1
        case ..<86:
            ledger.replacesSource()
            await refresher.use(ScenarioSource(scenario: scenario))
            ledger.replacesSource()
        default: changeUpstream()
        }
    }

    /// Checks the state after all clients have ended.
    func checkFinalState() async {
        // After this time, every override with a lifetime has expired.
        try? await scenario.clock.sleep(for: .seconds(60))
        await refresh("force", mayFail: false) { () async throws(ConfigError) in try await refresher.forceRefresh() }
        ledger.expect(
            ledger.current?.serial == scenario.upstream.serial, "the last refresh did not return the current document")
        await refreshHost()
        guard let current = scenario.store?.publication.current else { return }
        ledger.expect(current.freshness == .fresh, "the final freshness is \(current.freshness)")
        let host = current.snapshot.value["host"]?.int ?? 0
        ledger.expect(host == scenario.hostContent, "the host layer has \(host), the file \(scenario.hostContent)")
    }

    private func changeUpstream() {
        ledger.count("change")
        scenario.upstream.serial = ledger.newNumber()
        scenario.upstream.version +=
            scenario.generator.oneIn(5) ? -Int.random(in: 0...3, using: &scenario.generator) : 1
        if scenario.generator.oneIn(2) { scenario.signal.yield() }
    }

    // MARK: Commands

    /// Runs a command and sometimes cancels it.
    private func attempt<Value: Sendable>(
        _ name: String, _ body: @escaping @Sendable () async throws(ConfigError) -> Value
    ) async -> Result<Value, ConfigError> {
        ledger.count(name)
        let task = Task { () async -> Result<Value, ConfigError> in
            do throws(ConfigError) { return .success(try await body()) } catch { return .failure(error) }
        }
        guard !scenario.isCalm, scenario.generator.oneIn(4) else {
            let result = await task.value
            if case .failure(let error) = result, error.code == .cancelled, name != "await" {
                ledger.addViolation("\(name) failed as cancelled, but was not cancelled")
            }
            return result
        }
        // Cancels after a delay, or after a few jobs. The latter can interrupt work that takes no simulated time.
        let time = scenario.generator.oneIn(2) ? scenario.generator.duration(upTo: 2) : .zero
        let jobs = Int.random(in: 0...12, using: &scenario.generator)
        let canceller = Task {
            try? await scenario.clock.sleep(for: time)
            for _ in 0..<jobs { await Task {}.value }
            task.cancel()
        }
        let result = await task.value
        canceller.cancel()
        if case .failure(let error) = result, error.code == .cancelled { ledger.count("\(name) cancelled") }
        return result
    }

    private func refresh(
        _ name: String, mayFail: Bool = true,
        _ body: @escaping @Sendable () async throws(ConfigError) -> ConfigRefreshService.Outcome
    ) async {
        let began = ledger.now()
        switch await attempt(name, body) {
        case .success(let outcome):
            let id = ledger.remote(in: outcome.commit.revision)
            let document = id.flatMap { ledger.documents[$0] }
            if outcome.notModified {
                ledger.expect(!outcome.commit.changed, "\(name): not modified, but changed")
                ledger.expect(document?.serial != nil, "\(name): not modified, but \(id ?? "nothing") is current")
            } else {
                ledger.expect(document?.serial != nil, "\(name) returned \(id ?? "nothing")")
                ledger.expect(ledger.published(id) > began, "\(name) returned \(id ?? ""), which was published before")
            }
            ledger.expect(
                document.map { "\($0.version)" } == outcome.upstreamVersion,
                "\(name) returned \(id ?? ""), version \(document?.version ?? 0), as \(outcome.upstreamVersion ?? "")"
            )
            if name == "force", let id {
                ledger.claimed(id)
                ledger.expect(
                    document?.isForced == true && document?.began ?? 0 > began, "a forced refresh returned \(id)")
            }
        case .failure(let error):
            ledger.expect(mayFail, "\(name): \(error)")
            let codes: [ConfigError.Code] = [.cancelled, .upstreamFailed, .rejected]
            ledger.expect(codes.contains(error.code), "\(name): \(error)")
        }
    }

    private func push() async {
        let id = ledger.newID("push")
        let version = scenario.upstream.version + Int.random(in: -3...2, using: &scenario.generator)
        let force = scenario.generator.oneIn(4)
        let began = ledger.now()
        ledger.push(id, version: version, isForced: force)
        let document = SourceDocument(value: ["remote": .string(id)], version: UpstreamVersion("\(version)"))
        let result = await attempt("push") { () async throws(ConfigError) in
            try await refresher.applyPushedConfig(document, force: force)
        }
        switch result {
        case .success(let outcome):
            let found = ledger.remote(in: outcome.commit.revision)
            ledger.expect(found == id, "revision \(outcome.commit.revision) of \(id) has \(found ?? "nothing")")
            ledger.expect(outcome.upstreamVersion == "\(version)", "\(id) has version \(outcome.upstreamVersion ?? "")")
            // A push leaves the namespace stale if the host file cannot be read.
            ledger.expect(
                [.fresh, .stale].contains(outcome.freshness), "a push left the namespace \(outcome.freshness)")
        case .failure(let error):
            ledger.failed(id)
            if error.code == .cancelled { return }
            ledger.expect(error.code == .rejected && !force, "\(id): \(error)")
            ledger.expect(
                ledger.wasOutdated(version, since: began),
                "\(id), version \(version), was rejected, but not older: \(error)")
        }
    }

    private func set() async {
        guard let store = scenario.store else { return }
        let value = ledger.newNumber()
        // At least 1 ms, because an override with a lifetime of 0 may be missing in the snapshot of its own commit.
        let timeToLive =
            scenario.generator.oneIn(3) ? max(.milliseconds(1), scenario.generator.duration(upTo: 20)) : nil
        let result = await attempt("set") { () async throws(ConfigError) in
            try await store.set(path, to: .int(value), timeToLive: timeToLive)
        }
        switch result {
        case .success(let commit):
            let found = ledger.value(path, in: commit.revision)
            ledger.expect(
                found?.int == value, "\(path) was set to \(value), and is \(found.map { "\($0)" } ?? "unset")")
        case .failure(let error):
            ledger.expect(error.code == .cancelled, "set: \(error)")
            ledger.failed(value, at: path)
        }
    }

    private func unset() async {
        guard let store = scenario.store else { return }
        let result = await attempt("unset") { () async throws(ConfigError) in try await store.unset(path) }
        switch result {
        case .success(let commit):
            ledger.expect(ledger.value(path, in: commit.revision) == nil, "\(path) was unset, but has a value")
        case .failure(let error):
            ledger.expect(error.code == .cancelled, "unset: \(error)")
        }
    }

    private func refreshHost() async {
        let content = scenario.hostContent
        ledger.count("host")
        do throws(ConfigError) {
            let commit = try await host.refresh()
            let found = ledger.value(JSONPath(["host"]), in: commit.revision)?.int ?? 0
            ledger.expect(found >= content, "the host layer was read and has \(found), the file \(content)")
        } catch {
            ledger.expect(error.code == .rejected && !scenario.isCalm, "host: \(error)")
        }
    }
}
