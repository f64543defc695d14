import LarderConfigModel
import LarderConfigSources
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON
import LarderUpstream

/// The part of a namespace's status that does not follow from its layers. Times are milliseconds since 1970.
struct NamespaceStatus: Sendable {
    /// A remote source.
    struct Source: Sendable, Equatable {
        let kind: String
        /// For people.
        let location: String
        /// Whether two sources are the same; see ``ConfigSource/identity``.
        let identity: String

        init(_ kind: String, at location: String, identity: String? = nil) {
            self.kind = kind
            self.location = location
            self.identity = identity ?? location
        }
    }

    /// The remote source; nil if the namespace has none.
    var source: Source?
    /// The locations of the file layers that the namespace has.
    var files: [FileLayer: String]
    /// How long after the last confirmation of the remote document a failed refresh makes the namespace only `stale`. A
    /// failed refresh after that makes the namespace `failed`. Nil for no limit.
    private var staleIfError: Duration?
    /// Why the last read of a file layer failed.
    private(set) var fileProblems: [FileLayer: String] = [:]
    /// Why changes of a layer's files are not watched.
    var watchProblems: [ConfigLayer: String] = [:]
    /// A part of the state on disk.
    enum StoredPart {
        /// A change or reserved revisions, which must be on disk before a publication.
        case commit
        /// The generations, which are written in the background.
        case generations
        /// The epoch, in which revisions are reserved at the start.
        case epoch
        /// The copy of the schema.
        case schema
    }

    /// Why the last write of a part of the state failed; no entry if it succeeded.
    private var writeProblems: [StoredPart: ConfigStatusReport.Problem] = [:]
    /// The state of the schema.
    var schema = SchemaStatus()
    /// Why the schema file cannot be used; nil if it can, or if there is none.
    var schemaFileProblem: String?
    /// The time of the next poll; nil if none is scheduled.
    var nextAttemptAt: Int?
    private(set) var refreshes = RefreshRecord()

    /// The freshness, ignoring file problems, a refresh in progress and ``isDue``.
    private(set) var settled: Freshness
    private var isRefreshing = false
    /// Whether the remote document is from before the start, or from another source, and the first attempt to confirm it
    /// has not ended; or the first connection of the source has not been opened yet. Nothing has failed yet.
    private var isDue = false
    /// Whether the source sends changes, as of the last refresh.
    private(set) var following = SourceFollowing.working
    /// When ``freshnessAtRest`` last changed. A repeated failure does not change this time.
    private var settledSince = 0
    /// When the last refresh began.
    private var refreshingSince = 0

    init(
        source: Source?, files: [FileLayer: String] = [:], staleIfError: Duration? = nil
    ) {
        self.source = source
        self.files = files
        self.staleIfError = staleIfError
        settled = source == nil ? .fresh : .initializing
    }

    var hasRemote: Bool { source != nil }

    var freshness: Freshness { isRefreshing ? .refreshing : freshnessAtRest }

    /// The freshness, ignoring a refresh in progress.
    private var freshnessAtRest: Freshness {
        if isDue, fileProblems.isEmpty { return .refreshing }
        return settled == .fresh && !fileProblems.isEmpty ? .stale : settled
    }

    private var since: Int { isRefreshing ? refreshingSince : settledSince }

    /// The status after a start. The confirmation of a recovered remote document is due.
    func restored(from layers: Layers, now: Int) -> NamespaceStatus {
        var status = self
        status.settledSince = now
        status.expectConfirmation(of: layers)
        return status
    }

    private mutating func expectConfirmation(of layers: Layers) {
        isDue = hasRemote && layers.remote != nil
        if isDue { settled = .stale }
    }

    /// The status for new settings, continued from the previous status. If the settings name another source, the
    /// freshness and the last results are reset.
    func continuing(_ previous: NamespaceStatus, layers: Layers, now: Int) -> NamespaceStatus {
        var status = previous
        status.source = source
        status.files = files
        status.staleIfError = staleIfError
        status.fileProblems = [:]
        status.watchProblems = [:]
        status.nextAttemptAt = nil
        if source?.identity != previous.source?.identity {
            status.isRefreshing = false
            status.following = .working
            status.refreshes.sourceChanged()
            status.settled = hasRemote ? .initializing : .fresh
            status.expectConfirmation(of: layers)
            status.settledSince = now
        }
        return status
    }

