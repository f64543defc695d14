package import LarderConfigModel
package import LarderPlatform
package import Logging

/// The state of a running namespace on disk. Blocking I/O runs on the threads for blocking work.
///
/// Only the committer of the namespace calls ``append(after:_:)`` and ``reserve(_:)``.
package final class NamespaceStorage: Sendable {
    private let archive: ConfigArchive
    private let blocking: BlockingThreadPool
    /// Writes generations in the background.
    package let writer: GenerationWriter

    package init(
        _ archive: ConfigArchive, blocking: BlockingThreadPool, clock: any Clock<Duration>, logger: Logger
    ) {
        self.archive = archive
        self.blocking = blocking
        writer = GenerationWriter(archive.generations, blocking: blocking, clock: clock, logger: logger)
    }

    package var namespace: String { archive.namespace }
    package var epoch: String { archive.epoch }

    // MARK: Commits

    /// Writes a change to the journal and waits until it is on disk.
    /// - Parameters:
    ///   - current: the state before the change. If the journal is too long, this state is written first, so that the
    ///     journal can start over.
    ///   - record: makes the record, on the thread that writes it: the text of a digest may have to be computed
    package func append(
        after current: Generation, _ record: @escaping @Sendable () -> JournalRecord
    ) async throws(FileError) {
        let journal = archive.journal
        if journal.isTooLong() { await writer.catchUp(with: current) }
        let contained = writer.containedSequence
        try await blocking.run { () throws(FileError) in
            try journal.append(record(), afterGenerationWith: contained)
        }
    }

    /// Reserves the revisions up to a bound: after a crash, none of them is assigned to other content.
    package func reserve(_ bound: Int) async throws(FileError) {
        let reservation = archive.reservation
        try await blocking.run { () throws(FileError) in try reservation.reserve(bound) }
    }

    /// Repeats a reservation that failed, in the background, until it succeeds.
    /// - Parameter succeeded: called on a thread for blocking work
    package func retryReservation(of bound: Int, then succeeded: @escaping @Sendable () -> Void) {
        let reservation = archive.reservation
        writer.retry { () throws(FileError) in
            try reservation.reserve(bound)
            succeeded()
        }
    }

    /// Writes the last generation and all pending ones, and shortens the journal to its usual size.
    package func finish(with last: Generation) async throws(FileError) {
        await writer.finish(with: last)
        let (journal, contained) = (archive.journal, writer.containedSequence)
        try await blocking.run { () throws(FileError) in try journal.shorten(afterGenerationWith: contained) }
    }

    // MARK: Earlier snapshots

    /// Sets the history limits. Files are removed at the next write.
    package func configure(_ limits: HistoryLimits) { archive.generations.configure(limits) }

    /// Reads the generations of these revisions. Skips those that are missing or damaged.
    package func generations(ofRevisions revisions: [Int]) async -> [Generation] {
        let generations = archive.generations
        return await blocking.run { revisions.compactMap { generations.generation(ofRevision: $0) } }
    }

    /// The snapshots that the limits keep; see ``GenerationDirectory/kept(with:)``.
    package func kept(with newest: [HistoryLimits.File]) async -> [HistoryLimits.File] {
        let generations = archive.generations
        return await blocking.run { generations.kept(with: newest) }
    }

    /// Pins or unpins a snapshot; see ``GenerationDirectory/pin(_:_:)``.
    package func pin(
        _ isPinned: Bool, _ generation: Generation
    ) async throws(FileError) -> GenerationDirectory.PinResult {
        let generations = archive.generations
        return try await blocking.run { () throws(FileError) in try generations.pin(isPinned, generation) }
    }

    /// Encodes a snapshot as a file of the state directory.
    @concurrent
    package func text(of generation: Generation) async -> String {
        String(decoding: archive.generations.encode(generation), as: UTF8.self)
    }
}

