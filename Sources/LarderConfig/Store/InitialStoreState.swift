import LarderConfigModel
import LarderConfigStorage

/// The initial state of a store, computed from the recovered state without I/O.
struct InitialStoreState: Sendable {
    let layers: Layers
    /// The resolved layers.
    let snapshot: ConfigSnapshot
    private(set) var history: GenerationHistory
    private(set) var numbering: RevisionNumbering
    /// The epoch of the revisions.
    private(set) var epoch: String
    /// The highest revision to reserve on disk before the first snapshot is served; nil to reserve none.
    let reservation: Int?
    /// Whether the first snapshot has a new revision.
    let isNew: Bool
    /// Whether the generation of the first snapshot is not on disk yet and must be written.
    let isUnwritten: Bool
    /// The generations that are only in the journal. The journal starts over once they are written to files.
    private(set) var onlyInJournal: [Generation]

    /// The schema, and the changes since the last known good state that it has rejected.
    private(set) var gate: SchemaGate
    /// The violations of the schema by the first snapshot.
    private(set) var schemaProblems: [SchemaProblem] = []

    /// Creates the first snapshot from the last known good state, the current files and the current settings. Changes
    /// that would violate the schema are rejected: new content of files, other rules, the removal of the remote
    /// document, and the expiry of overrides. If the last known good state violates the schema, it is published
    /// nevertheless. Without such a state, nothing is published.
    ///
    /// If it is certain that the state was published under its revision, the snapshot keeps the revision. Otherwise the
    /// snapshot gets a revision that was never published.
    /// - Parameters:
    ///   - recovered: the state from disk, with the current content of the files
    ///   - epoch: the epoch of the state directory
    ///   - lastGood: the layers of the state from disk; nil for those of `recovered`
    ///   - mayPublishEmpty: whether the first snapshot may be empty
    ///   - now: in milliseconds since 1970
    init(
        _ recovered: RecoveredState, epoch: String, rules: LayerRules, schema: NamespaceSchema? = nil,
        lastGood: Layers? = nil, mayPublishEmpty: Bool, now: Int
    ) {
        self.epoch = epoch
        gate = SchemaGate(schema)
        var layers = recovered.layers
        // Overrides that expired while no agent was running are not served again.
        _ = layers.override.expire(at: now)
        layers.applyRulesLeniently(rules, now: now)
        let numbers = recovered.numbers
        // Before the first document of the source there is nothing to validate.
        let awaitsSource = numbers.revision == 0 && layers.isEmpty && !mayPublishEmpty
        if schema != nil, !awaitsSource {
            schemaProblems = gate.open(&layers, lastGood: lastGood ?? recovered.layers, now: now)
        }
        let hasExpired = layers.override.expiringEntries.count != recovered.layers.override.expiringEntries.count
        let isRejected = numbers.revision == 0 && !schemaProblems.isEmpty && gate.schema?.rejects == true
        let value = layers.resolved()
        let digest = SnapshotDigest(of: value)
        let isPlaceholder = isRejected || (numbers.revision == 0 && layers.isEmpty && !mayPublishEmpty)
        let first = isPlaceholder ? 0 : numbers.firstRevision(isCertain: digest.text == recovered.digest)
        isNew = first != numbers.revision
        snapshot = ConfigSnapshot(
            value: value, revision: first, digest: digest,
            publishedAt: isNew || first == 0 ? now : recovered.publishedAt)
        history = recovered.history
        // If the files of a layer changed before the last journal record was written, the replayed layers do not have
        // the digest of that record, and the history lacks its snapshot. If the layers with the current files have this
        // digest, the content that was published under the revision is still known.
        let isReconfirmed = !isNew && first > 0 && history.current?.revision != first
        isUnwritten = isNew || isReconfirmed
        numbering = RevisionNumbering(after: numbers, first: first)
        if isUnwritten {
            history.append(
                Generation(
                    revision: first, digest: digest, publishedAt: snapshot.publishedAt,
                    journalSequence: recovered.journalSequence, released: recovered.released, bytes: snapshot.bytes,
                    causes: isNew ? [ChangeCause(.start)] : recovered.causes, layers: layers))
        } else {
            let layersChanged = hasExpired || history.current?.layers.hasSameDocuments(as: layers) == false
            if let last = history.current, last.revision == first {
                history.update(
                    last.with(layers, published: layersChanged ? last.publishedLayers : last.published, digest: digest))
            }
        }
        self.layers = layers
        reservation = numbering.openingReservation(after: numbers, first: first)
        onlyInJournal = recovered.unwritten
    }

