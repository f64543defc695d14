package import LarderJSON

/// The committed state of a namespace: layers, current snapshot and numbering.
///
/// It is immutable: a commit makes the next state (``ChangeBatch/committed(with:)``), which replaces the current one once
/// the required write is on disk. It is a class, because calls from another module copy a struct: seven copies took 1,700
/// of the 68,700 instructions of a `set` with relaxed durability.
package final class CommittedState: Sendable {
    /// The size in bytes above which resolving or validating takes too long for a thread that serves clients.
    package static let expensiveBytes = 64 * 1024

    package let snapshot: ConfigSnapshot
    /// The current snapshot with its layers. If the layers have changed since the publication, it also has the layers as
    /// they were published.
    package let generation: Generation
    package let numbering: RevisionNumbering
    /// The epoch of the revisions.
    package let epoch: String
    /// Whether resolving the layers takes too long for a thread that serves clients.
    package let isExpensive: Bool

    init(_ generation: Generation, _ snapshot: ConfigSnapshot, _ numbering: RevisionNumbering, epoch: String) {
        self.generation = generation
        self.snapshot = snapshot
        self.numbering = numbering
        self.epoch = epoch
        isExpensive = snapshot.bytes + generation.layers.remoteTextSize > Self.expensiveBytes
    }

    /// Creates the state after a start.
    /// - Parameters:
    ///   - snapshot: the resolved layers
    ///   - history: the recovered snapshots, including the current one
    package convenience init(
        layers: Layers, snapshot: ConfigSnapshot, history: GenerationHistory, numbering: RevisionNumbering,
        epoch: String = ""
    ) {
        let known = history.current
        let generation = Generation(
            revision: snapshot.revision, digest: snapshot.contentDigest, publishedAt: snapshot.publishedAt,
            journalSequence: numbering.journalSequence, released: numbering.settledBound, bytes: snapshot.bytes,
            causes: known?.causes ?? [], layers: layers, published: known?.published)
        self.init(generation, snapshot, numbering, epoch: epoch)
    }

    package var layers: Layers { generation.layers }
    /// The digest of the resolved layers. It differs from the snapshot's digest only if the layers have changed in the
    /// order of their members. Such a change does not publish a new snapshot.
    package var resolvedDigest: SnapshotDigest { generation.digest }

    /// The state with all reserved revisions marked as settled. Nothing may be published afterwards.
    package var settled: CommittedState {
        var numbering = numbering
        numbering.settle()
        let last = Generation(
            revision: generation.revision, digest: generation.digest, publishedAt: generation.publishedAt,
            journalSequence: generation.journalSequence, released: numbering.settledBound, bytes: generation.bytes,
            causes: generation.causes, layers: layers, published: generation.published)
        return CommittedState(last, snapshot, numbering, epoch: epoch)
    }

    /// Resolves a change of this state, and commits nothing.
    /// - Parameter others: changes of which those that are possible precede the change in the same batch
    /// - Throws: The errors of ``ChangeBatch/apply(_:)``.
    package func preview(
        _ change: LayerChange, after others: [LayerChange] = [], _ context: ChangeContext
    ) async throws(ConfigError) -> ChangePreview {
        var batch = ChangeBatch(on: self, context)
        for other in others { _ = try? batch.apply(other) }
        let result = try batch.apply(change)
        let resolution = isExpensive ? await batch.resolveConcurrently() : batch.resolve()
        return ChangePreview(
            current: snapshot, value: (resolution.snapshot ?? snapshot).value, publishes: resolution.isNew,
            result: result, layers: batch.layers)
    }
}

