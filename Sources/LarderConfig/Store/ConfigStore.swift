package import LarderConfigModel
import LarderConfigStorage
package import LarderJSON
import LarderPlatform
import Logging

/// What the settings say of how a store takes changes.
package struct StoreLimits: Sendable, Equatable {
    package var durability: Durability
    package var documents: DocumentLimits

    package init(durability: Durability, documents: DocumentLimits) {
        self.durability = durability
        self.documents = documents
    }
}

/// The only writer of one namespace's configuration.
///
/// Changes wait in a queue and are committed strictly one batch after the other by a single committer. That, and not the actor,
/// keeps them apart while the disk is waited for. A batch is resolved into one snapshot, put on disk if a client was promised
/// that, and only then published, in one step without a suspension point. Writers that wait together share one disk write.
package actor ConfigStore {
    /// The size of a batch. The other work of the thread waits meanwhile.
    private static let maxChanges = 16
    /// The size of a batch if a write to the disk, or resolving a large configuration, takes longer than the changes.
    private static let maxChangesIfSlow = 256

    /// Where the current snapshot is read, without waiting for this actor.
    package nonisolated let publication: ConfigPublication
    /// What waits for the committer.
    nonisolated let changes = ChangeQueue()

    let storage: NamespaceStorage
    let wallClock: WallClock
    private let clock: any Clock<Duration>
    let core: CommitCore
    var limits: StoreLimits
    var status: SharedStatus
    var expiry: OverrideExpiry
    let log: StoreLog
    var olderGenerations: OlderGenerations
    /// The snapshots that are on disk alone, by revision, as far as they were read.
    var archivedSnapshots: [Int: PastSnapshot] = [:]

    private init(
        _ opening: StoreOpening, epoch: String, storage: NamespaceStorage, limits: StoreLimits, status: NamespaceStatus,
        wallClock: WallClock, clock: any Clock<Duration>, logger: Logger
    ) {
        let layers = opening.layers
        core = CommitCore(
            layers: layers, snapshot: opening.snapshot, history: opening.history, numbering: opening.numbering)
        self.storage = storage
        self.limits = limits
        self.wallClock = wallClock
        self.clock = clock
        let status = SharedStatus(status.restored(from: layers, now: wallClock.now))
        self.status = status
        expiry = OverrideExpiry(layers.override, wallClock: wallClock, uptime: clock.stopwatch())
        log = StoreLog(namespace: storage.namespace, clock: clock, logger: logger)
        olderGenerations = opening.olderFiles.isEmpty ? .inHistory : .inFiles(opening.olderFiles)
        publication = ConfigPublication(
            namespace: storage.namespace, epoch: epoch, snapshot: opening.snapshot,
            status: StatusRecord(status, holding: layers))
    }

    /// Makes the store of what a start has recovered, and reserves revisions, so that none that it shows stands for two contents.
    static func open(
        _ recovered: RecoveredState, storage: NamespaceStorage, rules: LayerRules = LayerRules(), limits: StoreLimits,
        status: NamespaceStatus, wallClock: WallClock, clock: any Clock<Duration>, logger: Logger
    ) async throws(FileError) -> ConfigStore {
        var opening = StoreOpening(
            recovered, rules: rules, mayPublishEmpty: !status.hasRemote, now: wallClock.now)
        var epoch = storage.epoch
        if let bound = opening.reservation {
            do throws(FileError) {
                try await storage.reserve(bound)
            } catch {
                epoch = StateDirectory.newEpoch()
                opening.endWithProcess()
                logger.error(
                    "revisions cannot be reserved on disk; what is held is served under an epoch that ends with the agent",
                    metadata: ["namespace": "\(storage.namespace)", "epoch": "\(epoch)", "error": "\(error)"])
            }
        }
        let store = ConfigStore(
            opening, epoch: epoch, storage: storage, limits: limits, status: status, wallClock: wallClock, clock: clock,
            logger: logger)
        await store.begin(opening)
        return store
    }

    private func begin(_ opening: StoreOpening) {
        if let problem = core.layers.experiment.problem { log.experimentsLeftOut(problem) }
        for generation in opening.onlyInJournal {
            storage.writeBehind(core.history[generation.revision] ?? generation)
        }
        if opening.isUnwritten { storage.writeBehind(core.currentGeneration) }
        if opening.isNew, core.snapshot.revision > 0 { log.published(core.snapshot, [ChangeCause(.start)]) }
    }

    // MARK: Changes

    /// Puts a value into the override layer.
    /// - Parameter peer: who asks for it
    /// - Throws: `invalidChange`, `locked`, `rejected`, `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    package func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer? = nil
    ) async throws(ConfigError) -> CommitOutcome {
        try await commit(.set(path: path.segments, value: value, timeToLive: timeToLive, by: peer))
    }

    /// Removes the overrides at a path and below it.
    /// - Parameter peer: who asks for it
    /// - Throws: `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    package func unset(_ path: JSONPath, by peer: Peer? = nil) async throws(ConfigError) -> CommitOutcome {
        try await commit(.unset(path: path.segments, by: peer))
    }

    /// Submits a value for the override layer, and does not wait.
    /// - Parameters:
    ///   - peer: who asks for it
    ///   - executor: where it is committed, together with what is submitted until the executor runs the committer; nil for any thread
    ///   - completion: receives the result, as ``set(_:to:timeToLive:by:)`` returns it; must not wait
    package nonisolated func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer?, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        submit(.set(path: path.segments, value: value, timeToLive: timeToLive, by: peer), on: executor, completion)
    }

    /// Submits the removal of the overrides at a path and below it, as ``set(_:to:timeToLive:by:on:then:)`` does a value.
    package nonisolated func unset(
        _ path: JSONPath, by peer: Peer?, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        submit(.unset(path: path.segments, by: peer), on: executor, completion)
    }

    private nonisolated func submit(
        _ change: LayerChange, on executor: (any TaskExecutor)?, _ completion: @escaping ChangeQueue.Completion
    ) -> ChangeHandle {
        let id = changes.newID()
        if changes.add(change, id: id, completion) {
            Task(executorPreference: executor) { await self.runCommitter() }
        }
        return ChangeHandle(queue: changes, id: id)
    }

    /// Forgets a remote document whose source is no longer in the settings. One that was pushed stays.
    func dropRemote(unlessFrom location: String?) async {
        guard let origin = core.layers.remote?.origin, origin != SourceOrigin.push, location == nil else { return }
        do {
            _ = try await commit(.dropRemote)
        } catch {
            log.failed("the remote layer could not be removed", error)
        }
    }

    /// Replaces a layer that is read from files.
    func replaceFiles(_ layer: FileLayer, with content: ComposedPatch) async throws(ConfigError) -> CommitOutcome {
        try await commit(.files(layer, content))
    }

    /// Takes over what the settings now say of locks and experiments.
    func follow(_ rules: LayerRules) async {
        if core.layers.rules == rules { return }
        do {
            _ = try await commit(.rules(rules))
        } catch {
            log.failed("locks and experiments of the new settings could not be taken over", error)
        }
    }

    /// Replaces the remote layer, if the document is not older than the current one or `force` is set.
    func replaceRemote(
        _ document: SourceDocument, origin: String, force: Bool, isPush: Bool
    ) async throws(ConfigError) -> CommitOutcome {
        do {
            return try await commit(.remote(document, origin: origin, force: force, isPush: isPush))
        } catch {
            if error.code == .rejected {
                change { $0.refused(document.version, error, now: $1) }
            }
            throw error
        }
    }

    func commit(_ change: LayerChange) async throws(ConfigError) -> CommitOutcome {
        let id = changes.newID()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation {
                (continuation: CheckedContinuation<Result<CommitOutcome, ConfigError>, Never>) in
                if Task.isCancelled {
                    continuation.resume(returning: .failure(ChangeQueue.cancelled))
                } else if changes.add(change, id: id, { continuation.resume(returning: $0) }) {
                    // It begins here and now. What need not wait for the disk is published when this returns, without a
                    // change of threads.
                    Task.immediate { await self.runCommitter() }
                } else if Task.isCancelled {
                    // The handler below may have run before the change was in the queue.
                    changes.cancel(id)
                }
            }
        } onCancel: {
            changes.cancel(id)
        }
        return try result.get()
    }

    // MARK: The committer

    /// A batch that was applied and resolved, and what it needs on disk.
    private struct Commit {
        let batch: ChangeBatch
        let accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)]
        let resolution: Resolution
        let need: CommitNeed
        let causes: [ChangeCause]
        /// In milliseconds since 1970.
        let now: Int
    }

    /// Commits all changes that wait. It suspends only for the disk, for a large configuration and after a full batch: a call of an
    /// asynchronous function costs more than the change of a scalar.
    private func runCommitter() async {
        while true {
            let isSlow = limits.durability == .full || core.isExpensive
            let maximum = isSlow ? Self.maxChangesIfSlow : Self.maxChanges
            guard let pending = changes.take(atMost: maximum) else { return }
            let now = wallClock.now
            let (batch, accepted) = apply(pending, now: now)
            let mayPublishEmpty = !status.hasRemote
            let resolution =
                if core.isExpensive {
                    await core.resolveConcurrently(batch, mayPublishEmpty: mayPublishEmpty, now: now)
                } else {
                    core.resolve(batch, mayPublishEmpty: mayPublishEmpty, now: now)
                }
            let isNew = resolution.snapshot !== core.snapshot
            let writesJournal = accepted.contains { $0.pending.change.comesFromClient }
            let commit = Commit(
                batch: batch, accepted: accepted, resolution: resolution,
                need: core.need(for: resolution, of: batch, writesJournal: writesJournal),
                causes: isNew ? batch.causes : [], now: now)
            if commit.need != .nothing, await !meetNeed(of: commit) { continue }
            finish(commit)
            if pending.count == maximum { await Task.yield() }
        }
    }

    /// Applies changes to the layers. Those that are refused are completed.
    private func apply(
        _ pending: [ChangeQueue.Pending], now: Int
    ) -> (ChangeBatch, accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)]) {
        var batch = core.batch(limits: limits.documents, now: now, recordsOperations: limits.durability == .full)
        var accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)] = []
        accepted.reserveCapacity(pending.count)
        for pending in pending {
            do {
                accepted.append((pending, try batch.apply(pending.change)))
            } catch {
                pending.completion(.failure(error))
            }
        }
        batch.finish()
        return (batch, accepted)
    }

    /// Puts on disk what must be there before the snapshot is published. If that fails, the changes are refused.
    /// - Returns: whether it is there
    private func meetNeed(of commit: Commit) async -> Bool {
        do {
            switch commit.need {
            case .nothing: break
            case .journal(let sequence, let settledBound):
                try await storage.append(
                    JournalEntry(
                        sequence: sequence, settledBound: settledBound, snapshot: commit.resolution.snapshot,
                        digest: commit.resolution.digest, operations: commit.batch.operations, causes: commit.causes),
                    after: core.currentGeneration)
            case .reservation(let bound): try await storage.reserve(bound)
            }
            return true
        } catch {
            refuse(commit.accepted.map(\.pending), because: error)
            return false
        }
    }

    private func refuse(_ pending: [ChangeQueue.Pending], because error: FileError) {
        log.storageFailed(error)
        let refusal = ConfigError(
            .storageFailed, "\(error); nothing was changed. Free space or repair the disk, then try again")
        change { $0.storageFailed(refusal, now: $1) }
        for pending in pending { pending.completion(.failure(refusal)) }
    }

    /// Publishes what is on disk as far as it has to be.
    private func finish(_ commit: Commit) {
        // The status is noted before the snapshot is published, since subscribers are sent it with the snapshot.
        if commit.batch.hasChanged, status.hasStorageProblem {
            status.change { $0.storageWorked() }
            log.storageWorked()
        }
        for (pending, result) in commit.accepted { note(pending.change, changed: result.layerChanged) }
        let effects = core.commit(commit.batch, commit.resolution, causes: commit.causes, met: commit.need)
        if let problem = effects.experimentProblem { log.experimentsLeftOut(problem) }
        if effects.isNew {
            status.publishes += 1
            publication.publish(core.snapshot, status: StatusRecord(status, holding: core.layers))
            log.published(core.snapshot, commit.causes)
            log.note(status, now: commit.now)
        } else {
            report()
        }
        for (pending, result) in commit.accepted {
            let outcome = CommitOutcome(
                revision: core.snapshot.revision, changed: effects.isNew && result.layerChanged,
                layerChanged: result.layerChanged, hold: result.hold, lifetime: result.lifetime)
            pending.completion(.success(outcome))
        }
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
        while true {
            let now = expiry.now
            let rest = min(next.timeOfDay - now.timeOfDay, next.uptime - now.uptime)
            if rest <= 0 { break }
            // The time of day may be set meanwhile, so that it is read again each minute.
            do { try await clock.sleep(for: .milliseconds(min(rest, 60_000))) } catch { return }
        }
        if Task.isCancelled { return }
        expiry.timerEnded()
        do {
            try await expireOverrides()
        } catch {
            log.failed("cannot remove expired overrides; the next attempt is in a minute", error)
            expiry.postpone()
        }
        armExpiry()
    }

    /// Removes the overrides that have expired.
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

    // MARK: The end

    /// Takes no more changes, waits for those that were accepted, and leaves everything on disk with exact revisions.
    func stop() async {
        changes.stop()
        armExpiry()
        await changes.waitUntilIdle()
        // Nothing more is published, so that this generation settles every reservation.
        log.flush()
        core.settleReservations()
        if case .beingRead(let reading) = olderGenerations { _ = await reading.value }
        if core.snapshot.revision == 0 { return }
        do throws(FileError) {
            try await storage.finish(with: core.currentGeneration)
        } catch {
            log.failed(
                "the journal cannot be shortened; it takes more of the disk than it needs", error, level: .warning)
        }
    }
}
