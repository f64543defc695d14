import DequeModule
public import JSON
import LarderUpstream
import Logging

/// The only writer of one namespace's configuration.
///
/// Changes wait in a queue and are committed strictly one batch after the other by a single committer; that, and not
/// the actor, keeps them apart while the disk is waited for. A batch is resolved into one snapshot, put on disk where a
/// client was promised that, and only then published, in one step without a suspension point. Writers that wait
/// together share one disk write.
public actor ConfigStore {
    /// What a committed change led to.
    public struct Commit: Sendable, Hashable {
        /// The revision with the change in it.
        public var revision: Int
        /// Whether the resolved configuration differs from before.
        public var changed: Bool
        /// Whether the layer differs from before.
        public var layerChanged: Bool
    }

    /// Whether a client's change is on disk before it is acknowledged.
    public enum Durability: String, Sendable {
        /// On disk first, then published and acknowledged.
        case full
        /// Published and acknowledged at once, written behind.
        case relaxed
    }

    private struct Pending {
        var id: Int
        var change: ConfigChange
        var continuation: CheckedContinuation<Result<Commit, ConfigError>, Never>
    }

    /// Where the current snapshot is read, without waiting for this actor.
    public nonisolated let publication: ConfigPublication
    private let archive: SnapshotArchive
    private let blocking: BlockingWork
    private let wallClock: WallClock
    private let clock: any Clock<Duration>
    private let logger: Logger
    private var durability: Durability
    private var maximumBytes: Int
    private var status: NamespaceStatus

    private var layers: Layers
    private var snapshot: ConfigSnapshot
    private var journalSequence: Int
    /// The highest bound that was ever reserved, and the one up to which reservations are settled.
    private var reservedBound: Int
    private var released: Int
    /// Numbers up to this may be published without asking the disk.
    private var reserved: Int

    private var queue = Deque<Pending>()
    private var nextID = 0
    private var isCommitting = false
    private var isStopping = false
    private var expiryTimer: (time: Int, task: Task<Void, Never>)?
    private var committerWaiter: CheckedContinuation<Void, Never>?
    private let writer: GenerationWriter

    private init(
        snapshot: ConfigSnapshot, restored: SnapshotArchive.Restored, archive: SnapshotArchive, blocking: BlockingWork,
        wallClock: WallClock,
        clock: any Clock<Duration>, durability: Durability, maximumBytes: Int, status: NamespaceStatus, logger: Logger
    ) {
        self.archive = archive
        self.blocking = blocking
        self.wallClock = wallClock
        self.clock = clock
        self.durability = durability
        self.maximumBytes = maximumBytes
        self.logger = logger
        layers = restored.layers
        journalSequence = restored.journalSequence
        reservedBound = restored.reservedBound
        released = restored.released
        reserved = snapshot.revision == restored.revision ? snapshot.revision : restored.reservedBound
        let restoredStatus = status.restored(from: restored.layers, now: wallClock.now)
        self.status = restoredStatus
        self.snapshot = snapshot
        publication = ConfigPublication(
            namespace: archive.namespace, epoch: archive.epoch, snapshot: snapshot,
            status: restoredStatus.report(layers: restored.layers))
        writer = GenerationWriter(archive: archive, blocking: blocking, clock: clock, logger: logger)
    }

    /// Makes the store of what a start found, and sees to it that no number which it shows can be given twice.
    static func open(
        _ restored: SnapshotArchive.Restored, archive: SnapshotArchive, blocking: BlockingWork, wallClock: WallClock,
        clock: any Clock<Duration>, durability: Durability, maximumBytes: Int, status: NamespaceStatus, logger: Logger
    ) async throws(FileError) -> ConfigStore {
        var restored = restored
        // What ended while nobody ran is not served again.
        _ = restored.layers.override.expire(at: wallClock.now)
        let first = firstSnapshot(restored, mayBeEmpty: !status.hasRemote, now: wallClock.now)
        let isNew = first.revision != restored.revision
        restored.reservedBound = max(restored.reservedBound, restored.released)
        if isNew {
            let bound = max(restored.reservedBound, first.revision) + reservedBlock
            try await blocking.run { () throws(FileError) in try archive.reserve(bound) }
            restored.reservedBound = bound
        }
        let store = ConfigStore(
            snapshot: first, restored: restored, archive: archive, blocking: blocking, wallClock: wallClock,
            clock: clock, durability: durability, maximumBytes: maximumBytes, status: status, logger: logger)
        if isNew { await store.writeBehind() }
        return store
    }

    /// The last known good state, under its own number where it is certain that it is what was published under it, and
    /// otherwise under a number that nobody can have seen.
    private static func firstSnapshot(
        _ restored: SnapshotArchive.Restored, mayBeEmpty: Bool, now: Int
    ) -> ConfigSnapshot {
        let value = restored.layers.resolved()
        let digest = ConfigSnapshot.digest(of: value)
        let isKnown = restored.revision > 0
        if isKnown, digest == restored.digest, restored.revision >= restored.highestSeen {
            return ConfigSnapshot(
                value: value, revision: restored.revision, digest: digest, publishedAt: restored.publishedAt)
        }
        let highest = max(restored.revision, restored.highestSeen)
        // Nothing was ever published and nothing is known: the placeholder.
        let revision = highest == 0 && restored.layers.isEmpty && !mayBeEmpty ? 0 : highest + 1
        return ConfigSnapshot(value: value, revision: revision, digest: digest, publishedAt: now)
    }

    // MARK: Changes

    /// Puts a value into the override layer.
    /// - Throws: `invalidChange`, `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    public func set(_ path: JSONPath, to value: JSONValue, timeToLive: Duration?) async throws(ConfigError) -> Commit {
        try await commit(.set(path: path.segments, value: value, timeToLive: timeToLive))
    }

    /// Removes the overrides at a path and below it.
    /// - Throws: `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    public func unset(_ path: JSONPath) async throws(ConfigError) -> Commit {
        try await commit(.unset(path: path.segments))
    }

    /// Ends the overrides whose time has come.
    private func expireOverrides() async throws(ConfigError) -> Commit { try await commit(.expireOverrides) }

    /// Forgets a remote layer whose source is no longer in the settings. One that was pushed stays.
    func dropRemote(unlessFrom location: String?) async {
        guard let origin = layers.remote?.origin, origin != pushOrigin, location == nil else { return }
        do {
            _ = try await commit(.dropRemote)
        } catch {
            logger.error(
                "the remote layer could not be removed",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
        }
    }

    /// Replaces the host layer.
    func replaceHost(_ document: JSONValue) async throws(ConfigError) -> Commit {
        let commit = try await commit(.host(document))
        status.hostProblem = nil
        report()
        return commit
    }

    /// Replaces the remote layer, if the document is not older than the one held or `force` says so.
    func replaceRemote(
        _ document: SourceDocument, origin: String, force: Bool, isPush: Bool
    ) async throws(ConfigError) -> Commit {
        do {
            let commit = try await commit(.remote(document, origin: origin, force: force, isPush: isPush))
            if !isPush {
                status.remoteAnswered(changed: commit.layerChanged, now: wallClock.now)
            } else {
                status.remotePushed(now: wallClock.now)
            }
            report()
            return commit
        } catch {
            if error.code == .rejected {
                status.refused(document.version, error, now: wallClock.now)
                report()
            }
            throw error
        }
    }

    private func commit(_ change: ConfigChange) async throws(ConfigError) -> Commit {
        if isStopping { throw ConfigError(.stopped, "the agent is stopping; try again once it is back") }
        nextID += 1
        let id = nextID
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Result<Commit, ConfigError>, Never>) in
                if Task.isCancelled {
                    return continuation.resume(returning: .failure(Self.cancelled))
                }
                queue.append(Pending(id: id, change: change, continuation: continuation))
                startCommitter()
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
        return try result.get()
    }

    private static let cancelled = ConfigError(.cancelled, "the request was cancelled; nothing was changed")

    /// Takes a change out of the queue; one that the committer took already goes on to its end.
    private func cancel(_ id: Int) {
        guard let index = queue.firstIndex(where: { $0.id == id }) else { return }
        queue.remove(at: index).continuation.resume(returning: .failure(Self.cancelled))
    }

    // MARK: The committer

    private func startCommitter() {
        if isCommitting { return }
        isCommitting = true
        Task { await runCommitter() }
    }

    private func runCommitter() async {
        while !queue.isEmpty {
            let batch = Array(queue)
            queue.removeAll()
            await commit(batch)
        }
        // No suspension point lies between the last look at the queue and this.
        isCommitting = false
        committerWaiter?.resume()
        committerWaiter = nil
    }

    private func commit(_ batch: [Pending]) async {
        let now = wallClock.now
        var candidate = layers
        var accepted: [(pending: Pending, layerChanged: Bool)] = []
        var operations: [JournalRecord.Operation] = []
        for pending in batch {
            do {
                switch try pending.change.apply(
                    to: &candidate, resolved: snapshot.value, maximumBytes: maximumBytes, now: now)
                {
                case .none: accepted.append((pending, false))
                case .changed(let operation):
                    accepted.append((pending, true))
                    if let operation { operations.append(operation) }
                }
            } catch {
                pending.continuation.resume(returning: .failure(error))
            }
        }
        // Also where a change did nothing: it may have brought a new validator for the same document.
        let next = accepted.contains(where: \.layerChanged) ? await resolve(candidate, now: now) : snapshot
        do {
            try await persist(next, operations, isDurable: accepted.contains { $0.pending.change.comesFromClient })
        } catch {
            return refuse(accepted.map(\.pending), because: error)
        }
        let changed = next !== snapshot
        layers = candidate
        if changed {
            snapshot = next
            status.publishes += 1
            publication.publish(next, status: status.report(layers: layers))
        } else {
            report()
        }
        for (pending, layerChanged) in accepted {
            let commit = Commit(revision: next.revision, changed: changed && layerChanged, layerChanged: layerChanged)
            pending.continuation.resume(returning: .success(commit))
        }
        if accepted.contains(where: \.layerChanged) {
            writeBehind()
            armExpiry()
        }
    }

    /// The snapshot of the layers: the current one where they resolve to the same value.
    private func resolve(_ layers: Layers, now: Int) async -> ConfigSnapshot {
        // An empty configuration is none as long as the source has not answered.
        if snapshot.revision == 0, layers.isEmpty, status.hasRemote { return snapshot }
        let revision = snapshot.revision + 1
        let isLarge = snapshot.bytes + (layers.remote?.document.textSize ?? 0) > 64 * 1024
        let next =
            isLarge
            ? await Self.resolveConcurrently(layers, revision: revision, now: now)
            : Self.resolveHere(layers, revision: revision, now: now)
        return snapshot.revision > 0 && Self.isSame(next, snapshot) ? snapshot : next
    }

    /// Whether two snapshots hold the same value, in whatever order their members stand. Only texts of the same length
    /// can: both are compact.
    private static func isSame(_ left: ConfigSnapshot, _ right: ConfigSnapshot) -> Bool {
        left.digest == right.digest || (left.bytes == right.bytes && left.value == right.value)
    }

    @concurrent
    private static func resolveConcurrently(_ layers: Layers, revision: Int, now: Int) async -> ConfigSnapshot {
        resolveHere(layers, revision: revision, now: now)
    }

    private static func resolveHere(_ layers: Layers, revision: Int, now: Int) -> ConfigSnapshot {
        let value = layers.resolved()
        return ConfigSnapshot(
            value: value, revision: revision, digest: ConfigSnapshot.digest(of: value), publishedAt: now)
    }

    /// Puts on disk what must be there before anybody sees the snapshot: the change itself, or at least its number.
    private func persist(
        _ next: ConfigSnapshot, _ operations: [JournalRecord.Operation], isDurable: Bool
    ) async throws(FileError) {
        let archive = archive
        if isDurable, durability == .full, !operations.isEmpty {
            let record = JournalRecord(
                sequence: journalSequence + 1, revision: next.revision, digest: next.digest,
                publishedAt: next.publishedAt, released: reservedBound, operations: operations)
            let contained = writer.containedSequence
            try await blocking.run { () throws(FileError) in
                try archive.append(record, afterGenerationWith: contained)
            }
            journalSequence = record.sequence
            // Whatever was seen until now is on disk with this record: what is published without one needs new numbers.
            released = reservedBound
            reserved = next.revision
        } else if next.revision > reserved, next !== snapshot {
            let bound = max(reservedBound, next.revision) + Self.reservedBlock
            try await blocking.run { () throws(FileError) in try archive.reserve(bound) }
            reservedBound = bound
            reserved = bound
        }
    }

    /// How many revisions one disk write reserves.
    private static let reservedBlock = 1024

    private func refuse(_ batch: [Pending], because error: FileError) {
        logger.error(
            "a change could not be put on disk and was not made",
            metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
        let refusal = ConfigError(
            .storageFailed, "\(error); nothing was changed. Free space or repair the disk, then try again")
        status.storageFailed(refusal, now: wallClock.now)
        report()
        for pending in batch { pending.continuation.resume(returning: .failure(refusal)) }
    }

    private func writeBehind() { writer.note(image()) }

    private func image() -> Generation {
        Generation(
            revision: snapshot.revision, digest: snapshot.digest, publishedAt: snapshot.publishedAt,
            journalSequence: journalSequence, released: released, layers: layers)
    }

    // MARK: Overrides that end by themselves

    /// Sees to it that the next override which ends is noticed, without any client's help.
    func armExpiry() {
        let next = isStopping ? nil : layers.override.nextExpiry
        if next == expiryTimer?.time { return }
        expiryTimer?.task.cancel()
        expiryTimer = next.map { time in (time, Task { await self.waitForExpiry(at: time) }) }
    }

    private func waitForExpiry(at time: Int) async {
        // The time of day may be set while this waits, so that it is looked at again now and then.
        while wallClock.now < time {
            let rest = Duration.milliseconds(min(time - wallClock.now, 60_000))
            do { try await clock.sleep(for: rest) } catch { return }
        }
        if Task.isCancelled { return }
        expiryTimer = nil
        do {
            _ = try await expireOverrides()
        } catch {
            logger.error(
                "overrides that ended could not be removed; it is tried again in a minute",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
            try? await clock.sleep(for: .seconds(60))
        }
        armExpiry()
    }

    // MARK: The source's state

    /// What proves to a source that its document is held; nil where another document is held, such as a pushed one.
    func validator(ofOrigin origin: String) -> Validator? {
        layers.remote?.origin == origin ? layers.remote?.validator : nil
    }

    /// Whether a document of the remote source or of a push is held.
    var hasRemoteDocument: Bool { layers.remote != nil }

    /// Answers when the actor is alive.
    func probe() {}

    /// The upstream version held.
    var upstreamVersion: UpstreamVersion? { layers.remote?.version }

    func refreshBegan() {
        status.refreshBegan(now: wallClock.now)
        report()
    }

    /// The source said that what is held is current.
    func refreshConfirmed() {
        status.remoteAnswered(changed: false, now: wallClock.now)
        report()
    }

    func refreshFailed(_ error: ConfigError) {
        status.failed(error, hasRemoteDocument: layers.remote != nil, now: wallClock.now)
        report()
    }

    /// An answer was refused because it is no configuration.
    func documentRefused(_ error: ConfigError) {
        status.refused(nil, error, now: wallClock.now)
        report()
    }

    func refreshCancelled() {
        status.refreshCancelled(now: wallClock.now)
        report()
    }

    func nextAttempt(at time: Int?) {
        status.nextAttemptAt = time
        report()
    }

    func hostFailed(_ message: String) {
        status.hostProblem = message
        report()
    }

    /// Takes over what the settings now say of the namespace.
    func configure(durability: Durability, maximumBytes: Int, status newStatus: NamespaceStatus) {
        self.durability = durability
        self.maximumBytes = maximumBytes
        status = newStatus.continuing(status, layers: layers, now: wallClock.now)
        report()
    }

    private func report() {
        publication.update(status.report(layers: layers))
    }

    // MARK: The end

    /// Takes no more changes, waits for those that were accepted, and leaves everything on disk with exact numbers.
    func stop() async {
        isStopping = true
        armExpiry()
        if isCommitting {
            await withCheckedContinuation { committerWaiter = $0 }
        }
        // Nothing more is published, so that this generation settles every reservation.
        released = reservedBound
        if snapshot.revision > 0 { await writer.finish(with: image()) }
    }
}