    mutating func refreshBegan(isLongPoll: Bool, now: Int) {
        refreshes.began(now: now)
        if isLongPoll { return }
        if !isRefreshing { refreshingSince = freshnessAtRest == .refreshing ? settledSince : now }
        isRefreshing = true
    }

    mutating func refreshCancelled() { isRefreshing = false }

    /// Records whether the source sends changes. Must be called before the result of a refresh is recorded.
    mutating func follows(_ following: SourceFollowing) { self.following = following }

    mutating func remoteAnswered(changed: Bool, now: Int) {
        refreshes.succeeded(changed: changed, isLongPoll: !isRefreshing, followFailure: following.failure, now: now)
        change(now) {
            $0.isRefreshing = false
            $0.confirmed()
        }
    }

    mutating func remotePushed(now: Int) {
        refreshes.accepted()
        change(now) { $0.confirmed() }
    }

    /// The remote document is the current one. The source may nevertheless send no changes.
    private mutating func confirmed() {
        isDue = following.isConnecting
        settled = following.failure == nil ? .fresh : .stale
    }

    mutating func refused(_ version: UpstreamVersion?, _ error: ConfigError, now: Int) {
        refreshes.refused(version, error, now: now)
    }

    /// - Parameter documentSince: when the remote document last changed, in milliseconds since 1970; nil for no
    ///   document
    mutating func failed(_ error: ConfigError, documentSince: Int?, now: Int) {
        refreshes.failed(error, isHolding: documentSince != nil, now: now)
        change(now) {
            $0.isRefreshing = false
            $0.isDue = false
            $0.settled = $0.isServiceable(documentSince, now) ? .stale : .failed
        }
    }

    /// Whether there is a remote document and, if ``staleIfError`` is set, its last confirmation is at most that long
    /// ago. A confirmation in the future, before the clock was set back, does not count.
    private func isServiceable(_ documentSince: Int?, _ now: Int) -> Bool {
        guard let documentSince else { return false }
        guard let staleIfError else { return true }
        let age = now - max(documentSince, refreshes.lastSuccessAt ?? documentSince)
        return age >= 0 && age <= staleIfError.milliseconds
    }

    mutating func storageFailed(_ part: StoredPart, _ error: ConfigError, now: Int) {
        writeProblems[part] = ConfigStatusReport.Problem(error: error, at: now)
    }

    /// Records that the epoch ends with the process, because no revisions can be reserved.
    mutating func reservationFailed(_ reason: String, now: Int) {
        let remedy = "clients cannot resume after a restart; free space or repair the disk, then restart the agent"
        storageFailed(.epoch, ConfigError(.storageFailed, "\(reason); \(remedy)"), now: now)
    }

    mutating func storageWorked(_ part: StoredPart) { writeProblems[part] = nil }

    /// Whether the last write of a part failed.
    func hasStorageProblem(_ part: StoredPart) -> Bool { writeProblems[part] != nil }

    /// Whether the last write of any part failed.
    var isUnwritable: Bool { !writeProblems.isEmpty }

    /// The last of the failed writes; nil if no part of the state has one.
    private var writeError: ConfigStatusReport.Problem? { writeProblems.values.max { $0.at < $1.at } }

    mutating func filesRead(_ layer: FileLayer, problem: String?, now: Int) {
        change(now) { $0.fileProblems[layer] = problem }
    }

    /// Applies a change. If it changes ``freshnessAtRest``, also updates ``settledSince``.
    private mutating func change(_ now: Int, _ body: (inout NamespaceStatus) -> Void) {
        let before = freshnessAtRest
        body(&self)
        if freshnessAtRest != before { settledSince = now }
    }

    /// Whether there is a remote source but no remote document yet.
    func awaitsSource(holding layers: Layers) -> Bool { hasRemote && !layers.hasRemote }

    /// Why new content was refused last, at most 200 characters; nil if no content is refused now.
    var refusal: String? {
        guard let refusal = schema.refusal else { return refreshes.refused?.reason.excerpt }
        let what = refusal.layer.map { "layer \($0)" } ?? "settings"
        return "\(what): \(refusal.problems.first?.text ?? "it violates the schema")".excerpt
    }

    /// See ``ConfigStatusReport/confirmedAt``.
    func confirmedAt(holding layers: Layers) -> Int? {
        guard let source else { return nil }
        return refreshes.confirmedAt ?? layers.remote.flatMap { $0.source == source.identity ? $0.updatedAt : nil }
    }

