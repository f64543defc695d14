import Glibc
package import LarderConfigModel
import LarderConfigSources
import LarderConfigStorage
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform
import Logging

/// The only writer of one namespace's configuration.
///
/// Changes wait in a queue, and a single committer commits them, one batch at a time. The committer, not the actor,
/// keeps batches apart: the actor is reentrant while it waits for the disk. A batch is resolved into one snapshot. If
/// the snapshot needs a journal record or a reservation of revisions, that is written first. Then the snapshot is
/// published in one step, without a suspension point. Changes that wait together share one disk write.
package actor ConfigStore {
    /// The current snapshot. Reading it does not wait for this actor.
    package nonisolated let publication: ConfigPublication
    /// The changes that wait for the committer.
    nonisolated let changes = ChangeQueue()
    nonisolated let storage: NamespaceStorage

    let committer: Committer
    private let clocks: StoreClocks
    private let log: StoreLog
    private let archived: ArchivedSnapshots

    private init(
        _ opening: InitialStoreState, storage: NamespaceStorage, limits: StoreLimits, status: NamespaceStatus,
        locator: ViolationLocator?, clocks: StoreClocks, logger: Logger
    ) {
        var restored = status.restored(from: opening.layers, now: clocks.wallClock.now)
        restored.schema = opening.gate.status(opening.schemaProblems)
        let status = PublishedStatus(restored, holding: opening.layers)
        publication = ConfigPublication(
            namespace: storage.namespace, epoch: opening.epoch, snapshot: opening.snapshot, status: status)
        log = StoreLog(namespace: storage.namespace, clock: clocks.clock, logger: logger)
        committer = Committer(
            opening, publication: publication, status: status, storage: storage, limits: limits, clocks: clocks,
            log: log, locator: locator)
        archived = ArchivedSnapshots(storage: storage)
        self.storage = storage
        self.clocks = clocks
    }

    /// The layers, the current snapshot and the numbering.
    var state: CommittedState { committer.state }

    /// Opens a store and, if necessary, reserves revisions on disk. If the reservation fails, the store uses an epoch
    /// that ends with the process. Its revisions are then not comparable with those of other processes. The reservation is
    /// repeated in the background, so that the status shows when the disk works again.
    /// - Parameters:
    ///   - recovered: the state from disk, with the current content of the files
    ///   - lastGood: the layers of the state from disk, with which the store begins if the schema rejects the others;
    ///     nil for those of `recovered`
    ///   - locator: finds the file and line of a violation of the schema; nil if that is not possible
    static func open(
        _ recovered: RecoveredState, storage: NamespaceStorage, rules: LayerRules = LayerRules(), limits: StoreLimits,
        status: NamespaceStatus, schema: NamespaceSchema? = nil, lastGood: Layers? = nil,
        locator: ViolationLocator? = nil, clocks: StoreClocks, logger: Logger
    ) async throws(FileError) -> ConfigStore {
        var (recovered, lastGood, status) = (recovered, lastGood, status)
        var hasAdopted = false
        if let source = status.source {
            hasAdopted = recovered.layers.adopt(source.identity, at: source.location)
            _ = lastGood?.adopt(source.identity, at: source.location)
        }
        var opening = InitialStoreState(
            recovered, epoch: storage.epoch, rules: rules, schema: schema, lastGood: lastGood,
            mayPublishEmpty: !status.hasRemote, now: clocks.wallClock.now)
        if let locator { await opening.locateViolations(with: locator) }
        if let bound = opening.reservation {
            do throws(FileError) {
                try await storage.reserve(bound)
            } catch {
                opening.endWithProcess(in: StateDirectory.newEpoch())
                logger.error(
                    "namespace \(storage.namespace): cannot reserve revisions on disk; the state is served under an epoch that ends with the agent: \(error)",
                    metadata: ["namespace": "\(storage.namespace)", "epoch": "\(opening.epoch)", "error": "\(error)"])
                status.reservationFailed(error.description, now: clocks.wallClock.now)
            }
        }
        let store = ConfigStore(
            opening, storage: storage, limits: limits, status: status, locator: locator, clocks: clocks, logger: logger)
        await store.begin(opening, hasAdopted: hasAdopted)
        return store
    }

    /// - Parameter hasAdopted: whether the generation must be written again; see ``Layers/adopt(_:at:)``
    private func begin(_ opening: InitialStoreState, hasAdopted: Bool) {
        storage.writer.observeProblem { [weak self] in Task { await self?.noteWriteProblem() } }
        if let problem = state.layers.experiment.problem { log.experimentsLeftOut(problem) }
        for rejected in opening.gate.rejected { log.rejectedBySchema(rejected) }
        if !opening.schemaProblems.isEmpty, state.snapshot.revision > 0 { log.violatesSchema(opening.schemaProblems) }
        if let problem = committer.status.schemaFileProblem {
            log.schemaUnusable(problem, previous: schema?.settings.path)
        }
        if let bound = opening.reservation, committer.status.current.hasStorageProblem(.epoch) {
            storage.retryReservation(of: bound) { [weak self] in Task { await self?.reservationWorked() } }
        }
        for generation in opening.onlyInJournal {
            storage.writer.note(committer.history[generation.revision] ?? generation)
        }
        if opening.isUnwritten || hasAdopted { storage.writer.note(state.generation) }
        if opening.isNew, state.snapshot.revision > 0 { log.published(state.snapshot, [ChangeCause(.start)]) }
    }

    // MARK: Changes

    /// Submits a change without waiting for it. ``ChangeQueue/Completion`` says why this is not an async method.
    /// - Parameters:
    ///   - executor: runs the committer, which takes all changes submitted before it starts; nil for any thread
    ///   - completion: receives the result; must not block
    package nonisolated func submit(
        _ change: LayerChange, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        let id = changes.newID()
        if changes.add(change, id: id, completion) {
            // A task that starts immediately waits for the actor at once, so that it takes one job on the executor instead
            // of two. Without an executor, it could run the committer on the current thread.
            if let executor {
                Task.immediate(executorPreference: executor) { await self.runCommitter() }
            } else {
                Task { await self.runCommitter() }
            }
        }
        return ChangeHandle(queue: changes, id: id)
    }

    /// Commits a change and waits for the result. If the configuration is small and the commit needs no disk write,
    /// there is no thread switch.
    package func commit(_ change: LayerChange) async throws(ConfigError) -> CommitOutcome {
        try await changes.add(change) { Task.immediate { await self.runCommitter() } }
    }

    /// Replaces the remote document.
    /// - Parameter force: whether to skip the checks of the version and of the number of removed members, and to end
    ///   the hold of a rollback
    /// - Throws: `rejected`, `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    func replaceRemote(
        _ document: SourceDocument, origin: String, force: Bool, isPush: Bool, terms: ChangeTerms = ChangeTerms()
    ) async throws(ConfigError) -> CommitOutcome {
        do {
            return try await commit(.remote(document, origin: origin, force: force, isPush: isPush).on(terms))
        } catch {
            if error.code == .rejected { report { $0.rejected(document.version, error, now: $1) } }
            throw error
        }
    }

    /// Applies the limits of new settings, and adapts the status to them.
    func configure(
        _ limits: StoreLimits, history: HistoryLimits, status: NamespaceStatus, locator: ViolationLocator? = nil
    ) {
        (committer.limits, committer.locator) = (limits, locator)
        storage.configure(history)
        report { $0 = status.continuing($0, layers: state.layers, now: $1) }
    }

    /// Applies the locks and experiments of new settings. A failure is logged.
    func follow(_ rules: LayerRules) async {
        // The current rules replace those of previous settings that the schema has rejected.
        if state.layers.rules == rules, !committer.gate.rejectsRules { return }
        await commit(.rules(rules), orLog: "cannot apply the locks and experiments of the new settings")
    }

    /// Removes the remote document if a source sent it and the settings no longer have a remote source. A pushed
    /// document stays.
    /// - Parameter source: the identity of the remote source in the settings; nil if the settings have none
    func dropRemote(unlessFrom source: String?) async {
        committer.forgetRejectedDocument(unlessFrom: source)
        guard let origin = state.layers.remote?.origin, origin != SourceOrigin.push, source == nil else { return }
        await commit(.dropRemote, orLog: "cannot remove the remote layer")
    }

    /// Resolves and validates a change of the current state as a commit would, and changes nothing.
    /// - Throws: The errors of the commit, except for `schemaViolation` and those of the disk.
    package func preview(_ change: LayerChange) async throws(ConfigError) -> ChangePreview {
        var preview = try await preview(change, after: [])
        if preview.schemaProblems.isEmpty { return preview }
        let companions = committer.companions(of: change)
        if !companions.isEmpty {
            let first = try await self.preview(change, after: companions)
            if first.schemaProblems.isEmpty { return first }
        }
        let problems = await committer.locator?.located(preview.schemaProblems) ?? preview.schemaProblems
        preview.schemaProblems = change.quoting(problems)
        return preview
    }

    private func preview(
        _ change: LayerChange, after others: [LayerChange]
    ) async throws(ConfigError) -> ChangePreview {
        let previous = state.layers
        var preview = try await state.preview(
            change, after: others, committer.context(recordsOperations: false))
        if let schema, preview.isChange, preview.publishes {
            preview.schemaProblems = await schema.problemsConcurrently(of: preview.value, in: preview.layers)
        }
        if preview.schemaProblems.isEmpty, preview.isChange, !change.concernsOnlyOverrides {
            preview.schemaProblems = await committer.hiddenViolations(in: preview.layers, previous: previous)
        }
        return preview
    }

    /// The schema in force; nil for none.
    package var schema: NamespaceSchema? { committer.gate.schema }

    /// The schema in force from the next batch on; nil for none.
    var latestSchema: NamespaceSchema? { committer.latestSchema }

    /// Replaces the schema. The current snapshot stays published, even if it violates the new schema. The changes that
    /// the previous schema has rejected are tried again. A schema that is in force already stays.
    func use(_ schema: NamespaceSchema?) async {
        if !committer.use(schema) { return schemaFailed(nil) }
        await commit(.recheck, orLog: "cannot apply the schema")
    }

    /// Records why the schema file cannot be used; nil if it can. The previous schema stays in force.
    func schemaFailed(_ problem: String?) {
        guard committer.status.schemaFileProblem != problem else { return }
        report { status, _ in status.schemaFileProblem = problem }
        if let problem { log.schemaUnusable(problem, previous: schema?.settings.path) }
    }

    /// Commits a change, and logs a failure. The committer logs rejections by the schema.
    private func commit(_ change: LayerChange, orLog problem: String) async {
        do {
            _ = try await commit(change)
        } catch {
            if ![.schemaViolation, .cancelled, .stopped].contains(error.code) { log.failed(problem, error) }
        }
    }

    // MARK: Committer

    /// Commits all waiting changes. It suspends only to write to disk, to resolve or validate a large configuration, to
    /// find the lines of violations, and after each batch of the maximum size.
    private func runCommitter() async {
        while true {
            let maxChanges = committer.maxChanges
            guard let pending = changes.take(atMost: maxChanges) else { return }
            await committer.commit(pending)
            if committer.takeNewExpiries() { armExpiry() }
            if pending.count == maxChanges { await Task.yield() }
        }
    }

    // MARK: Override expiry

    /// Sets the timer for the next override that expires. If expired overrides could not be removed, sets it for the
    /// next attempt instead.
    func armExpiry() {
        guard let next = committer.expiry.next(in: state.layers.override, isStopping: changes.isStopping) else {
            return
        }
        committer.expiry.set(Task { await self.expireOverrides(at: next) }, for: next)
    }

    private func expireOverrides(at next: ExpiryQueue.Moment) async {
        guard await committer.expiry.time.sleep(until: next) else { return }
        committer.expiry.timerEnded()
        do {
            try await expireOverrides()
        } catch {
            log.failed("cannot remove expired overrides; retrying in 60 s", error)
        }
        armExpiry()
    }

    /// Commits the removal of the overrides that have expired. If the schema rejects the removal, or the disk fails, the
    /// removal is tried again later.
    func expireOverrides() async throws(ConfigError) {
        let expired = committer.expiry.popExpired(at: committer.expiry.now)
        if expired.isEmpty { return }
        do {
            _ = try await commit(.expireOverrides(expired))
        } catch {
            if error.code != .schemaViolation { throw error }
        }
    }

    // MARK: History

    /// The history, including the snapshots on disk.
    package func history() -> SnapshotHistory {
        SnapshotHistory(
            publication: publication, newest: committer.history.generations,
            current: state.snapshot.revision > 0 ? state.generation : nil, storage: storage, archived: archived)
    }

    /// The change that publishes the content of an earlier snapshot again, as a new snapshot. Overrides that have
    /// expired since then are not restored; all others keep their expiry. Restored documents that differ from the live
    /// ones are held until a release, a forced refresh or push, or a document that ends the hold by its rule.
    /// - Parameter rule: what ends the hold; nil for ``HoldRule/untilNewer`` if source versions can be ordered, else
    ///   ``HoldRule/untilReleased``
    /// - Throws: `notFound`, naming the revisions that are known.
    package func rollback(
        toRevision revision: Int, hold rule: HoldRule?, by peer: Peer?
    ) async throws(ConfigError) -> LayerChange {
        let generation = try await history().generation(ofRevision: revision)
        return .rollback(to: generation.publishedLayers, revision: generation.revision, hold: rule, by: peer)
    }

    /// The effect of each layer at a path, and when each effect began.
    func provenance(of path: [String]) async -> PathProvenance {
        let (snapshot, layers, generations) = (state.snapshot, state.layers, await history().generations())
        return await PathProvenance.find(path, in: snapshot, of: layers, after: generations)
    }

    private func noteWriteProblem() { committer.noteWriteProblem() }

    private func reservationWorked() { report { status, _ in status.storageWorked(.epoch) } }

    // MARK: Shutdown

    /// Describes the work that is due within a time; see ``ConfigNamespace/pendingWork(within:)``.
    func pendingWork(within time: Duration) -> String? {
        if changes.isAtWork { return "is being changed" }
        if storage.writer.isAtWork { return "is being written to the disk" }
        let next = committer.expiry.nextExpiry(in: state.layers.override)
        if let next, next - clocks.wallClock.now <= time.milliseconds {
            return "has an override that expires soon"
        }
        return nil
    }

    /// Does nothing. The watchdog measures how long the actor takes to execute the call.
    package func probe() {}

    #if DEBUG
        /// Blocks the actor and a thread indefinitely, for a test of the watchdog.
        package func blockForever() -> Never { while true { pause() } }
    #endif

    /// Refuses further changes, waits for those that were accepted, and writes everything to disk. The next start then
    /// continues with the current revision.
    func stop() async {
        changes.stop()
        armExpiry()
        await changes.waitUntilIdle()
        // Nothing is published after this, so no reserved revision above the current one will be published. The last
        // generation records that.
        log.flush()
        committer.settleReservations()
        if state.snapshot.revision == 0 { return }
        do throws(FileError) {
            try await storage.finish(with: state.generation)
        } catch {
            log.failed(
                "cannot shorten the journal; it occupies more disk space than it needs", error, level: .warning)
        }
    }
}

