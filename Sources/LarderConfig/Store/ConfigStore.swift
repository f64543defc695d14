import CLinuxShims
import Glibc
package import LarderConfigModel
import LarderConfigStorage
import LarderEncoding
import LarderHTTPSemantics
package import LarderJSON
import LarderPlatform
import Logging

/// The only writer of one namespace's configuration.
///
/// Changes wait in a queue and are committed strictly one batch after the other by a single committer. That, and not the actor,
/// keeps them apart while the disk is waited for. A batch is resolved into one snapshot, put on disk if a client was promised
/// that, and only then published, in one step without a suspension point. Writers that wait together share one disk write.
package actor ConfigStore {
    /// Where the current snapshot is read, without waiting for this actor.
    package nonisolated let publication: ConfigPublication
    /// What waits for the committer.
    nonisolated let changes = ChangeQueue()
    nonisolated let storage: NamespaceStorage

    let core: CommitCore
    private(set) var expiry: OverrideExpiry
    private var status: SharedStatus
    private var limits: StoreLimits
    private let clocks: StoreClocks
    private let log: StoreLog
    private var olderGenerations: OlderGenerations
    private let archived: ArchivedSnapshots

    private init(
        _ opening: StoreOpening, storage: NamespaceStorage, limits: StoreLimits, status: NamespaceStatus,
        clocks: StoreClocks, logger: Logger
    ) {
        let status = SharedStatus(status.restored(from: opening.layers, now: clocks.wallClock.now))
        publication = ConfigPublication(
            namespace: storage.namespace, epoch: opening.epoch, snapshot: opening.snapshot,
            status: StatusRecord(status, holding: opening.layers))
        core = CommitCore(
            layers: opening.layers, snapshot: opening.snapshot, history: opening.history, numbering: opening.numbering)
        expiry = OverrideExpiry(opening.layers.override, clocks)
        log = StoreLog(namespace: storage.namespace, clock: clocks.clock, logger: logger)
        olderGenerations = OlderGenerations(inFiles: opening.olderFiles)
        archived = ArchivedSnapshots(storage: storage)
        self.status = status
        self.storage = storage
        self.limits = limits
        self.clocks = clocks
    }

    /// Makes the store of what a start has recovered, and reserves revisions, so that none that it shows stands for two contents.
    static func open(
        _ recovered: RecoveredState, storage: NamespaceStorage, rules: LayerRules = LayerRules(), limits: StoreLimits,
        status: NamespaceStatus, clocks: StoreClocks, logger: Logger
    ) async throws(FileError) -> ConfigStore {
        var opening = StoreOpening(
            recovered, epoch: storage.epoch, rules: rules, mayPublishEmpty: !status.hasRemote,
            now: clocks.wallClock.now)
        if let bound = opening.reservation {
            do throws(FileError) {
                try await storage.reserve(bound)
            } catch {
                opening.endWithProcess(in: StateDirectory.newEpoch())
                logger.error(
                    "revisions cannot be reserved on disk; what is held is served under an epoch that ends with the agent",
                    metadata: ["namespace": "\(storage.namespace)", "epoch": "\(opening.epoch)", "error": "\(error)"])
            }
        }
        let store = ConfigStore(
            opening, storage: storage, limits: limits, status: status, clocks: clocks, logger: logger)
        await store.begin(opening)
        return store
    }

    private func begin(_ opening: StoreOpening) {
        if let problem = core.layers.experiment.problem { log.experimentsLeftOut(problem) }
        for generation in opening.onlyInJournal { storage.writeBehind(core.history[generation.revision] ?? generation) }
        if opening.isUnwritten { storage.writeBehind(core.currentGeneration) }
        if opening.isNew, core.snapshot.revision > 0 { log.published(core.snapshot, [ChangeCause(.start)]) }
    }

    // MARK: Changes

    /// Puts a value into the override layer.
    /// - Throws: `invalidChange`, `locked`, `rejected`, `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    package func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer? = nil
    ) async throws(ConfigError) -> CommitOutcome {
        try await commit(.set(path: path.segments, value: value, timeToLive: timeToLive, by: peer))
    }

    /// Removes the overrides at a path and below it.
    /// - Throws: `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    package func unset(_ path: JSONPath, by peer: Peer? = nil) async throws(ConfigError) -> CommitOutcome {
        try await commit(.unset(path: path.segments, by: peer))
    }

    /// Submits a change, and does not wait.
    /// - Parameters:
    ///   - executor: where it is committed, together with what is submitted until the executor runs the committer; nil for any thread
    ///   - completion: receives the result; must not wait
    package nonisolated func submit(
        _ change: LayerChange, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        let id = changes.newID()
        if changes.add(change, id: id, completion) {
            Task(executorPreference: executor) { await self.runCommitter() }
        }
        return ChangeHandle(queue: changes, id: id)
    }

    /// Commits a change. What need not wait for the disk is published when this returns, without a change of threads.
    func commit(_ change: LayerChange) async throws(ConfigError) -> CommitOutcome {
        try await changes.add(change) { Task.immediate { await self.runCommitter() } }
    }

    /// Replaces a layer that is read from files.
    func replaceFiles(_ layer: FileLayer, with content: ComposedPatch) async throws(ConfigError) -> CommitOutcome {
        try await commit(.files(layer, content))
    }

    /// Replaces the remote layer, if the document is not older than the current one or `force` is set.
    func replaceRemote(
        _ document: SourceDocument, origin: String, force: Bool, isPush: Bool
    ) async throws(ConfigError) -> CommitOutcome {
        do {
            return try await commit(.remote(document, origin: origin, force: force, isPush: isPush))
        } catch {
            if error.code == .rejected { report { $0.refused(document.version, error, now: $1) } }
            throw error
        }
    }

    /// Adopts the limits of other settings, and the status that begins with them.
    func configure(_ limits: StoreLimits, history: HistoryLimits, status: NamespaceStatus) {
        self.limits = limits
        storage.configure(history)
        report { $0 = status.continuing($0, layers: core.layers, now: $1) }
    }

    /// Adopts the locks and experiments of other settings.
    func follow(_ rules: LayerRules) async {
        if core.layers.rules == rules { return }
        await commit(.rules(rules), orLog: "locks and experiments of the new settings could not be taken over")
    }

    /// Forgets a remote document whose source is no longer in the settings. One that was pushed stays.
    func dropRemote(unlessFrom location: String?) async {
        guard let origin = core.layers.remote?.origin, origin != SourceOrigin.push, location == nil else { return }
        await commit(.dropRemote, orLog: "the remote layer could not be removed")
    }

    private func commit(_ change: LayerChange, orLog problem: Logger.Message) async {
        do { _ = try await commit(change) } catch { log.failed(problem, error) }
    }

    // MARK: The committer

    /// Commits all changes that wait. It suspends only for the disk, for a large configuration and after a full batch: a call of an
    /// asynchronous function costs more than the change of a scalar.
    private func runCommitter() async {
        while true {
            let maxChanges = limits.maxChanges(isExpensive: core.isExpensive)
            guard let pending = changes.take(atMost: maxChanges) else { return }
            let now = clocks.wallClock.now
            let commit = PendingCommit(
                pending,
                to: core.batch(limits: limits.documents, now: now, recordsOperations: limits.durability == .full))
            let mayPublishEmpty = !status.hasRemote
            let resolution =
                if core.isExpensive {
                    await core.resolveConcurrently(commit.batch, mayPublishEmpty: mayPublishEmpty, now: now)
                } else {
                    core.resolve(commit.batch, mayPublishEmpty: mayPublishEmpty, now: now)
                }
            let causes = resolution.snapshot === core.snapshot ? [] : commit.batch.causes
            let need = core.need(for: resolution, of: commit.batch, writesJournal: commit.comesFromClient)
            if need != .nothing, await !meet(need, of: commit, resolution, causes) { continue }
            finish(commit, resolution, causes, met: need, now: now)
            if pending.count == maxChanges { await Task.yield() }
        }
    }

    /// Puts on disk what must be there before the snapshot is published. If that fails, the changes are refused.
    /// - Returns: whether it is there
    private func meet(
        _ need: CommitNeed, of commit: PendingCommit, _ resolution: Resolution, _ causes: [ChangeCause]
    ) async -> Bool {
        do throws(FileError) {
            switch need {
            case .nothing: break
            case .journal(let sequence, let settledBound):
                try await storage.append(
                    JournalEntry(
                        sequence: sequence, settledBound: settledBound, snapshot: resolution.snapshot,
                        digest: resolution.digest, operations: commit.batch.operations, causes: causes),
                    after: core.currentGeneration)
            case .reservation(let bound): try await storage.reserve(bound)
            }
            return true
        } catch {
            log.storageFailed(error)
            let refusal = ConfigError(
                .storageFailed, "\(error); nothing was changed. Free space or repair the disk, then try again")
            report { $0.storageFailed(refusal, now: $1) }
            commit.refuse(refusal)
            return false
        }
    }

    /// Publishes a commit whose needs are on disk. From here on nothing suspends. The status is noted before the snapshot is
    /// published, since subscribers are sent it with the snapshot.
    private func finish(
        _ commit: PendingCommit, _ resolution: Resolution, _ causes: [ChangeCause], met need: CommitNeed, now: Int
    ) {
        if commit.batch.hasChanged, status.hasStorageProblem {
            status.change { $0.storageWorked() }
            log.storageWorked()
        }
        commit.note(in: &status, clocks.wallClock)
        let effects = core.commit(commit.batch, resolution, causes: causes, met: need)
        if let problem = effects.experimentProblem { log.experimentsLeftOut(problem) }
        if effects.isNew {
            status.publishes += 1
            publication.publish(core.snapshot, status: StatusRecord(status, holding: core.layers))
            log.published(core.snapshot, causes)
        } else {
            publication.update(StatusRecord(status, holding: core.layers))
        }
        log.note(status, now: now)
        commit.complete(revision: core.snapshot.revision, isNew: effects.isNew)
        guard commit.batch.hasChanged else { return }
        storage.writeBehind(core.currentGeneration)
        if expiry.note(commit.batch, in: core.layers.override) { armExpiry() }
    }

    // MARK: Overrides that expire

    /// Sets the timer for the next override that expires. After a failure it waits for the next attempt instead.
    func armExpiry() {
        guard let next = expiry.next(in: core.layers.override, isStopping: changes.isStopping) else { return }
        expiry.set(Task { await self.expireOverrides(at: next) }, for: next)
    }

    private func expireOverrides(at next: ExpiryQueue.Moment) async {
        guard await expiry.time.sleep(until: next) else { return }
        expiry.timerEnded()
        do {
            try await expireOverrides()
        } catch {
            log.failed("cannot remove expired overrides; the next attempt is in a minute", error)
            expiry.postpone()
        }
        armExpiry()
    }

    func expireOverrides() async throws(ConfigError) {
        let now = expiry.now
        let expired = expiry.popExpired(at: now)
        if expired.isEmpty { return }
        do {
            _ = try await commit(.expireOverrides(expired))
        } catch {
            expiry.restore(expired, at: now, in: core.layers.override)
            throw error
        }
    }

    // MARK: The history

    /// The history, with what is on disk. A start reads only the newest generation, so that it takes little time. The first call
    /// that needs older ones reads them.
    /// - Parameter revision: a snapshot that is all the caller needs; nil for all
    package func history(of revision: Int? = nil) async -> SnapshotHistory {
        let isKnown = revision.map { core.history[$0] != nil } ?? false
        if !isKnown, let reading = olderGenerations.read(before: core.history, from: storage) {
            let older = await reading.value
            // Of the callers that have waited together, the first one adds them.
            if olderGenerations.end() { core.prepend(older) }
        }
        return SnapshotHistory(
            publication: publication, newest: core.history.generations,
            current: core.snapshot.revision > 0 ? core.currentGeneration : nil, storage: storage, archived: archived)
    }

    /// Returns to the content of an earlier snapshot, as a new one. Its overrides no longer expire. Documents that differ from what
    /// the sources have now are held until ``release(by:)``, a forced refresh or push, or a document that ends the hold by its rule.
    /// - Parameter rule: nil for ``HoldRule/untilNewer`` if the versions of the source can be ordered, else
    ///   ``HoldRule/untilReleased``
    /// - Throws: `notFound`, naming the revisions that are known; `storageFailed`, `cancelled`, `stopped`.
    package func rollBack(
        toRevision revision: Int, hold rule: HoldRule? = nil, by peer: Peer?
    ) async throws(ConfigError) -> CommitOutcome {
        let generation = try await history(of: revision).generation(ofRevision: revision)
        return try await commit(
            .rollback(to: generation.publishedLayers, revision: generation.revision, hold: rule, by: peer))
    }

    /// Ends the hold of a rollback, so that what the sources have is shown again.
    /// - Throws: `storageFailed`, `cancelled`, `stopped`.
    package func release(by peer: Peer?) async throws(ConfigError) -> CommitOutcome {
        try await commit(.release(by: peer))
    }

    /// What the layers have at a path, and since when.
    func provenance(of path: [String]) async -> PathProvenance {
        _ = await history()
        return await PathProvenance.find(path, in: core.snapshot, of: core.layers, after: core.history.generations)
    }

    // MARK: The sources

    /// The layers with what a rollback holds.
    var shownLayers: Layers { core.layers.shown }
    /// Whether a document of the remote source or of a push is held.
    var hasRemoteDocument: Bool { core.layers.hasRemote }
    /// Whether experiments are left out of the document held, which its source may have corrected.
    var lacksExperiments: Bool { core.layers.experiment.problem != nil }

    /// The validator of the document held; nil if another document is held, such as a pushed one.
    func validator(ofOrigin origin: String) -> Validator? { core.layers.validator(ofOrigin: origin) }

    /// - Parameter isLongPoll: whether the answer may take long, during which the document held counts as current
    func refreshBegan(isLongPoll: Bool) { report { $0.refreshBegan(isLongPoll: isLongPoll, now: $1) } }

    /// The source has confirmed the document held.
    func refreshConfirmed() { report { $0.remoteAnswered(changed: false, now: $1) } }

    func refreshFailed(_ error: ConfigError) {
        report { $0.failed(error, heldSince: core.layers.remote?.updatedAt, now: $1) }
    }

    /// An answer was refused because it is no configuration.
    func documentRefused(_ error: ConfigError) { report { $0.refused(nil, error, now: $1) } }

    func refreshCancelled() { report { status, _ in status.refreshCancelled() } }

    func nextAttempt(at time: Int?) { report { status, _ in status.nextAttemptAt = time } }

    func filesFailed(_ layer: FileLayer, _ message: String) {
        report { $0.filesRead(layer, problem: message, now: $1) }
    }

    /// Notes why changes of a layer's files are not watched; nil if they are.
    func watching(_ layer: ConfigLayer, problem: String?) {
        guard status.current.watchProblems[layer] != problem else { return }
        report { status, _ in status.watchProblems[layer] = problem }
    }

    /// Changes the status, publishes it and then logs it, so that whoever acts on a line of the log finds what it says.
    /// - Parameter change: is passed the time in milliseconds since 1970
    private func report(_ change: (inout NamespaceStatus, _ now: Int) -> Void) {
        let now = clocks.wallClock.now
        status.change { change(&$0, now) }
        publication.update(StatusRecord(status, holding: core.layers))
        log.note(status, now: now)
    }

    // MARK: The end

    /// What the store has to do within a time, as ``ConfigNamespace/pendingWork(within:)``.
    func pendingWork(within time: Duration) -> String? {
        if changes.isAtWork { return "is being changed" }
        if storage.isAtWork { return "is being written to the disk" }
        let ends = core.layers.override.expiringEntries.compactMap(\.expiresAt)
        if let next = ends.min(), next - clocks.wallClock.now <= time.milliseconds {
            return "has an override that ends soon"
        }
        return nil
    }

    /// Returns when the actor has come to it: for a watchdog.
    package func probe() {}

    #if DEBUG
        /// Blocks the actor and a thread indefinitely: for a test of the watchdog.
        package func blockForEver() -> Never { while true { pause() } }
    #endif

    /// Takes no more changes, waits for those that were accepted, and leaves everything on disk with exact revisions.
    func stop() async {
        changes.stop()
        armExpiry()
        await changes.waitUntilIdle()
        // Nothing more is published, so that this generation settles every reservation.
        log.flush()
        core.settleReservations()
        _ = await olderGenerations.reading?.value
        if core.snapshot.revision == 0 { return }
        do throws(FileError) {
            try await storage.finish(with: core.currentGeneration)
        } catch {
            log.failed(
                "the journal cannot be shortened; it takes more of the disk than it needs", error, level: .warning)
        }
    }
}
