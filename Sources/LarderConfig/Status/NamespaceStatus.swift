package import LarderConfigModel
import LarderConfigSources
import LarderEncoding
import LarderJSON
import Synchronization

/// How current a namespace's configuration is.
package enum Freshness: String, Sendable {
    /// The remote source has not responded yet, and no document of it is on disk.
    case initializing
    /// The last refresh succeeded, or there is no remote source.
    case fresh
    /// A refresh is in progress.
    case refreshing
    /// The last refresh failed, no refresh has succeeded since the start, or the files of a layer cannot be read. The
    /// last good snapshot is served.
    case stale
    /// The last refresh failed, and there is no remote document or it has expired.
    case failed
}

/// The part of a namespace's status that does not follow from its layers. The store changes it, and publishes it as a
/// ``PublishedStatus``. Times are milliseconds since 1970.
package struct NamespaceStatus: Sendable {
    package struct Problem: Sendable {
        package let error: ConfigError
        package let at: Int
    }

    /// A document that was rejected.
    package struct Rejection: Sendable {
        /// Its upstream version; nil if it had none.
        package let version: String?
        package let reason: String
        /// Whether a refresh or push with `force` skips the check that rejected it.
        package let canForce: Bool
        package let at: Int
    }

    /// A document that was rejected because it would remove more members than the settings allow.
    package struct Quarantine: Sendable {
        /// Its upstream version; nil if it had none.
        package let version: String?
        package let deletion: MassDeletion
        package let at: Int
    }

    /// Counters since the start.
    package struct Counters: Sendable {
        /// Requests to the source.
        package fileprivate(set) var attempted = 0
        /// Responses that changed the remote layer.
        package fileprivate(set) var changed = 0
        /// Responses without a change: "not modified", or the same document.
        package fileprivate(set) var notModified = 0
        /// Failed refreshes, including rejected documents.
        package fileprivate(set) var failed = 0
    }

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

    /// The remote source; nil if the namespace has none.
    private(set) var source: Source?
    /// The locations of the file layers that the namespace has.
    private(set) var files: [FileLayer: String]
    /// Why the last read of a file layer failed.
    private(set) var fileProblems: [FileLayer: String] = [:]
    /// Why changes of a layer's files are not watched.
    var watchProblems: [ConfigLayer: String] = [:]
    /// Why the last write of a part of the state failed; no entry if it succeeded.
    private var writeProblems: [StoredPart: Problem] = [:]
    /// The state of the schema.
    var schema = SchemaStatus()
    /// Why the schema file cannot be used; nil if it can, or if there is none.
    var schemaFileProblem: String?
    /// The last rejected document of the source or of a push; nil once another document is accepted.
    private(set) var rejected: Rejection?
    /// The last document that was rejected because it would remove too many members; nil once another document is
    /// accepted.
    private(set) var quarantine: Quarantine?
    private(set) var counters = Counters()

    /// The freshness, ignoring file problems, a refresh in progress and ``isDue``.
    private(set) var settled: Freshness
    /// Whether the remote document is from before the start, or from another source, and the first attempt to confirm it
    /// has not ended; or the first connection of the source has not been opened yet. Nothing has failed yet.
    private var isDue = false
    /// When ``freshnessAtRest`` last changed. A repeated failure does not change this time.
    private var settledSince = 0
    /// When the refresh in progress began; nil if no refresh is in progress, or only a long poll.
    private var refreshingSince: Int?

    init(source: Source?, files: [FileLayer: String] = [:]) {
        self.source = source
        self.files = files
        settled = source == nil ? .fresh : .initializing
    }

    var hasRemote: Bool { source != nil }

    var freshness: Freshness { refreshingSince == nil ? freshnessAtRest : .refreshing }

    /// The freshness, ignoring a refresh in progress.
    var freshnessAtRest: Freshness {
        if isDue, fileProblems.isEmpty { return .refreshing }
        return settled == .fresh && !fileProblems.isEmpty ? .stale : settled
    }

    /// When ``freshness`` last changed.
    var since: Int { refreshingSince ?? settledSince }

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
        status.source = previous.source.flatMap { source?.continuing($0) } ?? source
        status.files = files
        status.fileProblems = [:]
        status.watchProblems = [:]
        if source?.identity != previous.source?.identity {
            status.refreshingSince = nil
            status.accepted()
            status.settled = hasRemote ? .initializing : .fresh
            status.expectConfirmation(of: layers)
            status.settledSince = now
        }
        return status
    }

    mutating func refreshBegan(isLongPoll: Bool, now: Int) {
        counters.attempted += 1
        source?.lastAttemptAt = now
        if isLongPoll || refreshingSince != nil { return }
        refreshingSince = freshnessAtRest == .refreshing ? settledSince : now
    }

    mutating func refreshCancelled() { refreshingSince = nil }

    /// Records whether the source sends changes. Must be called before the result of a refresh is recorded.
    mutating func follows(_ following: SourceFollowing) { source?.following = following }

    /// Records when the next poll is scheduled; nil for none.
    mutating func nextAttempt(at time: Int?) { source?.nextAttemptAt = time }

    mutating func remoteAnswered(changed: Bool, now: Int) {
        if changed { counters.changed += 1 } else { counters.notModified += 1 }
        source?.answered(isLongPoll: refreshingSince == nil, now: now)
        accepted()
        change(now) {
            $0.refreshingSince = nil
            $0.confirmed()
        }
    }

    mutating func remotePushed(now: Int) {
        accepted()
        change(now) { $0.confirmed() }
    }

    private mutating func accepted() {
        rejected = nil
        quarantine = nil
    }

    /// The remote document is the current one. The source may nevertheless send no changes.
    private mutating func confirmed() {
        isDue = source?.following.isConnecting ?? false
        settled = source?.following.failure == nil ? .fresh : .stale
    }

    mutating func rejected(_ version: UpstreamVersion?, _ error: ConfigError, now: Int) {
        rejected = Rejection(version: version?.text, reason: error.message, canForce: error.canForce, at: now)
        if let deletion = error.deletion {
            quarantine = Quarantine(version: version?.text, deletion: deletion, at: now)
        }
    }

    /// - Parameter documentSince: when the remote document last changed, in milliseconds since 1970; nil for no
    ///   document
    mutating func failed(_ error: ConfigError, documentSince: Int?, now: Int) {
        counters.failed += 1
        source?.failed(error, isHolding: documentSince != nil, now: now)
        change(now) {
            $0.refreshingSince = nil
            $0.isDue = false
            $0.settled = $0.isServiceable(documentSince, now) ? .stale : .failed
        }
    }

    /// Whether there is a remote document and, if ``Source/staleIfError`` is set, its last confirmation is at most that
    /// long ago. A confirmation in the future, before the clock was set back, does not count.
    private func isServiceable(_ documentSince: Int?, _ now: Int) -> Bool {
        guard let documentSince else { return false }
        guard let staleIfError = source?.staleIfError else { return true }
        let age = now - max(documentSince, source?.lastSuccessAt ?? documentSince)
        return age >= 0 && age <= staleIfError.milliseconds
    }

    mutating func storageFailed(_ part: StoredPart, _ error: ConfigError, now: Int) {
        writeProblems[part] = Problem(error: error, at: now)
    }

    /// Records that the epoch ends with the process, because no revisions can be reserved.
    mutating func reservationFailed(_ reason: String, now: Int) {
        let remedy =
            "the history begins with this start, and clients get the whole configuration after the next one; "
            + "free space or repair the disk"
        storageFailed(.epoch, ConfigError(.storageFailed, "\(reason); \(remedy)"), now: now)
    }

    mutating func storageWorked(_ part: StoredPart) { writeProblems[part] = nil }

    /// Whether the last write of a part failed.
    func hasStorageProblem(_ part: StoredPart) -> Bool { writeProblems[part] != nil }

    /// Whether the last write of any part failed.
    var isUnwritable: Bool { !writeProblems.isEmpty }

    /// The last of the failed writes; nil if no part of the state has one.
    var writeError: Problem? { writeProblems.values.max { $0.at < $1.at } }

    /// The last problem with the source or the disk; nil once both work again.
    var lastError: Problem? { [source?.lastError, writeError].compactMap { $0 }.max { $0.at < $1.at } }

    mutating func filesRead(_ layer: FileLayer, problem: String?, now: Int) {
        change(now) { $0.fileProblems[layer] = problem }
    }

    /// Applies a change. If it changes ``freshnessAtRest``, also updates ``settledSince``.
    private mutating func change(_ now: Int, _ body: (inout NamespaceStatus) -> Void) {
        let before = freshnessAtRest
        body(&self)
        if freshnessAtRest != before { settledSince = now }
    }

    /// Why new content was rejected last, at most 200 characters; nil if no content is rejected now.
    var rejection: String? {
        guard let rejection = schema.rejection else { return rejected?.reason.excerpt }
        let what = rejection.layer.map { "layer \($0)" } ?? "settings"
        return "\(what): \(rejection.problems.first?.text ?? "it violates the schema")".excerpt
    }

    /// A remote source, and the results of the requests to it since the start. Times are milliseconds since 1970.
    package struct Source: Sendable {
        /// `http`, `sse`, `file` or `etcd`.
        package let kind: String
        /// URL or path, for people.
        package let location: String
        /// Whether two sources are the same; see ``ConfigSource/identity``.
        let identity: String
        /// How long after the last confirmation of the remote document a failed refresh makes the namespace only
        /// `stale`. A failed refresh after that makes the namespace `failed`. Nil for no limit.
        let staleIfError: Duration?
        /// The time of the last request, also to a previous source; nil for none.
        package fileprivate(set) var lastAttemptAt: Int?
        /// The time of the last usable response; nil for none.
        package private(set) var lastSuccessAt: Int?
        /// The latest time at which the document was current, as the last successful refresh has shown; nil before the
        /// first one.
        private(set) var confirmedAt: Int?
        /// The time of the next poll; nil if none is scheduled.
        package fileprivate(set) var nextAttemptAt: Int?
        package private(set) var consecutiveFailures = 0
        /// Why the last refresh failed, or why the source sends no changes; nil if neither is the case.
        private(set) var lastError: Problem?
        /// Whether there was a remote document when the last refresh failed.
        private(set) var isHolding = false
        /// Whether the source sends changes, as of the last refresh.
        fileprivate(set) var following = SourceFollowing.working

        /// Why the connection over which the source reports changes failed last; nil if it works or the source needs
        /// none. A rejected document ends the connection, too, but then the document is the problem.
        package var watchError: String? {
            following.failure.flatMap { $0.code == .upstreamFailed ? $0.message : nil }
        }

        init(_ kind: String, at location: String, identity: String? = nil, staleIfError: Duration? = nil) {
            self.kind = kind
            self.location = location
            self.identity = identity ?? location
            self.staleIfError = staleIfError
        }

        /// This source with the results of the previous one if both are the same source. Otherwise only the time of the
        /// last attempt is kept.
        fileprivate func continuing(_ previous: Source) -> Source {
            var source = self
            source.lastAttemptAt = previous.lastAttemptAt
            if identity != previous.identity { return source }
            source.lastSuccessAt = previous.lastSuccessAt
            source.confirmedAt = previous.confirmedAt
            source.consecutiveFailures = previous.consecutiveFailures
            source.lastError = previous.lastError
            source.isHolding = previous.isHolding
            source.following = previous.following
            return source
        }

        /// - Parameter isLongPoll: whether the request was a long poll. Its response may arrive long after the request,
        ///   and shows that the document is current when the response arrives.
        fileprivate mutating func answered(isLongPoll: Bool, now: Int) {
            lastSuccessAt = now
            confirmedAt = isLongPoll ? now : lastAttemptAt
            consecutiveFailures = 0
            lastError = following.failure.map { Problem(error: $0, at: now) }
        }

        fileprivate mutating func failed(_ error: ConfigError, isHolding: Bool, now: Int) {
            lastError = Problem(error: error, at: now)
            consecutiveFailures += 1
            self.isHolding = isHolding
        }
    }
}

/// A histogram of the durations of requests to sources. Any thread adds to it.
package final class RequestDurations: Sendable {
    private final class Counter: Sendable {
        let count = Atomic<Int>(0)
    }

    /// The longest duration of each class but the last, which has the longer ones.
    package static let boundsMilliseconds = [10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000]

    private let classes = (0...boundsMilliseconds.count).map { _ in Counter() }
    private let total = Atomic<Int>(0)

    package init() {}

    /// Counts a request.
    func add(_ duration: Duration) {
        let milliseconds = max(0, duration.milliseconds)
        let index = Self.boundsMilliseconds.firstIndex { milliseconds <= $0 } ?? Self.boundsMilliseconds.count
        classes[index].count.add(1, ordering: .relaxed)
        total.add(milliseconds, ordering: .relaxed)
    }

    /// The number of requests in each class.
    package var counts: [Int] { classes.map { $0.count.load(ordering: .relaxed) } }
    /// The sum of all durations.
    package var totalMilliseconds: Int { total.load(ordering: .relaxed) }
}
