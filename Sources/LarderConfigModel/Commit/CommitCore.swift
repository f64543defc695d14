package import LarderJSON

/// The part of a namespace's state that its commits change: layers, current snapshot, history and numbering. It
/// performs no I/O.
///
/// Only the committer changes it. It is a class for two reasons. A struct could be copied before an `await` and written
/// back after it, which would lose additions to the history. And calls from another module copy a struct: seven copies
/// took 1,700 of the 68,700 instructions of a `set` with relaxed durability.
package final class CommitCore {
    /// The effects of a commit.
    package struct Effects: Sendable {
        /// Whether the commit made a new snapshot.
        package let isNew: Bool
        /// Why the experiments of the remote document are left out. Nil if they are not left out, or if they were
        /// already left out before the commit for the same reason.
        package let experimentProblem: String?
    }

    /// The size in bytes above which resolving or validating takes too long for a thread that serves clients.
    package static let expensiveBytes = 64 * 1024

    package private(set) var layers: Layers
    package private(set) var snapshot: ConfigSnapshot
    /// The digest of the resolved layers. It differs from the snapshot's digest only if the layers have changed in the
    /// order of their members. Such a change does not publish a new snapshot.
    package private(set) var resolvedDigest: SnapshotDigest
    /// The newest snapshots since the start, including the current one.
    package private(set) var history: GenerationHistory
    package private(set) var numbering: RevisionNumbering
    /// The epoch of the revisions.
    private let epoch: String

    /// - Parameter snapshot: the resolved layers
    package init(
        layers: Layers, snapshot: ConfigSnapshot, history: GenerationHistory, numbering: RevisionNumbering,
        epoch: String = ""
    ) {
        self.layers = layers
        self.snapshot = snapshot
        resolvedDigest = snapshot.contentDigest
        self.history = history
        self.numbering = numbering
        self.epoch = epoch
    }

    /// Whether resolving the layers takes too long for a thread that serves clients.
    package var isExpensive: Bool { snapshot.bytes + layers.remoteTextSize > Self.expensiveBytes }

    /// Starts a batch of changes.
    /// - Parameters:
    ///   - now: in milliseconds since 1970
    ///   - recordsOperations: whether the journal may have to record the changes
    package func batch(limits: DocumentLimits, now: Int, recordsOperations: Bool) -> ChangeBatch {
        ChangeBatch(
            on: layers,
            ChangeContext(
                resolved: snapshot.value, limits: limits, now: now, recordsOperations: recordsOperations,
                revision: snapshot.revision, epoch: epoch))
    }

    /// Resolves the layers with the changes of a batch.
    /// - Parameters:
    ///   - mayPublishEmpty: whether the first snapshot may be empty; false if there is a remote source
    ///   - now: in milliseconds since 1970
    package func resolve(_ batch: ChangeBatch, mayPublishEmpty: Bool, now: Int) -> Resolution {
        builder(for: batch, mayPublishEmpty: mayPublishEmpty, now: now)?.build() ?? unchanged
    }

    /// Does the work of ``resolve(_:mayPublishEmpty:now:)`` on another thread, for large configurations.
    package func resolveConcurrently(
        _ batch: ChangeBatch, mayPublishEmpty: Bool, now: Int, isolation: isolated (any Actor)? = #isolation
    ) async -> Resolution {
        guard let builder = builder(for: batch, mayPublishEmpty: mayPublishEmpty, now: now) else { return unchanged }
        return await builder.buildConcurrently()
    }

    /// Resolves a change of the current state, and commits nothing.
    /// - Parameter others: changes of which those that are possible precede the change in the same batch
    /// - Throws: The errors of ``ChangeBatch/apply(_:)``.
    package func preview(
        _ change: LayerChange, after others: [LayerChange] = [], limits: DocumentLimits, mayPublishEmpty: Bool,
        now: Int, isolation: isolated (any Actor)? = #isolation
    ) async throws(ConfigError) -> ChangePreview {
        var batch = batch(limits: limits, now: now, recordsOperations: false)
        for other in others { _ = try? batch.apply(other) }
        let (current, result) = (snapshot, try batch.apply(change))
        let resolution =
            if isExpensive {
                await resolveConcurrently(batch, mayPublishEmpty: mayPublishEmpty, now: now)
            } else {
                resolve(batch, mayPublishEmpty: mayPublishEmpty, now: now)
            }
        return ChangePreview(
            current: current, value: resolution.snapshot.value, publishes: resolution.snapshot !== current,
            result: result, layers: batch.layers)
    }

    /// The resolution if the current snapshot stays.
    package var unchanged: Resolution { Resolution(snapshot: snapshot, digest: resolvedDigest) }

    /// The builder of the next snapshot; nil if the current one stays.
    private func builder(for batch: ChangeBatch, mayPublishEmpty: Bool, now: Int) -> SnapshotBuilder? {
        // Before the first publication, the layers may be valid now because the schema has changed.
        if !batch.hasChanged, snapshot.revision > 0 { return nil }
        if snapshot.revision == 0, batch.layers.isEmpty, !mayPublishEmpty { return nil }
        return SnapshotBuilder(
            layers: batch.layers,
            // If the order of members in the snapshot is not that of the resolved layers, an edited copy of the
            // snapshot would keep the wrong order. The layers are then merged instead.
            difference: snapshot.contentDigest === resolvedDigest ? batch.difference : .any,
            current: snapshot,
            isRemoteDocument: layers.sharesRemoteDocument(with: snapshot.value) && layers.isRemoteAlone
                && batch.layers.isRemoteAlone,
            revision: numbering.next(after: snapshot.revision), now: now)
    }

    /// The write that must be on disk before the resolution is published.
    package func need(for resolution: Resolution, of batch: ChangeBatch, writesJournal: Bool) -> CommitNeed {
        numbering.need(
            for: resolution.snapshot.revision, isNew: resolution.snapshot !== snapshot,
            writesJournal: writesJournal && !batch.operations.isEmpty)
    }

    /// Applies a batch once its ``CommitNeed`` is met. The layers are replaced even if none has changed, because the
    /// remote document may have a new validator.
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

    /// The current snapshot as a generation. If the layers have changed since the publication, the generation also has
    /// the layers as they were published.
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

    /// Marks all reserved revisions as settled. Nothing may be published afterwards.
    package func settleReservations() { numbering.settle() }
}