/// The state of a namespace as read from disk at the start of the agent.
package struct RecoveredState: Sendable {
    package var layers = Layers()
    /// The newest snapshots that are known with certainty: the newest intact generation and those that the journal adds
    /// to it. Older snapshots are not read at the start.
    package var history = GenerationHistory()
    /// The snapshots of ``history`` that are only in the journal.
    package var unwritten: [Generation] = []
    /// The revision of the last snapshot whose changes are in the layers; 0 for none.
    package var revision = 0
    /// The digest of the resolved layers, as recorded on disk.
    package var digest = ""
    /// In milliseconds since 1970.
    package var publishedAt = 0
    /// Why ``revision`` was published, as far as recorded.
    package var causes: [ChangeCause] = []
    /// The sequence number of the last journal record whose changes are in the layers.
    package var journalSequence = 0
    /// The highest bound (last reserved revision) that was ever reserved.
    package var reservedBound = 0
    /// Reservations up to this bound are settled: none of the reserved revisions above ``revision`` was published.
    package var released = 0
    /// The highest revision in the name of a generation file, readable or not.
    var highestName = 0

    /// The highest revision that a lost record may have had.
    package var highestPossiblyPublished = 0

    /// The highest revision that a client may have seen although its content is lost.
    package var highestSeen: Int {
        max(highestName, highestPossiblyPublished, reservedBound > released ? reservedBound : 0)
    }

    /// The numbers from which numbering continues.
    package var numbers: RevisionNumbering.Recovered {
        RevisionNumbering.Recovered(
            revision: revision, journalSequence: journalSequence, reservedBound: reservedBound, settledBound: released,
            highestNamed: max(highestName, highestPossiblyPublished))
    }

    /// Sets the state to that of the newest generation.
    mutating func begin(with generation: Generation) {
        history.append(generation)
        layers = generation.layers
        revision = generation.revision
        digest = generation.digest.text
        publishedAt = generation.publishedAt
        causes = generation.causes
        journalSequence = generation.journalSequence
        released = generation.released
    }

    /// Applies the journal records that the newest generation does not contain.
    mutating func replay(_ journal: JournalReader) {
        var snapshots = GenerationHistory()
        for record in journal.records {
            for operation in record.operations { operation.apply(to: &layers) }
            if record.revision != revision { causes = record.causes }
            revision = record.revision
            digest = record.digest
            publishedAt = record.publishedAt
            journalSequence = record.sequence
            released = record.released
            snapshots.append(
                Generation(
                    revision: revision, digest: SnapshotDigest(known: digest), publishedAt: publishedAt,
                    journalSequence: journalSequence, released: released, causes: causes, layers: layers))
        }
        if case .clean = journal.ending {
        } else {
            highestPossiblyPublished = max(revision, reservedBound) + journal.lost
        }
        // Documents of sources are not in the journal. If such a document changed before a record was written, the
        // replayed layers do not resolve to the digest of that record, and its snapshot is left out.
        unwritten = snapshots.generations.compactMap { generation in
            guard generation.layers.resolve(to: generation.digest.text) else { return nil }
            let published = generation.published.flatMap { $0.resolve(to: generation.digest.text) ? $0 : nil }
            return generation.with(generation.layers, published: published)
        }
    }

    /// Ends a rollout that an earlier version of this program began, so that all clients get the live remote document;
    /// see ``HoldRule/rollout``. If clients have seen that document, the reservation of its revision is not settled,
    /// so the document gets a higher revision.
    mutating func endRollout() {
        if layers.holdRule == .rollout { layers.hold = nil }
    }

    /// Moves the numbering far ahead, because the state was written in another epoch. Since it was written, later
    /// revisions may have been assigned to content that this directory does not record, and not every client sends the
    /// epoch of the revision from which it resumes.
    mutating func skipUnknownRevisions() {
        highestPossiblyPublished = max(revision, highestSeen, reservedBound) + RevisionReservation.unknownRevisions
    }
}

extension Layers {
    fileprivate func resolve(to digest: String) -> Bool { SnapshotDigest.text(of: resolved()) == digest }
}