    func counters(publishes: Int) -> ConfigStatusReport.Counters {
        var counters = refreshes.counters
        counters.publishes = publishes
        return counters
    }

    fileprivate func report(layers: Layers, publishes: Int) -> ConfigStatusReport {
        var report = ConfigStatusReport(freshness: freshness, since: since)
        report.writeError = writeError
        report.lastError = [refreshes.lastError, report.writeError].compactMap { $0 }.max { $0.at < $1.at }
        report.refused = refreshes.refused
        report.quarantine = refreshes.quarantine
        report.hold = layers.hold.map { hold in
            ConfigStatusReport.Hold(
                revision: hold.revision, rejectedVersion: hold.refused?.version?.text, since: hold.since,
                layers: hold.layers, rule: hold.rule, reason: hold.reason, peer: hold.peer)
        }
        report.awaitsSource = awaitsSource(holding: layers)
        report.upstreamVersion = layers.remote?.version?.text
        report.etag = layers.remote?.validator?.etag
        report.counters = counters(publishes: publishes)
        report.confirmedAt = confirmedAt(holding: layers)
        report.upstream = source.map { source in
            ConfigStatusReport.Upstream(
                kind: source.kind, location: source.location, lastAttemptAt: refreshes.lastAttemptAt,
                lastSuccessAt: refreshes.lastSuccessAt, nextAttemptAt: nextAttemptAt,
                consecutiveFailures: refreshes.consecutiveFailures, watchError: watchError)
        }
        report.schema = schema
        report.schemaFileProblem = schemaFileProblem
        report.layers = ConfigLayer.allCases.map { self.report($0, of: layers) }
        return report
    }

    /// See ``ConfigStatusReport/Upstream/watchError``. A rejected document ends the connection, too, but then the
    /// document is the problem.
    private var watchError: String? {
        following.failure.flatMap { $0.code == .upstreamFailed ? $0.message : nil }
    }

    private func report(_ layer: ConfigLayer, of layers: Layers) -> ConfigStatusReport.Layer {
        switch layer {
        case .defaults: return report(files: .defaults, of: layers)
        case .host: return report(files: .host, of: layers)
        case .remote:
            return ConfigStatusReport.Layer(
                layer, isPresent: layers.remote != nil, bytes: layers.remote?.document.textSize ?? 0,
                origin: layers.remote?.origin ?? source?.location ?? "", updatedAt: layers.remote?.updatedAt,
                problem: refreshes.lastError?.error.message ?? watchProblems[.remote])
        case .experiment:
            return ConfigStatusReport.Layer(
                layer, isPresent: !layers.experiment.overlays.isEmpty, bytes: layers.experiment.bytes,
                origin: layers.experiment.overlays.map(\.name).joined(separator: ", "),
                updatedAt: layers.experiment.updatedAt, problem: layers.experiment.problem)
        case .override:
            return ConfigStatusReport.Layer(
                layer, isPresent: !layers.override.isEmpty, bytes: layers.override.bytes, origin: "config.set",
                updatedAt: layers.override.updatedAt)
        }
    }

    private func report(files layer: FileLayer, of layers: Layers) -> ConfigStatusReport.Layer {
        let content = layers[layer].flatMap { $0.document.count > 0 ? $0 : nil }
        return ConfigStatusReport.Layer(
            layer.layer, isPresent: content != nil, bytes: content?.document.textSize ?? 0, origin: files[layer] ?? "",
            updatedAt: content?.updatedAt, problem: fileProblems[layer] ?? watchProblems[layer.layer])
    }
}

/// The status of a namespace and the number of its publications. Copies share the status until one of them changes it.
/// Every publication keeps a copy, so a copy must be cheap.
struct SharedStatus: Sendable {
    private final class Box: Sendable {
        let status: NamespaceStatus
        init(_ status: NamespaceStatus) { self.status = status }
    }

    private var box: Box
    /// Snapshots published since the start.
    var publishes = 0

    init(_ status: NamespaceStatus) { box = Box(status) }

    var current: NamespaceStatus { box.status }
    var hasRemote: Bool { box.status.hasRemote }
    var freshness: Freshness { box.status.freshness }

    func awaitsSource(holding layers: Layers) -> Bool { box.status.awaitsSource(holding: layers) }

    /// Whether the status is the same as in an earlier copy. The number of publications may differ.
    func isUnchanged(since earlier: SharedStatus) -> Bool { box === earlier.box }