/// The result of a committed change.
package struct CommitOutcome: Sendable, Hashable {
    /// The revision of the snapshot that contains the change.
    package var revision: Int
    /// Whether this change has changed its layer, and its batch was published as a new snapshot. The snapshot may be
    /// new only because of another change of the same batch.
    package var changed: Bool
    /// Whether this change has changed its layer.
    package var layerChanged: Bool
    /// The rule of the rollback hold after the change; nil if there is no hold.
    package var hold: HoldRule?
    /// The lifetime of the override that was set; nil for other changes.
    package var lifetime: OverrideLifetime?
    /// The new number at the path of an increment; nil for other changes.
    package var number: Int?

    /// Whether a rollback hold is in effect after the change.
    package var isHeld: Bool { hold != nil }

    package init(
        revision: Int, changed: Bool, layerChanged: Bool, hold: HoldRule? = nil, lifetime: OverrideLifetime? = nil,
        number: Int? = nil
    ) {
        self.revision = revision
        self.changed = changed
        self.layerChanged = layerChanged
        self.hold = hold
        self.lifetime = lifetime
        self.number = number
    }
}

/// Whether a client's change is on disk before it is acknowledged.
package enum Durability: String, Sendable, CaseIterable {
    /// The change is written to disk, then published and acknowledged.
    case full
    /// The change is published and acknowledged at once, and written in the background.
    case relaxed
}

/// The effect that a change would have.
package struct ChangePreview: Sendable {
    /// The snapshot that the change was applied to.
    package let current: ConfigSnapshot
    /// The configuration that the change would publish; that of ``current`` if the change would publish nothing.
    package let value: JSONValue
    /// Whether the change would publish a snapshot.
    package let publishes: Bool
    package let result: ChangeBatch.Result
    /// The layers that resolve to ``value``.
    package let layers: Layers
    /// The violations of the schema by ``value``; empty if it is valid, or if there is no schema.
    package var schemaProblems: [SchemaProblem] = []

    /// Whether the change would change a layer.
    package var isChange: Bool { result.layerChanged }

    /// The differences between the configurations before and after the change. They are computed outside every actor,
    /// so that large configurations do not block one.
    package func difference() async -> ConfigDifference {
        await ConfigDifference.between(current.value, value, at: JSONPath([]))
    }
}

/// The result of resolving the layers.
package struct Resolution: Sendable {
    /// The next snapshot, or the current one itself if the value has not changed.
    package let snapshot: ConfigSnapshot
    /// The digest of the resolved layers. It differs from the digest of ``snapshot`` if only the order of members has
    /// changed, because the current snapshot then stays.
    package let digest: SnapshotDigest
}

/// Builds the next snapshot, on any thread. It edits the current value if only scalars have changed, and otherwise
/// merges all layers.
struct SnapshotBuilder: Sendable {
    let layers: Layers
    /// The difference between the current snapshot and the resolved layers.
    let difference: ResolvedDifference
    let current: ConfigSnapshot
    /// Whether the value of the current snapshot is the remote document itself, not a copy. This is so if no other
    /// layer has content, neither before nor after the changes.
    let isRemoteDocument: Bool
    let revision: Int
    /// In milliseconds since 1970.
    let now: Int

    @concurrent
    func buildConcurrently() async -> Resolution { build() }

    func build() -> Resolution {
        let edited = difference.replacements.flatMap {
            isRemoteDocument ? layers.remote?.document : current.value.replacing($0)
        }
        let value = edited ?? layers.resolvedSharing()
        assert(
            edited == nil || value.compactText == layers.resolved().compactText,
            "the edited snapshot differs from the merged layers")
        // The texts of the new and the current value are compact, so equal values have texts of equal size.
        let isSame =
            current.revision > 0 && value.textSize == current.bytes && !isKnownToDiffer && value == current.value
        if !isSame {
            let next = ConfigSnapshot(value: value, revision: revision, publishedAt: now)
            return Resolution(snapshot: next, digest: next.contentDigest)
        }
        let digest = value.hasSameText(as: current.value) ? current.contentDigest : SnapshotDigest(of: value)
        return Resolution(snapshot: current, digest: digest)
    }

    /// Whether a replacement shows that the new value differs from the current one, so that the whole values need not
    /// be compared. Of several replacements, only the last one is checked, because no later one can undo it.
    private var isKnownToDiffer: Bool {
        switch difference {
        case .none, .any: return false
        case .scalar(_, let differs): return differs
        case .scalars(let replacements):
            guard let last = replacements.last else { return false }
            return current.value.value(at: JSONPath(last.path)) != last.value
        }
    }
}
