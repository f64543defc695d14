import LarderConfigModel
import LarderConfigStorage
import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging

/// The committer: takes what waits, resolves it into one snapshot, puts it on disk, and publishes it.
extension ConfigStore {
    /// So many changes become one snapshot: who shares the thread waits meanwhile.
    private static let mostTogether = 16
    /// So many where something else takes longer: a write to the disk, or to resolve a large configuration.
    private static let mostOfMany = 256

    func runCommitter() async {
        while true {
            let most = durability == .full || isLarge ? Self.mostOfMany : Self.mostTogether
            guard let batch = changes.take(atMost: most) else { return }
            await commit(batch)
            if batch.count == most { await Task.yield() }
        }
    }

    /// A change of a batch that is made.
    private struct Accepted {
        var pending: ChangeQueue.Pending
        var layerChanged: Bool
        var hold: HoldRule?
        var lifetime: OverrideLifetime?

        init(_ pending: ChangeQueue.Pending, layerChanged: Bool, hold: HoldRule?, lifetime: OverrideLifetime? = nil) {
            self.pending = pending
            self.layerChanged = layerChanged
            self.hold = hold
            self.lifetime = lifetime
        }
    }

    private func commit(_ batch: [ChangeQueue.Pending]) async {
        let now = wallClock.now
        var candidate = layers
        var accepted: [Accepted] = []
        accepted.reserveCapacity(batch.count)
        var operations: [LayerOperation] = []
        var made: [LayerChange] = []
        // nil once a change does more than replace scalars.
        var replacements: [JSONValue.Replacement]? = []
        for pending in batch {
            // A change that an earlier one of the batch prepares the way for is judged by what that one makes of it.
            let path = pending.change.path ?? []
            let isPrepared = path.count > 1 && made.contains { $0.mayChangeContainers(above: path) }
            do {
                switch try pending.change.apply(
                    to: &candidate, resolved: isPrepared ? candidate.resolved() : snapshot.value,
                    maximumBytes: maximumBytes, maximumDeletion: maximumDeletion, now: now)
                {
                case .none: accepted.append(Accepted(pending, layerChanged: false, hold: candidate.hold?.rule))
                case .changed(let operation, let some, let lifetime):
                    accepted.append(
                        Accepted(pending, layerChanged: true, hold: candidate.hold?.rule, lifetime: lifetime))
                    made.append(pending.change)
                    if let operation { operations.append(operation) }
                    if let some { replacements?.append(contentsOf: some) } else { replacements = nil }
                }
            } catch {
                pending.completion(.failure(error))
            }
        }
        // They follow from what the operations say and from the settings, which the journal does not know.
        if !operations.isEmpty, candidate.experiment.overlays != layers.experiment.overlays {
            operations.append(.experiment(candidate.experiment))
        }
        // Also where a change did nothing: it may have brought a new validator for the same document.
        let layersChanged = !made.isEmpty
        let (next, digest) =
            layersChanged ? await resolve(candidate, replacements, now: now) : (snapshot, layersDigest)
        let changed = next !== snapshot
        let causes = changed ? made.map(\.cause).joined() : []
        do {
            let isDurable = accepted.contains { $0.pending.change.comesFromClient }
            try await persist(next, digest, operations, causes, isDurable: isDurable)
        } catch {
            return refuse(accepted.map(\.pending), because: error)
        }
        if layersChanged {
            status.storageWorked()
            storageProblems.reset()
        }
        // Before the snapshot is published: it tells the state, and who sees an answer's content is not told that the
        // answer is waited for.
        for change in accepted { note(change.pending.change, changed: change.layerChanged) }
        if candidate.experiment.problem != layers.experiment.problem {
            Self.warn(of: candidate.experiment, namespace: archive.namespace, logger)
        }
        layers = candidate
        layersDigest = digest
        if changed {
            snapshot = next
            history.append(image(causes: causes))
            status.publishes += 1
            publication.publish(next, status: StatusRecord(status, holding: layers))
            logPublication(causes)
            sourceLog.note(status, now: now)
        } else {
            history.update(candidate, digest: digest, ofRevision: snapshot.revision, layersChanged: layersChanged)
            report()
        }
        for change in accepted {
            let commit = CommitOutcome(
                revision: next.revision, changed: changed && change.layerChanged, layerChanged: change.layerChanged,
                hold: change.hold, lifetime: change.lifetime)
            change.pending.completion(.success(commit))
        }
        if layersChanged {
            writeBehind()
            armExpiry(after: operations)
        }
    }

    /// Says once that experiments are left out.
    static func warn(of experiment: ExperimentLayer, namespace: String, _ logger: Logger) {
        guard let problem = experiment.problem else { return }
        logger.warning(
            "the experiments of the remote document are left out; correct it, or experiments.member in the settings",
            metadata: ["namespace": "\(namespace)", "error": "\(problem)"])
    }

    /// The snapshot of the layers: the current one where they resolve to the same value; and the digest of what they resolve
    /// to, whose members may stand in another order then.
    /// - Parameter replacements: the scalars by which they differ from those of the current snapshot; nil if they differ
    ///   by more
    private func resolve(
        _ layers: Layers, _ replacements: [JSONValue.Replacement]?, now: Int
    ) async -> (ConfigSnapshot, digest: SnapshotDigest) {
        // An empty configuration is none as long as the source has not answered.
        if snapshot.revision == 0, layers.isEmpty, status.hasRemote { return (snapshot, snapshot.contentDigest) }
        // Members of another order stay in it.
        let replacements = snapshot.contentDigest === layersDigest ? replacements : nil
        let isShared = self.layers.remote.map { snapshot.value.isSameDocument(as: $0.document) } ?? false
        let former = Resolved(
            snapshot: snapshot, isRemote: isShared && self.layers.isRemoteAlone && layers.isRemoteAlone)
        // The placeholder's number says nothing of those that were given before a start that found nothing.
        let revision = max(snapshot.revision, highestLost) + 1
        return isLarge
            ? await Self.resolveConcurrently(layers, replacements, in: former, revision: revision, now: now)
            : Self.resolveHere(layers, replacements, in: former, revision: revision, now: now)
    }