/// The effect that a change would have.
package struct ChangePreview: Sendable {
    /// The snapshot that the change was applied to.
    package let current: ConfigSnapshot
    /// The configuration that the change would publish; that of ``current`` if the change would publish nothing.
    package let value: JSONValue
    /// Whether the change would publish a snapshot.
    package let publishes: Bool
    package let result: ChangeResult
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

/// Whether a client's change is on disk before it is acknowledged.
package enum Durability: String, Sendable, CaseIterable {
    /// The change is written to disk, then published and acknowledged.
    case full
    /// The change is published and acknowledged at once, and written in the background.
    case relaxed
}

/// Assigns revisions to snapshots, so that no revision ever stands for two contents, even after a crash.
///
/// A revision may be published once a journal record with it is on disk, or once a bound at or above it has been
/// reserved on disk. After a crash, numbering continues after every revision that may have been published.
package struct RevisionNumbering: Sendable, Equatable {
    /// The numbers that are read from disk at the start of the agent.
    package struct Recovered: Sendable {
        /// The revision of the last state that is known with certainty; 0 for none.
        package var revision: Int
        /// The sequence number of the last journal record in that state.
        package var journalSequence: Int
        /// The highest bound (last reserved revision) that was ever reserved.
        package var reservedBound: Int
        /// Reservations up to this bound are settled: no revision above ``revision`` was published under them.
        package var settledBound: Int
        /// The highest revision in any other file or record on disk, or that a lost journal record may have had.
        package var highestNamed: Int

        package init(
            revision: Int, journalSequence: Int, reservedBound: Int, settledBound: Int, highestNamed: Int
        ) {
            self.revision = revision
            self.journalSequence = journalSequence
            self.reservedBound = reservedBound
            self.settledBound = settledBound
            self.highestNamed = highestNamed
        }

        /// The highest revision that may have been published although its content is unknown; 0 for none.
        package var highestPossiblyPublished: Int {
            max(highestNamed, reservedBound > settledBound ? reservedBound : 0)
        }

        /// The first revision after the start.
        /// - Parameter isCertain: whether the content at the start is certainly the content that was published as
        ///   ``revision``
        package func firstRevision(isCertain: Bool) -> Int {
            if isCertain, revision > 0, revision >= highestPossiblyPublished { return revision }
            return max(revision, highestPossiblyPublished) + 1
        }
    }

    private enum Usable: Sendable, Equatable {
        case upTo(Int)
        /// Any revision may be published without a disk write, because the epoch ends with the process.
        case all
    }

    /// The number of revisions that one disk write reserves.
    package static let blockSize = 1024

    package private(set) var journalSequence: Int
    package private(set) var reservedBound: Int
    package private(set) var settledBound: Int
    /// If no snapshot was published at the start, the highest revision that may have been published before the start.
    /// Otherwise 0.
    private let highestPossiblyPublished: Int
    /// The revisions that may be published without a disk write.
    private var usable: Usable

    /// Continues the numbering after a start.
    /// - Parameter first: the first revision; 0 if nothing is published yet
    package init(after recovered: Recovered, first: Int) {
        journalSequence = recovered.journalSequence
        settledBound = recovered.settledBound
        highestPossiblyPublished = first == 0 ? recovered.highestPossiblyPublished : 0
        let bound = max(recovered.reservedBound, recovered.settledBound)
        if first == recovered.revision {
            reservedBound = bound
            usable = .upTo(first)
        } else {
            reservedBound = max(bound, first) + Self.blockSize
            usable = .upTo(reservedBound)
        }
    }

    /// The bound to reserve on disk before the first revision is published; nil if the first revision was published
    /// before the start.
    package func openingReservation(after recovered: Recovered, first: Int) -> Int? {
        first == recovered.revision ? nil : reservedBound
    }

    /// Allows all revisions without a reservation, because the epoch ends with the process.
    package mutating func endWithProcess() { usable = .all }

    /// The revision of the snapshot after the current one.
    package func next(after current: Int) -> Int { max(current, highestPossiblyPublished) + 1 }

    /// The write that must be on disk before a snapshot is published.
    /// - Parameters:
    ///   - isNew: whether the revision has not been published yet
    ///   - writesJournal: whether the journal records the changes
    package func write(before revision: Int, isNew: Bool, writesJournal: Bool) -> RequiredWrite {
        if writesJournal { return .journal(sequence: journalSequence + 1, settledBound: reservedBound) }
        guard isNew, case .upTo(let last) = usable, revision > last else { return .nothing }
        return .reservation(bound: max(reservedBound, revision) + Self.blockSize)
    }

    /// Records that the disk write that had to precede a publication is complete.
    package mutating func wrote(_ write: RequiredWrite, publishing revision: Int) {
        switch write {
        case .nothing: break
        case .journal(let sequence, let settledBound):
            journalSequence = sequence
            // The state in this record includes everything published so far. Revisions without a record need a new
            // reservation from now on.
            self.settledBound = settledBound
            if case .upTo = usable { usable = .upTo(revision) }
        case .reservation(let bound):
            reservedBound = bound
            usable = .upTo(bound)
        }
    }

    /// Marks all reserved revisions as settled. Nothing may be published afterwards.
    package mutating func settle() { settledBound = reservedBound }
}

/// A write that must be on disk before a snapshot is published.
package enum RequiredWrite: Sendable, Equatable {
    case nothing
    /// A journal record with the changes.
    case journal(sequence: Int, settledBound: Int)
    /// A reservation of all revisions up to the bound.
    case reservation(bound: Int)
}
