import LarderConfigModel
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON
import LarderUpstream

/// How a namespace fares: the part of its status that is not in its layers. A value that the store keeps and changes.
struct NamespaceStatus: Sendable {
    /// The remote source's kind and location; nil where the namespace has none.
    var source: (kind: String, location: String)?
    /// Where the layers of files come from; without those that the namespace does not have.
    var files: [FileLayer: String]
    /// How long what is held counts as stale when the source fails; nil for ever.
    private var staleIfError: Duration?
    /// Why a layer of files could not be read last time.
    private(set) var fileProblems: [FileLayer: String] = [:]
    /// Why changes of a layer's files are not watched.
    var watchProblems: [ConfigLayer: String] = [:]
    /// Why the disk did not take a change last time.
    private var storageProblem: ConfigStatusReport.Problem?
    /// When the source will be asked next.
    var nextAttemptAt: Int?
    var publishes = 0

    /// The state without what is under way.
    private(set) var settled: Freshness
    private var isRefreshing = false
    /// When the state, without what is under way, last became another. A refresh that fails again does not change it.
    private var settledSince = 0
    /// When the last refresh began.
    private var refreshingSince = 0
    private(set) var lastError: ConfigStatusReport.Problem?
    private var refused: ConfigStatusReport.Refusal?
    private var quarantine: ConfigStatusReport.Quarantine?
    /// When the source was asked for what it confirmed last.
    private var confirmedAt: Int?
    private var lastAttemptAt: Int?
    private(set) var lastSuccessAt: Int?
    private(set) var consecutiveFailures = 0
    /// Whether a document of the source was held at the last failure.
    private(set) var isHolding = false
    private var counters = ConfigStatusReport.Counters()

    init(
        source: (kind: String, location: String)?, files: [FileLayer: String] = [:], staleIfError: Duration? = nil
    ) {
        self.source = source
        self.files = files
        self.staleIfError = staleIfError
        settled = source == nil ? .fresh : .initializing
    }

    var hasRemote: Bool { source != nil }

    var freshness: Freshness { isRefreshing ? .refreshing : freshnessAtRest }

    /// The freshness when no refresh is under way.
    private var freshnessAtRest: Freshness { settled == .fresh && !fileProblems.isEmpty ? .stale : settled }

    private var since: Int { isRefreshing ? refreshingSince : settledSince }

    /// The status at a start: what is on disk counts as stale until the source confirms it.
    func restored(from layers: Layers, now: Int) -> NamespaceStatus {
        var status = self
        status.settledSince = now
        if hasRemote, layers.remote != nil { status.settled = .stale }
        return status
    }

    /// This status with what an older one of the same namespace went through, where both have the same source.
    func continuing(_ old: NamespaceStatus, layers: Layers, now: Int) -> NamespaceStatus {
        var status = old
        status.source = source
        status.files = files
        status.staleIfError = staleIfError
        status.fileProblems = [:]
        status.watchProblems = [:]
        status.nextAttemptAt = nil
        if source?.kind != old.source?.kind || source?.location != old.source?.location {
            status.isRefreshing = false
            status.lastError = nil
            status.refused = nil
            status.quarantine = nil
            status.lastSuccessAt = nil
            status.confirmedAt = nil
            status.consecutiveFailures = 0
            status.settled = !hasRemote ? .fresh : layers.remote == nil ? .initializing : .stale
            status.settledSince = now
        }
        return status
    }

    mutating func refreshBegan(isLongPoll: Bool, now: Int) {
        lastAttemptAt = now
        counters.attempted += 1
        if isLongPoll { return }
        if !isRefreshing { refreshingSince = now }
        isRefreshing = true
    }

    mutating func refreshCancelled() { isRefreshing = false }

    mutating func remoteAnswered(changed: Bool, now: Int) {
        lastSuccessAt = now
        // A long poll is answered when something happens, long after the question.
        confirmedAt = isRefreshing ? lastAttemptAt : now
        consecutiveFailures = 0
        lastError = nil
        refused = nil
        quarantine = nil
        if changed { counters.changed += 1 } else { counters.notModified += 1 }
        change(now) {
            $0.isRefreshing = false
            $0.settled = .fresh
        }
    }

    mutating func remotePushed(now: Int) {
        refused = nil
        quarantine = nil
        change(now) { $0.settled = .fresh }
    }

    mutating func refused(_ version: UpstreamVersion?, _ error: ConfigError, now: Int) {
        refused = ConfigStatusReport.Refusal(version: version?.text, reason: error.message, at: now)
        if let deletion = error.deletion {
            quarantine = ConfigStatusReport.Quarantine(version: version?.text, deletion: deletion, at: now)
        }
    }