    mutating func change(_ body: (inout NamespaceStatus) -> Void) {
        var status = box.status
        body(&status)
        box = Box(status)
    }
}

/// The status of a namespace and its layers at one point in time. The report is built only on request, not at every
/// publication.
///
/// Its properties are members of the report that can be read without the others. Requests that do not return the report
/// use them.
package struct StatusRecord: Sendable {
    private let status: SharedStatus
    let layers: Layers

    init(_ status: SharedStatus, holding layers: Layers) {
        self.status = status
        self.layers = layers
    }

    init(_ status: NamespaceStatus, holding layers: Layers) {
        self.init(SharedStatus(status), holding: layers)
    }

    var freshness: Freshness { status.freshness }
    var awaitsSource: Bool { status.awaitsSource(holding: layers) }
    var report: ConfigStatusReport { status.current.report(layers: layers, publishes: status.publishes) }

    package var hasSource: Bool { status.hasRemote }
    package var schema: SchemaStatus { status.current.schema }
    /// Why new content was refused last, at most 200 characters; nil if no content is refused now.
    package var refusal: String? { status.current.refusal }
    /// Whether the state of the namespace cannot be written to disk.
    package var isUnwritable: Bool { status.current.isUnwritable }
    /// Whether the copy of the schema could not be written.
    var lacksSchemaCopy: Bool { status.current.hasStorageProblem(.schema) }
    package var confirmedAt: Int? { status.current.confirmedAt(holding: layers) }
    package var counters: ConfigStatusReport.Counters { status.current.counters(publishes: status.publishes) }
    var upstreamVersion: String? { layers.remote?.version?.text }
    var nextAttemptAt: Int? { status.current.nextAttemptAt }
    var consecutiveFailures: Int { status.current.refreshes.consecutiveFailures }
}

/// The results of the refreshes and pushes of a namespace's remote layer. Times are milliseconds since 1970.
struct RefreshRecord: Sendable {
    /// Why the last refresh failed; nil after a success.
    private(set) var lastError: ConfigStatusReport.Problem?
    /// The last refused document; nil once another document is accepted.
    private(set) var refused: ConfigStatusReport.Refusal?
    private(set) var quarantine: ConfigStatusReport.Quarantine?
    /// The latest time at which the document was current, as the last successful refresh has shown; nil before the
    /// first one.
    private(set) var confirmedAt: Int?
    private(set) var lastAttemptAt: Int?
    private(set) var lastSuccessAt: Int?
    private(set) var consecutiveFailures = 0
    /// Whether there was a remote document when the last refresh failed.
    private(set) var isHolding = false
    private(set) var counters = ConfigStatusReport.Counters()

    mutating func began(now: Int) {
        lastAttemptAt = now
        counters.attempted += 1
    }

    /// - Parameter isLongPoll: whether the request was a long poll. Its response may arrive long after the request, and
    ///   shows that the document is current when the response arrives.
    /// - Parameter followFailure: why the source sends no later changes; nil if it does
    mutating func succeeded(changed: Bool, isLongPoll: Bool, followFailure: ConfigError? = nil, now: Int) {
        lastSuccessAt = now
        confirmedAt = isLongPoll ? now : lastAttemptAt
        consecutiveFailures = 0
        lastError = followFailure.map { ConfigStatusReport.Problem(error: $0, at: now) }
        if changed { counters.changed += 1 } else { counters.notModified += 1 }
        accepted()
    }

    mutating func failed(_ error: ConfigError, isHolding: Bool, now: Int) {
        lastError = ConfigStatusReport.Problem(error: error, at: now)
        consecutiveFailures += 1
        self.isHolding = isHolding
        counters.failed += 1
    }

    mutating func accepted() {
        refused = nil
        quarantine = nil
    }

    mutating func refused(_ version: UpstreamVersion?, _ error: ConfigError, now: Int) {
        refused = ConfigStatusReport.Refusal(
            version: version?.text, reason: error.message, canForce: error.canForce, at: now)
        if let deletion = error.deletion {
            quarantine = ConfigStatusReport.Quarantine(version: version?.text, deletion: deletion, at: now)
        }
    }

    /// Resets the results, because the source was replaced. The counters and the time of the last attempt stay.
    mutating func sourceChanged() {
        accepted()
        lastError = nil
        lastSuccessAt = nil
        confirmedAt = nil
        consecutiveFailures = 0
    }
}
