import LarderConfigModel
import LarderConfigStorage

/// What a store begins with. It follows from what a start has recovered, without I/O.
struct StoreOpening: Sendable {
    let layers: Layers
    /// What the layers resolve to.
    let snapshot: ConfigSnapshot
    private(set) var history: GenerationHistory
    private(set) var numbering: RevisionNumbering
    /// The epoch in which the revisions count.
    private(set) var epoch: String
    /// The bound to reserve on disk before the first snapshot is shown; nil for none.
    let reservation: Int?
    /// Whether the first snapshot was not published before the start.
    let isNew: Bool
    /// Whether the generation of the first snapshot has to be written.
    let isUnwritten: Bool
    /// The generations that only the journal has. The journal begins again once they are written.
    private(set) var onlyInJournal: [Generation]
    /// The files of the generations that were not read, newest first.
    private(set) var olderFiles: [String]

    /// The last known good state, under its own revision if it is certain that it was published with it, and under a revision that
    /// was never published otherwise.
    /// - Parameters:
    ///   - epoch: the one of the state directory
    ///   - mayPublishEmpty: whether an empty configuration may be the first one
    ///   - now: in milliseconds since 1970
    init(_ recovered: RecoveredState, epoch: String, rules: LayerRules, mayPublishEmpty: Bool, now: Int) {
        self.epoch = epoch
        var layers = recovered.layers
        // Overrides that expired while no agent was running are not served again.
        let hasExpired = layers.override.expire(at: now)
        layers.applyRulesLeniently(rules, now: now)
        let (value, numbers) = (layers.resolved(), recovered.numbers)
        let digest = SnapshotDigest(of: value)
        let isPlaceholder = numbers.revision == 0 && layers.isEmpty && !mayPublishEmpty
        let first = isPlaceholder ? 0 : numbers.firstRevision(isCertain: digest.text == recovered.digest)
        isNew = first != numbers.revision
        snapshot = ConfigSnapshot(
            value: value, revision: first, digest: digest,
            publishedAt: isNew || first == 0 ? now : recovered.publishedAt)
        history = recovered.history
        // The last record's snapshot is missing in the history if a file changed before it. It is certain after all if the files of
        // now resolve to its digest.
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
            history.update(layers, digest: digest, ofRevision: first, layersChanged: layersChanged)
        }
        self.layers = layers
        reservation = numbering.openingReservation(after: numbers, first: first)
        onlyInJournal = recovered.unwritten
        olderFiles = recovered.olderFiles
    }

    /// Begins an epoch that ends with the process, since nothing can be reserved on disk. No snapshot from before has a revision in it.
    mutating func endWithProcess(in epoch: String) {
        self.epoch = epoch
        numbering.endWithProcess()
        let current = history.current
        history = GenerationHistory()
        if let current { history.append(current) }
        onlyInJournal = []
        olderFiles = []
    }
}