    /// The current snapshot, as what the next one is made from.
    private struct Resolved {
        let snapshot: ConfigSnapshot
        /// Whether its value is the remote document itself, because no other layer says anything.
        let isRemote: Bool

        var value: JSONValue { snapshot.value }
    }

    private static let largeBytes = 64 * 1024

    /// Whether to resolve takes too long for a thread that serves others.
    private var isLarge: Bool { snapshot.bytes + layers.remoteTextSize > Self.largeBytes }

    @concurrent
    private static func resolveConcurrently(
        _ layers: Layers, _ replacements: [JSONValue.Replacement]?, in former: Resolved, revision: Int, now: Int
    ) async -> (ConfigSnapshot, digest: SnapshotDigest) {
        resolveHere(layers, replacements, in: former, revision: revision, now: now)
    }

    private static func resolveHere(
        _ layers: Layers, _ replacements: [JSONValue.Replacement]?, in former: Resolved, revision: Int, now: Int
    ) -> (ConfigSnapshot, digest: SnapshotDigest) {
        let edited = replacements.flatMap { former.isRemote ? layers.remote?.document : former.value.replacing($0) }
        let value = edited ?? layers.resolvedSharing()
        assert(edited == nil || value.compactText == layers.resolved().compactText, "what was edited is no resolution")
        // Only texts of the same length can say the same: both are compact.
        let isSame =
            former.snapshot.revision > 0 && value.textSize == former.snapshot.bytes
            && !isKnownToDiffer(former.value, replacements) && value == former.value
        if !isSame {
            let next = ConfigSnapshot(value: value, revision: revision, publishedAt: now)
            return (next, next.contentDigest)
        }
        let digest = value.hasSameText(as: former.value) ? former.snapshot.contentDigest : SnapshotDigest(of: value)
        return (former.snapshot, digest)
    }

    /// Whether a value differs by the last replacement, which counts whatever those before it say. That takes less time to
    /// find out than to compare all of it.
    private static func isKnownToDiffer(_ value: JSONValue, _ replacements: [JSONValue.Replacement]?) -> Bool {
        guard let last = replacements?.last else { return false }
        return value.value(at: JSONPath(last.path)) != last.value
    }

    /// Puts on disk what must be there before anybody sees the snapshot: the change itself, or at least its number.
    /// - Parameter digest: of what the layers resolve to with the operations
    private func persist(
        _ next: ConfigSnapshot, _ digest: SnapshotDigest, _ operations: [LayerOperation],
        _ causes: [ChangeCause],
        isDurable: Bool
    ) async throws(FileError) {
        let archive = archive
        if isDurable, durability == .full, !operations.isEmpty {
            let (sequence, bound) = (journalSequence + 1, reservedBound)
            if archive.isJournalTooLong() { await writer.catchUp(with: currentGeneration) }
            let contained = writer.containedSequence
            try await blocking.run { () throws(FileError) in
                let record = JournalRecord(
                    sequence: sequence, revision: next.revision, digest: digest.text, publishedAt: next.publishedAt,
                    released: bound, operations: operations, causes: causes)
                try archive.append(record, afterGenerationWith: contained)
            }
            journalSequence = sequence
            // Whatever was seen until now is on disk with this record: what is published without one needs new numbers.
            released = reservedBound
            if reserved != .max { reserved = next.revision }
        } else if next.revision > reserved, next !== snapshot {
            let bound = max(reservedBound, next.revision) + Self.reservedBlock
            try await blocking.run { () throws(FileError) in try archive.reserve(bound) }
            reservedBound = bound
            reserved = bound
        }
    }

    /// How many revisions one disk write reserves.
    static let reservedBlock = 1024

    private func refuse(_ batch: [ChangeQueue.Pending], because error: FileError) {
        storageProblems.add("\(error.operation) \(error.errno)") { $0 = error }
        let refusal = ConfigError(
            .storageFailed, "\(error); nothing was changed. Free space or repair the disk, then try again")
        status.storageFailed(refusal, now: wallClock.now)
        report()
        for pending in batch { pending.completion(.failure(refusal)) }
    }

    /// Has the log tell of the snapshot that was just published.
    func logPublication(_ causes: [ChangeCause]) {
        guard publicationLog.isWanted else { return }
        publicationLog.add(
            PublicationLog.Entry(
                revision: snapshot.revision, digest: snapshot.contentDigest, bytes: snapshot.bytes, causes: causes))
    }

    func writeBehind() { writer.note(currentGeneration) }

    /// The current snapshot as a generation, in its present state.
    var currentGeneration: Generation {
        var generation = image(causes: history.current?.causes ?? [])
        generation.published = history.current?.published
        return generation
    }

    /// The current snapshot as a generation that was just published.
    private func image(causes: [ChangeCause]) -> Generation {
        Generation(
            revision: snapshot.revision, digest: layersDigest, publishedAt: snapshot.publishedAt,
            journalSequence: journalSequence, released: released, bytes: snapshot.bytes, causes: causes, layers: layers)
    }
}