    /// Adds the file and line of each violation of the schema.
    mutating func locateViolations(with locator: ViolationLocator) async {
        schemaProblems = await locator.located(schemaProblems)
        await gate.locate(with: locator)
    }

    /// Starts an epoch that ends with the process, because no revision can be reserved on disk. Only the current
    /// snapshot has a revision in this epoch.
    mutating func endWithProcess(in epoch: String) {
        self.epoch = epoch
        numbering.endWithProcess()
        let current = history.current
        history = GenerationHistory()
        if let current { history.append(current) }
        onlyInJournal = []
    }
}

/// A difference between the last known good state and the state with which an agent would start.
enum StartChange: Equatable {
    /// The files of a layer have other content.
    case files(FileLayer)
    /// The settings have other locks or experiments.
    case rules
    /// The settings no longer have the source of the remote document.
    case remote
    /// These overrides have expired.
    case overrides([ExpiringOverride])

    /// All differences, in the order of their layers.
    static func all(since lastGood: Layers, in layers: Layers) -> [StartChange] {
        var changes = FileLayer.allCases.filter { layers[$0]?.content != lastGood[$0]?.content }.map(StartChange.files)
        if layers.remote == nil, lastGood.remote != nil { changes.append(.remote) }
        if layers.locks != lastGood.locks || layers.experiment.overlays != lastGood.experiment.overlays {
            changes.append(.rules)
        }
        let expired = expired(since: lastGood, in: layers)
        if !expired.isEmpty { changes.append(.overrides(expired)) }
        return changes
    }

    /// Restores this part of the last known good state.
    func undo(in layers: inout Layers, _ lastGood: Layers) {
        switch self {
        case .files(let layer): layers[layer] = lastGood[layer]
        case .rules: (layers.rules, layers.experiment) = (lastGood.rules, lastGood.experiment)
        case .remote: (layers.remote, layers.hold) = (lastGood.remote, lastGood.hold)
        case .overrides: layers.override = lastGood.override
        }
    }

    /// Makes this change in layers that contain this part of the last known good state.
    /// - Parameters:
    ///   - new: the layers with all changes
    ///   - now: in milliseconds since 1970
    func apply(to layers: inout Layers, from new: Layers, now: Int) {
        switch self {
        case .files(let layer): layers[layer] = new[layer]
        case .remote:
            layers.dropRemote()
            layers.applyRulesLeniently(layers.rules, now: now)
        case .rules: layers.applyRulesLeniently(new.rules, now: now)
        case .overrides(let expired):
            for override in expired { _ = layers.override.expire(override.path, expiringAt: override.expiresAt) }
        }
    }

    /// Whether the change leaves all layers below the overrides as they are.
    var concernsOnlyOverrides: Bool { if case .overrides = self { true } else { false } }

    /// The changes to try one by one if this change is invalid; nil if it has no parts.
    var parts: [StartChange]? {
        guard case .overrides(let expired) = self, expired.count > 1 else { return nil }
        return expired.map { .overrides([$0]) }
    }

    /// The change to retain if the schema rejects this one.
    func change(in new: Layers) -> LayerChange {
        switch self {
        case .files(let layer): .files(layer, new[layer]?.content ?? .empty)
        case .rules: .rules(new.rules)
        case .remote: .dropRemote
        case .overrides(let expired): .expireOverrides(expired)
        }
    }

    private static func expired(since lastGood: Layers, in layers: Layers) -> [ExpiringOverride] {
        lastGood.override.expiringEntries.compactMap { entry in
            guard let end = entry.expiresAt, layers.override.entry(at: entry.path)?.expiresAt != end else { return nil }
            return ExpiringOverride(path: entry.path, expiresAt: end)
        }
    }
}
