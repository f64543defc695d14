package import LarderConfigModel
package import LarderPlatform
package import Logging

/// What a commit writes to the journal.
package struct JournalEntry: Sendable {
    package let sequence: Int
    package let settledBound: Int
    package let snapshot: ConfigSnapshot
    /// The digest of what the layers resolve to. It is computed on the thread that writes.
    package let digest: SnapshotDigest
    package let operations: [LayerOperation]
    package let causes: [ChangeCause]

    package init(
        sequence: Int, settledBound: Int, snapshot: ConfigSnapshot, digest: SnapshotDigest,
        operations: [LayerOperation], causes: [ChangeCause]
    ) {
        self.sequence = sequence
        self.settledBound = settledBound
        self.snapshot = snapshot
        self.digest = digest
        self.operations = operations
        self.causes = causes
    }

    fileprivate var record: JournalRecord {
        JournalRecord(
            sequence: sequence, revision: snapshot.revision, digest: digest.text, publishedAt: snapshot.publishedAt,
            released: settledBound, operations: operations, causes: causes)
    }
}

/// The state of a running namespace on disk. Its functions wait for the disk on the threads for blocking work.
///
/// The committer alone appends and reserves.
package final class NamespaceStorage: Sendable {
    private let archive: ConfigArchive
    private let blocking: BlockingWork
    private let writer: GenerationWriter

    package init(
        _ archive: ConfigArchive, blocking: BlockingWork, clock: any Clock<Duration>, logger: Logger
    ) {
        self.archive = archive
        self.blocking = blocking
        writer = GenerationWriter(archive.generations, blocking: blocking, clock: clock, logger: logger)
    }

    package var namespace: String { archive.namespace }
    package var epoch: String { archive.epoch }

    /// Whether a generation is being written, or waits for that.
    package var isAtWork: Bool { writer.isAtWork }

    // MARK: Commits

    /// Puts a change on disk. When it returns, the change survives a crash.
    /// - Parameter current: the state before the change; it is written first, if the journal is too long, so that the journal
    ///   begins again
    package func append(_ entry: JournalEntry, after current: Generation) async throws(FileError) {
        let journal = archive.journal
        if journal.isTooLong() { await writeNow(current) }
        let contained = writer.containedSequence
        try await blocking.run { () throws(FileError) in
            try journal.append(entry.record, afterGenerationWith: contained)
        }
    }

    /// Promises that no revision up to this bound is given to anything else after a crash.
    package func reserve(_ bound: Int) async throws(FileError) {
        let reservation = archive.reservation
        try await blocking.run { () throws(FileError) in try reservation.reserve(bound) }
    }

    /// Submits the newest generation, or another state of the one before. It is written soon.
    package func writeBehind(_ generation: Generation) { writer.note(generation) }

    /// Writes this generation and all that are pending now.
    package func writeNow(_ generation: Generation) async { await writer.catchUp(with: generation) }

    /// Writes the last generation and all that are pending, and gives back what the journal takes of the disk beyond its usual
    /// size.
    package func finish(with last: Generation) async throws(FileError) {
        await writer.finish(with: last)
        let (journal, contained) = (archive.journal, writer.containedSequence)
        try await blocking.run { () throws(FileError) in try journal.shorten(afterGenerationWith: contained) }
    }

    // MARK: Earlier snapshots

    /// Sets how many snapshots are kept, from the next write on.
    package func configure(_ limits: HistoryLimits) { archive.generations.configure(limits) }

    /// Reads the generations in files; see ``GenerationDirectory/generations(inFiles:before:)``.
    package func generations(inFiles names: [String], before next: Generation?) async -> [Generation] {
        let generations = archive.generations
        return await blocking.run { generations.generations(inFiles: names, before: next) }
    }

    /// Reads those of the revisions that are on disk and whole.
    package func generations(ofRevisions revisions: [Int]) async -> [Generation] {
        let generations = archive.generations
        return await blocking.run { revisions.compactMap { generations.generation(ofRevision: $0) } }
    }

    /// The snapshots that the limits keep; see ``GenerationDirectory/kept(with:)``.
    package func kept(with newest: [HistoryLimits.File]) async -> [HistoryLimits.File] {
        let generations = archive.generations
        return await blocking.run { generations.kept(with: newest) }
    }

    /// Pins a snapshot or ends that; see ``GenerationDirectory/pin(_:_:)``.
    package func pin(
        _ isPinned: Bool, _ generation: Generation
    ) async throws(FileError) -> GenerationDirectory.PinResult {
        let generations = archive.generations
        return try await blocking.run { () throws(FileError) in try generations.pin(isPinned, generation) }
    }

    /// A snapshot as a file of the state directory.
    @concurrent
    package func text(of generation: Generation) async -> String {
        String(decoding: archive.generations.encode(generation), as: UTF8.self)
    }
}
