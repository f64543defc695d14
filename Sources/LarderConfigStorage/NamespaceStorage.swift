package import LarderConfigModel
package import LarderPlatform
package import Logging

/// The state of a running namespace on disk. Blocking I/O runs on the threads for blocking work.
///
/// Only the committer of the namespace calls ``append(after:_:)`` and ``reserve(_:)``.
package final class NamespaceStorage: Sendable {
    private let archive: ConfigArchive
    private let blocking: BlockingWork
    /// Writes generations in the background.
    package let writer: GenerationWriter

    package init(
        _ archive: ConfigArchive, blocking: BlockingWork, clock: any Clock<Duration>, logger: Logger
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