/// The parts of the store that the namespace's sources and files use: state to read, and reports for the status.
extension ConfigStore {
    /// The layers as they are resolved, with held documents instead of live ones.
    var shownLayers: Layers { state.layers.shown }
    /// Whether there is a document from the remote source or a push.
    var hasRemoteDocument: Bool { state.layers.hasRemote }
    /// Whether invalid experiments of the remote document are left out. If so, a fetch may return a corrected document.
    var lacksExperiments: Bool { state.layers.experiment.problem != nil }

    /// The validator of the remote document; nil if the document is from another source, or was pushed.
    /// - Parameter source: the identity of the source
    func validator(ofSource source: String) -> Validator? { state.layers.validator(ofSource: source) }

    /// - Parameter isLongPoll: whether the request is a long poll, which does not make the namespace `refreshing`
    func refreshBegan(isLongPoll: Bool) { report { $0.refreshBegan(isLongPoll: isLongPoll, now: $1) } }

    /// Records, before the result of a refresh, whether the source sends changes.
    func follows(_ following: SourceFollowing) { report { status, _ in status.follows(following) } }

    /// Records that the source has confirmed the current document.
    func refreshConfirmed() {
        committer.forgetRejectedDocument()
        report { $0.remoteAnswered(changed: false, now: $1) }
    }

