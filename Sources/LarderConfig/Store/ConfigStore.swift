package import LarderConfigModel
import LarderConfigStorage
package import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging

/// The only writer of one namespace's configuration.
///
/// Changes wait in a queue and are committed strictly one batch after the other by a single committer; that, and not
/// the actor, keeps them apart while the disk is waited for. A batch is resolved into one snapshot, put on disk where a
/// client was promised that, and only then published, in one step without a suspension point. Writers that wait
/// together share one disk write.
package actor ConfigStore {
    /// Where the current snapshot is read, without waiting for this actor.
    package nonisolated let publication: ConfigPublication
    /// What waits for the committer.
    nonisolated let changes = ChangeQueue()
    // What follows is touched by this actor only: here, and in the extensions beside this file.

    let archive: ConfigArchive
    let blocking: BlockingWork
    let wallClock: WallClock
    let clock: any Clock<Duration>
    let logger: Logger
    var durability: Durability
    var maximumBytes: Int
    /// The percentage of the remote layer's members that another document may remove; nil for all.
    var maximumDeletion: Int?
    var status: NamespaceStatus

    var layers: Layers
    var snapshot: ConfigSnapshot
    /// The digest of what the layers resolve to: the snapshot's, unless the same members stand in another order, for which
    /// nothing is published.
    var layersDigest: SnapshotDigest
    /// The newest snapshots, the current one included; without those before the start until somebody asks for them. See
    /// ``readOlderGenerations()``.
    var history: GenerationHistory
    var olderGenerations: OlderGenerations
    /// The snapshots that are on disk alone, by revision, as far as they were read.
    var archivedSnapshots: [Int: PastSnapshot] = [:]
    var journalSequence: Int
    /// Where nothing is known of what was before the start: the highest number that somebody may have seen then. Else 0.
    let highestLost: Int
    /// The highest bound that was ever reserved, and the one up to which reservations are settled.
    var reservedBound: Int
    var released: Int
    /// Numbers up to this may be published without asking the disk.
    var reserved: Int

    var expiryTimer: (next: ExpiryQueue.Moment, task: Task<Void, Never>)?
    /// When to try again to remove expired overrides; nil unless the last attempt failed.
    var expiryRetry: ExpiryQueue.Moment?
    var expiry: ExpiryQueue
    /// The time since this store was made, by a clock that nobody sets.
    let uptime: @Sendable () -> Duration
    let writer: GenerationWriter
    let publicationLog: PublicationLog
    var sourceLog: SourceLog
    let storageProblems: RateLimitedLog<String, FileError>

    private init(
        snapshot: ConfigSnapshot, highestLost: Int, history: GenerationHistory, epoch: String?,
        restored: ConfigArchive.Restored,
        archive: ConfigArchive, blocking: BlockingWork,
        wallClock: WallClock, clock: any Clock<Duration>, durability: Durability, maximumBytes: Int,
        maximumDeletion: Int?,
        status: NamespaceStatus, logger: Logger
    ) {
        self.archive = archive
        self.blocking = blocking
        self.wallClock = wallClock
        self.clock = clock
        uptime = clock.stopwatch()
        self.durability = durability
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
        self.logger = logger
        layers = restored.layers
        var expiry = ExpiryQueue()
        expiry.rebuild(
            from: restored.layers.override, now: ExpiryQueue.Moment(timeOfDay: wallClock.now, uptime: 0))
        self.expiry = expiry
        journalSequence = restored.journalSequence
        self.highestLost = highestLost
        reservedBound = restored.reservedBound
        released = restored.released
        // The numbers of an epoch that ends with the process need no reservation.
        reserved =
            epoch != nil ? .max : snapshot.revision == restored.revision ? snapshot.revision : restored.reservedBound
        let restoredStatus = status.restored(from: restored.layers, now: wallClock.now)
        self.status = restoredStatus
        self.snapshot = snapshot
        layersDigest = snapshot.contentDigest
        self.history = history
        // Under an epoch of its own nothing of what was before has a number.
        olderGenerations =
            epoch == nil && !restored.olderFiles.isEmpty ? .inFiles(restored.olderFiles) : .inHistory
        publication = ConfigPublication(
            namespace: archive.namespace, epoch: epoch ?? archive.epoch, snapshot: snapshot,
            status: StatusRecord(restoredStatus, holding: restored.layers))
        writer = GenerationWriter(archive: archive, blocking: blocking, clock: clock, logger: logger)
        publicationLog = PublicationLog(namespace: archive.namespace, logger: logger, clock: clock)
        storageProblems = RateLimitedLog(every: .seconds(60), clock: clock) {
            [name = archive.namespace] _, error, count in
            logger.error(
                "namespace \(name): a change could not be put on disk and was not made: \(error)",
                metadata: ["namespace": "\(name)", "error": "\(error)", "before": "\(count - 1)"])
        }
        sourceLog = SourceLog(namespace: archive.namespace, logger: logger)
    }

    /// Makes the store of what a start found, and sees to it that no number which it shows can be given twice.
    static func open(
        _ restored: ConfigArchive.Restored, archive: ConfigArchive,
        blocking: BlockingWork, wallClock: WallClock,
        clock: any Clock<Duration>, durability: Durability, maximumBytes: Int, maximumDeletion: Int? = nil,
        rules: LayerRules = LayerRules(),
        status: NamespaceStatus, logger: Logger
    ) async throws(FileError) -> ConfigStore {
        var restored = restored
        // What ended while nobody ran is not served again.
        let hasExpired = restored.layers.override.expire(at: wallClock.now)
        restored.layers.applyRulesLeniently(rules, now: wallClock.now)
        Self.warn(of: restored.layers.experiment, namespace: archive.namespace, logger)
        let first = firstSnapshot(restored, mayBeEmpty: !status.hasRemote, now: wallClock.now)
        let isNew = first.revision != restored.revision
        let highestLost = first.revision == 0 ? restored.highestSeen : 0
        restored.reservedBound = max(restored.reservedBound, restored.released)
        var epoch: String?
        if isNew {
            let bound = max(restored.reservedBound, first.revision) + reservedBlock
            do throws(FileError) {
                try await blocking.run { () throws(FileError) in try archive.reserve(bound) }
            } catch {
                epoch = StateDirectory.newEpoch()
                logger.error(
                    "revisions cannot be reserved on disk; what is held is served under an epoch that ends with the agent",
                    metadata: ["namespace": "\(archive.namespace)", "epoch": "\(epoch ?? "")", "error": "\(error)"])
            }
            restored.reservedBound = bound
        }
        // Under an epoch of its own nothing of what was before has a number.
        var history = epoch == nil ? restored.history : GenerationHistory()
        // The last record's snapshot is not among the certain ones where a file changed before it; that the files of now
        // resolve to its digest makes it certain.
        let isRegained = !isNew && first.revision > 0 && history.current?.revision != first.revision
        if isNew || isRegained {
            history.append(
                Generation(
                    revision: first.revision, digest: first.contentDigest, publishedAt: first.publishedAt,
                    journalSequence: restored.journalSequence, released: restored.released, bytes: first.bytes,
                    causes: isNew ? [ChangeCause(.start)] : restored.causes, layers: restored.layers))
        } else {
            let layersChanged = hasExpired || history.current?.layers.hasSameDocuments(as: restored.layers) == false
            history.update(
                restored.layers, digest: first.contentDigest, ofRevision: first.revision, layersChanged: layersChanged)
        }
        let store = ConfigStore(
            snapshot: first, highestLost: highestLost, history: history, epoch: epoch, restored: restored,
            archive: archive, blocking: blocking, wallClock: wallClock,
            clock: clock, durability: durability, maximumBytes: maximumBytes, maximumDeletion: maximumDeletion,
            status: status, logger: logger)
        // The journal will be written from its start again once the newest generation is on disk.
        if epoch == nil {
            for generation in restored.unwritten { store.writer.note(history[generation.revision] ?? generation) }
        }
        if isNew || isRegained { await store.writeBehind() }
        if isNew, first.revision > 0 { await store.logPublication([ChangeCause(.start)]) }
        return store
    }

    /// The last known good state, under its own number where it is certain that it is what was published under it, and
    /// otherwise under a number that nobody can have seen.
    private static func firstSnapshot(
        _ restored: ConfigArchive.Restored, mayBeEmpty: Bool, now: Int
    ) -> ConfigSnapshot {
        let value = restored.layers.resolved()
        let digest = SnapshotDigest(of: value)
        let isKnown = restored.revision > 0
        if isKnown, digest.text == restored.digest, restored.revision >= restored.highestSeen {
            return ConfigSnapshot(
                value: value, revision: restored.revision, digest: digest, publishedAt: restored.publishedAt)
        }
        let highest = max(restored.revision, restored.highestSeen)
        // Nothing is known, whether it was never published or is lost: the placeholder, for an empty configuration is none.
        let revision = !isKnown && restored.layers.isEmpty && !mayBeEmpty ? 0 : highest + 1
        return ConfigSnapshot(value: value, revision: revision, digest: digest, publishedAt: now)
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

    /// Hands over a value for the override layer, and does not wait.
    /// - Parameters:
    ///   - peer: who asks for it
    ///   - executor: where it is committed, with what is handed over until the executor comes to it, many changes at a time
    ///     where they are written to the disk first, else a few; nil for any thread
    ///   - completion: is told what came of it, as ``set(_:to:timeToLive:by:)`` says; it must not wait
    package nonisolated func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer?, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        hand(.set(path: path.segments, value: value, timeToLive: timeToLive, by: peer), on: executor, completion)
    }

    /// Hands over the removal of the overrides at a path and below it, as ``set(_:to:timeToLive:by:on:then:)`` does a value.
    package nonisolated func unset(
        _ path: JSONPath, by peer: Peer?, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        hand(.unset(path: path.segments, by: peer), on: executor, completion)
    }

    private nonisolated func hand(
        _ change: LayerChange, on executor: (any TaskExecutor)?, _ completion: @escaping ChangeQueue.Completion
    ) -> ChangeHandle {
        let id = changes.newID()
        if changes.add(change, id: id, completion) {
            Task(executorPreference: executor) { await self.runCommitter() }
        }
        return ChangeHandle(queue: changes, id: id)
    }

    /// Forgets a remote layer whose source is no longer in the settings. One that was pushed stays.
    func dropRemote(unlessFrom location: String?) async {
        guard let origin = layers.remote?.origin, origin != SourceOrigin.push, location == nil else { return }
        do {
            _ = try await commit(.dropRemote)
        } catch {
            logger.error(
                "the remote layer could not be removed",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
        }
    }

    /// Replaces a layer that is read from files.
    func replaceFiles(_ layer: FileLayer, with content: ComposedPatch) async throws(ConfigError) -> CommitOutcome {
        try await commit(.files(layer, content))
    }

    /// Takes over what the settings now say of locks and experiments.
    func follow(_ rules: LayerRules) async {
        if layers.rules == rules { return }
        do {
            _ = try await commit(.rules(rules))
        } catch {
            logger.error(
                "locks and experiments of the new settings could not be taken over",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
        }
    }

    /// Replaces the remote layer, if the document is not older than the one held or `force` says so.
    func replaceRemote(
        _ document: SourceDocument, origin: String, force: Bool, isPush: Bool
    ) async throws(ConfigError) -> CommitOutcome {
        do {
            return try await commit(.remote(document, origin: origin, force: force, isPush: isPush))
        } catch {
            if error.code == .rejected {
                status.refused(document.version, error, now: wallClock.now)
                report()
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
                    // The handler below may have looked for it too early.
                    changes.cancel(id)
                }
            }
        } onCancel: {
            changes.cancel(id)
        }
        return try result.get()
    }

    // MARK: The end

    /// Takes no more changes, waits for those that were accepted, and leaves everything on disk with exact numbers.
    func stop() async {
        changes.stop()
        armExpiry()
        await changes.waitUntilIdle()
        // Nothing more is published, so that this generation settles every reservation.
        publicationLog.flush()
        released = reservedBound
        if case .beingRead(let reading) = olderGenerations { _ = await reading.value }
        if snapshot.revision == 0 { return }
        await writer.finish(with: currentGeneration)
        let (archive, contained) = (archive, writer.containedSequence)
        do throws(FileError) {
            try await blocking.run { () throws(FileError) in
                try archive.shortenJournal(afterGenerationWith: contained)
            }
        } catch {
            logger.warning(
                "the journal cannot be shortened; it takes more of the disk than it needs",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
        }
    }
}

extension Layers {
    fileprivate func hasSameDocuments(as other: Layers) -> Bool {
        FileLayer.allCases.allSatisfy { self[$0]?.content == other[$0]?.content }
            && (remote == nil) == (other.remote == nil)
    }
}
