import LarderJSON

/// The state that commits change, and how they change it: layers, current snapshot, history and numbering. It does no I/O.
///
/// The committer alone changes it. A class, so that it cannot be copied and written back across an `await`, while the history may
/// grow, and because a call from another module copies a struct: seven copies took 1,700 of the 68,700 instructions of a relaxed
/// set.
package final class CommitCore {
    /// What follows from a commit.
    package struct Effects: Sendable {
        /// Whether the snapshot is new.
        package let isNew: Bool
        /// Why the experiments of the remote document are left out; nil if they are not, or if that was known.
        package let experimentProblem: String?
    }

    /// Resolving more bytes than this takes too long for a thread that serves clients.
    private static let expensiveBytes = 64 * 1024

    package private(set) var layers: Layers
    package private(set) var snapshot: ConfigSnapshot
    /// The digest of what the layers resolve to: that of the snapshot, unless the same members stand in another order.
    package private(set) var resolvedDigest: SnapshotDigest
    /// The newest snapshots with the current one; without those before the start until ``prepend(_:)``.
    package private(set) var history: GenerationHistory
    package private(set) var numbering: RevisionNumbering

    /// - Parameter snapshot: what the layers resolve to
    package init(
        layers: Layers, snapshot: ConfigSnapshot, history: GenerationHistory, numbering: RevisionNumbering
    ) {
        self.layers = layers
        self.snapshot = snapshot
        resolvedDigest = snapshot.contentDigest
        self.history = history
        self.numbering = numbering
    }

    /// Whether resolving the layers takes too long for a thread that serves clients.
    package var isExpensive: Bool { snapshot.bytes + layers.remoteTextSize > Self.expensiveBytes }

    /// Begins a batch of changes.
    /// - Parameters:
    ///   - now: in milliseconds since 1970
    ///   - recordsOperations: whether the journal may have to record the changes
    package func batch(limits: DocumentLimits, now: Int, recordsOperations: Bool) -> ChangeBatch {
        ChangeBatch(
            on: layers,
            ChangeContext(
                resolved: snapshot.value, limits: limits, now: now, recordsOperations: recordsOperations))
    }

    /// What the layers resolve to after a batch.
    /// - Parameters:
    ///   - mayPublishEmpty: whether an empty configuration may be the first one; it may not while a source has not answered
    ///   - now: in milliseconds since 1970
    package func resolve(_ batch: ChangeBatch, mayPublishEmpty: Bool, now: Int) -> Resolution {
        builder(for: batch, mayPublishEmpty: mayPublishEmpty, now: now)?.build() ?? unchanged
    }

    /// The same away from the caller's thread, for what takes long.
    package func resolveConcurrently(
        _ batch: ChangeBatch, mayPublishEmpty: Bool, now: Int, isolation: isolated (any Actor)? = #isolation
    ) async -> Resolution {
        guard let builder = builder(for: batch, mayPublishEmpty: mayPublishEmpty, now: now) else { return unchanged }
        return await builder.buildConcurrently()
    }

    private var unchanged: Resolution { Resolution(snapshot: snapshot, digest: resolvedDigest) }

    /// The builder of the next snapshot; nil if it stays the current one.
    private func builder(for batch: ChangeBatch, mayPublishEmpty: Bool, now: Int) -> SnapshotBuilder? {
        if !batch.hasChanged { return nil }
        if snapshot.revision == 0, batch.layers.isEmpty, !mayPublishEmpty { return nil }
        return SnapshotBuilder(
            layers: batch.layers,
            // Members of another order stay in it.
            difference: snapshot.contentDigest === resolvedDigest ? batch.difference : .any,
            current: snapshot,
            isRemoteDocument: layers.sharesRemoteDocument(with: snapshot.value) && layers.isRemoteAlone
                && batch.layers.isRemoteAlone,
            revision: numbering.next(after: snapshot.revision), now: now)
    }

    /// What has to be on disk before a resolution is published.
    package func need(for resolution: Resolution, of batch: ChangeBatch, writesJournal: Bool) -> CommitNeed {
        numbering.need(
            for: resolution.snapshot.revision, isNew: resolution.snapshot !== snapshot,
            writesJournal: writesJournal && !batch.operations.isEmpty)
    }

    /// Takes over a batch, once what it needs is on disk. A batch that changed no layer may still have brought a new validator
    /// for the same document.
    package func commit(
        _ batch: ChangeBatch, _ resolution: Resolution, causes: [ChangeCause], met need: CommitNeed
    ) -> Effects {
        numbering.met(need, publishing: resolution.snapshot.revision)
        let problem = batch.layers.experiment.problem
        let effects = Effects(
            isNew: resolution.snapshot !== snapshot,
            experimentProblem: problem == layers.experiment.problem ? nil : problem)
        layers = batch.layers
        resolvedDigest = resolution.digest
        if effects.isNew {
            snapshot = resolution.snapshot
            history.append(generation(causes: causes, published: nil))
        } else {
            history.update(
                layers, digest: resolvedDigest, ofRevision: snapshot.revision, layersChanged: batch.hasChanged)
        }
        return effects
    }

    /// The current snapshot as a generation, with what was published.
    package var currentGeneration: Generation {
        let current = history.current
        if let current, current.revision == snapshot.revision, current.journalSequence == numbering.journalSequence,
            current.released == numbering.settledBound, current.bytes != nil
        {
            return current
        }
        return generation(causes: current?.causes ?? [], published: current?.published)
    }

    private func generation(causes: [ChangeCause], published: Layers?) -> Generation {
        Generation(
            revision: snapshot.revision, digest: resolvedDigest, publishedAt: snapshot.publishedAt,
            journalSequence: numbering.journalSequence, released: numbering.settledBound, bytes: snapshot.bytes,
            causes: causes, layers: layers, published: published)
    }

    /// Adds the snapshots from before the start to the history, newest first.
    package func prepend(_ older: [Generation]) { history.prepend(older) }

    /// Settles all reservations, since nothing more is published.
    package func settleReservations() { numbering.settle() }
}