    /// - Parameter heldSince: when the document came that is held and goes on being served, in milliseconds since 1970;
    ///   nil where there is none.
    mutating func failed(_ error: ConfigError, heldSince: Int?, now: Int) {
        lastError = ConfigStatusReport.Problem(error: error, at: now)
        consecutiveFailures += 1
        isHolding = heldSince != nil
        counters.failed += 1
        change(now) {
            $0.isRefreshing = false
            $0.settled = $0.isServiceable(heldSince, now) ? .stale : .failed
        }
    }

    /// Whether what is held has not been without confirmation for too long.
    private func isServiceable(_ heldSince: Int?, _ now: Int) -> Bool {
        guard let heldSince else { return false }
        guard let staleIfError else { return true }
        return now - max(heldSince, lastSuccessAt ?? heldSince) <= staleIfError.milliseconds
    }

    mutating func storageFailed(_ error: ConfigError, now: Int) {
        storageProblem = ConfigStatusReport.Problem(error: error, at: now)
    }

    mutating func storageWorked() { storageProblem = nil }

    mutating func filesRead(_ layer: FileLayer, problem: String?, now: Int) {
        change(now) { $0.fileProblems[layer] = problem }
    }

    /// Changes the state and notes when it last became another.
    private mutating func change(_ now: Int, _ body: (inout NamespaceStatus) -> Void) {
        let before = freshnessAtRest
        body(&self)
        if freshnessAtRest != before { settledSince = now }
    }

    /// Whether the source has given nothing yet.
    func awaitsSource(holding layers: Layers) -> Bool { hasRemote && !layers.hasRemote }

    fileprivate func report(layers: Layers) -> ConfigStatusReport {
        var report = ConfigStatusReport(freshness: freshness, since: since)
        report.lastError = [lastError, storageProblem].compactMap { $0 }.max { $0.at < $1.at }
        report.refused = refused
        report.quarantine = quarantine
        report.hold = layers.hold.map { hold in
            ConfigStatusReport.Hold(
                revision: hold.revision, refusedVersion: hold.refused?.version?.text, since: hold.since,
                layers: hold.layers, rule: hold.rule, reason: hold.reason, peer: hold.peer)
        }
        report.awaitsSource = awaitsSource(holding: layers)
        report.upstreamVersion = layers.remote?.version?.text
        report.etag = layers.remote?.validator?.etag
        report.counters = counters
        report.counters.publishes = publishes
        if let source {
            report.confirmedAt =
                confirmedAt ?? layers.remote.flatMap { $0.origin == source.location ? $0.updatedAt : nil }
            report.upstream = ConfigStatusReport.Upstream(
                kind: source.kind, location: source.location, lastAttemptAt: lastAttemptAt,
                lastSuccessAt: lastSuccessAt, nextAttemptAt: nextAttemptAt, consecutiveFailures: consecutiveFailures)
        }
        report.layers = ConfigLayer.allCases.map { self.report($0, of: layers) }
        return report
    }

    private func report(_ layer: ConfigLayer, of layers: Layers) -> ConfigStatusReport.Layer {
        switch layer {
        case .defaults: return report(files: .defaults, of: layers)
        case .host: return report(files: .host, of: layers)
        case .remote:
            return ConfigStatusReport.Layer(
                layer, isPresent: layers.remote != nil, bytes: layers.remote?.document.textSize ?? 0,
                origin: layers.remote?.origin ?? source?.location ?? "", updatedAt: layers.remote?.updatedAt,
                problem: lastError?.error.message ?? watchProblems[.remote])
        case .experiment:
            return ConfigStatusReport.Layer(
                layer, isPresent: !layers.experiment.overlays.isEmpty, bytes: layers.experiment.bytes,
                origin: layers.experiment.overlays.map(\.name).joined(separator: ", "),
                updatedAt: layers.experiment.updatedAt, problem: layers.experiment.problem)
        case .override:
            return ConfigStatusReport.Layer(
                layer, isPresent: !layers.override.isEmpty, bytes: layers.override.bytes, origin: "config.set",
                updatedAt: layers.override.entries.map(\.setAt).max())
        }
    }

    private func report(files layer: FileLayer, of layers: Layers) -> ConfigStatusReport.Layer {
        let held = layers[layer].flatMap { $0.document.count > 0 ? $0 : nil }
        return ConfigStatusReport.Layer(
            layer.layer, isPresent: held != nil, bytes: held?.document.textSize ?? 0, origin: files[layer] ?? "",
            updatedAt: held?.updatedAt, problem: fileProblems[layer] ?? watchProblems[layer.layer])
    }
}

/// A namespace's status at a moment: put into words when somebody asks, which is seldom, and not at each publication.
final class StatusRecord: Sendable {
    private let status: NamespaceStatus
    private let layers: Layers

    init(_ status: NamespaceStatus, holding layers: Layers) {
        self.status = status
        self.layers = layers
    }

    var freshness: Freshness { status.freshness }
    var awaitsSource: Bool { status.awaitsSource(holding: layers) }
    var report: ConfigStatusReport { status.report(layers: layers) }
}
