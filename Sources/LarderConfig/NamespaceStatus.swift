import JSON
import LarderUpstream

/// How a namespace fares: the part of its status that is not in its layers. A value that the store keeps and changes.
struct NamespaceStatus: Sendable {
    /// The remote source's kind and location; nil where the namespace has none.
    var source: (kind: String, location: String)?
    /// Where the host layer comes from; nil where the namespace has none.
    var hostDirectory: String?
    /// Why the host layer could not be read last time.
    private(set) var hostProblem: String?
    /// Why the disk did not take a change last time.
    private var storageProblem: ConfigStatusReport.Problem?
    /// When the source will be asked next.
    var nextAttemptAt: Int?
    var publishes = 0

    private var settled: Freshness
    private var isRefreshing = false
    private var since = 0
    private var lastError: ConfigStatusReport.Problem?
    private var refused: ConfigStatusReport.Refusal?
    private var quarantine: ConfigStatusReport.Quarantine?
    /// When the source was asked for what it confirmed last.
    private var confirmedAt: Int?
    private var lastAttemptAt: Int?
    private var lastSuccessAt: Int?
    private var consecutiveFailures = 0
    private var counters = ConfigStatusReport.Counters()

    init(source: (kind: String, location: String)?, hostDirectory: String?) {
        self.source = source
        self.hostDirectory = hostDirectory
        settled = source == nil ? .fresh : .initializing
    }

    var hasRemote: Bool { source != nil }

    private var freshness: Freshness {
        if isRefreshing { return .refreshing }
        return settled == .fresh && hostProblem != nil ? .stale : settled
    }

    /// The status at a start: what is on disk counts as stale until the source confirms it.
    func restored(from layers: Layers, now: Int) -> NamespaceStatus {
        var status = self
        status.since = now
        if hasRemote, layers.remote != nil { status.settled = .stale }
        return status
    }

    /// This status with what an older one of the same namespace went through, where both have the same source.
    func continuing(_ old: NamespaceStatus, layers: Layers, now: Int) -> NamespaceStatus {
        var status = old
        status.source = source
        status.hostDirectory = hostDirectory
        status.hostProblem = nil
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
            status.since = now
        }
        return status
    }

    mutating func refreshBegan(isLongPoll: Bool, now: Int) {
        lastAttemptAt = now
        counters.attempted += 1
        if isLongPoll { return }
        change(now) { $0.isRefreshing = true }
    }

    mutating func refreshCancelled(now: Int) {
        change(now) { $0.isRefreshing = false }
    }

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

    /// - Parameter hasRemoteDocument: whether an older answer of the source is held and goes on being served.
    mutating func failed(_ error: ConfigError, hasRemoteDocument: Bool, now: Int) {
        lastError = ConfigStatusReport.Problem(error: error, at: now)
        consecutiveFailures += 1
        counters.failed += 1
        change(now) {
            $0.isRefreshing = false
            $0.settled = hasRemoteDocument ? .stale : .failed
        }
    }

    mutating func storageFailed(_ error: ConfigError, now: Int) {
        storageProblem = ConfigStatusReport.Problem(error: error, at: now)
    }

    mutating func storageWorked() { storageProblem = nil }

    mutating func hostRead(problem: String?, now: Int) {
        change(now) { $0.hostProblem = problem }
    }

    /// Changes the state and notes when it last became another.
    private mutating func change(_ now: Int, _ body: (inout NamespaceStatus) -> Void) {
        let before = freshness
        body(&self)
        if freshness != before { since = now }
    }

    func report(layers: Layers) -> ConfigStatusReport {
        var report = ConfigStatusReport(freshness: freshness, since: since)
        report.lastError = [lastError, storageProblem].compactMap { $0 }.max { $0.at < $1.at }
        report.refused = refused
        report.quarantine = quarantine
        report.hold = layers.hold.map { hold in
            ConfigStatusReport.Hold(
                revision: hold.revision, refusedVersion: hold.refused?.version?.text, since: hold.since)
        }
        report.awaitsSource = hasRemote && layers.remote == nil
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
        let host = layers.host.flatMap { $0.document.count > 0 ? $0 : nil }
        report.layers = [
            ConfigStatusReport.Layer(
                name: "host", isPresent: host != nil, bytes: host?.document.textSize ?? 0, origin: hostDirectory ?? "",
                updatedAt: host?.updatedAt, problem: hostProblem),
            ConfigStatusReport.Layer(
                name: "remote", isPresent: layers.remote != nil, bytes: layers.remote?.document.textSize ?? 0,
                origin: layers.remote?.origin ?? source?.location ?? "", updatedAt: layers.remote?.updatedAt,
                problem: lastError?.error.message),
            ConfigStatusReport.Layer(
                name: "override", isPresent: !layers.override.entries.isEmpty,
                bytes: layers.override.bytes, origin: "config.set",
                updatedAt: layers.override.entries.last?.setAt, problem: nil),
        ]
        return report
    }
}

extension JSONValue {
    /// The size of the value's text in bytes.
    var textSize: Int { withTextBytes { $0.count } }
}