    func refreshFailed(_ error: ConfigError) {
        report { $0.failed(error, documentSince: state.layers.remote?.updatedAt, now: $1) }
    }

    /// Records that a response was rejected because it is not a valid configuration.
    func documentRejected(_ error: ConfigError) { report { $0.rejected(nil, error, now: $1) } }

    func refreshCancelled() { report { status, _ in status.refreshCancelled() } }

    func nextAttempt(at time: Int?) { report { status, _ in status.nextAttempt(at: time) } }

    func filesFailed(_ layer: FileLayer, _ message: String) {
        report { $0.filesRead(layer, problem: message, now: $1) }
    }

    /// Records why changes of a layer's files are not watched; nil if they are.
    func watching(_ layer: ConfigLayer, problem: String?) {
        guard committer.status.current.watchProblems[layer] != problem else { return }
        report { status, _ in status.watchProblems[layer] = problem }
    }

    /// Records why the copy of the schema could not be written; nil if it was written, or if there is none to write.
    /// - Returns: whether the last attempt had another result
    func schemaSaved(problem: ConfigError?) -> Bool {
        let failed = committer.status.lacksSchemaCopy
        if let problem {
            report { $0.storageFailed(.schema, problem, now: $1) }
        } else if failed {
            report { status, _ in status.storageWorked(.schema) }
        }
        return failed == (problem == nil)
    }

    /// Changes the status of the namespace.
    func report(_ change: (inout NamespaceStatus, _ now: Int) -> Void) { committer.report(change) }
}
