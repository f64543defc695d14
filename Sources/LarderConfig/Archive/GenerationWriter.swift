import Logging
import Synchronization

/// Writes generations behind the publications: the newest only, and never more often than the disk bears.
///
/// What is lost when the process dies before a write is in the journal (what clients handed over) or is fetched again
/// (what came from a source).
final class GenerationWriter: Sendable {
    private struct State {
        var pending: Generation?
        /// What the newest generation on disk says of itself.
        var contained: (revision: Int, sequence: Int, released: Int) = (0, 0, 0)
        var task: Task<Void, Never>?
    }

    /// Changes that come within this time share one write.
    private static let shortestPause = Duration.milliseconds(50)
    private static let pauseAfterFailure = Duration.seconds(5)

    private let archive: SnapshotArchive
    private let blocking: BlockingWork
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let state = Mutex(State())

    init(archive: SnapshotArchive, blocking: BlockingWork, clock: any Clock<Duration>, logger: Logger) {
        self.archive = archive
        self.blocking = blocking
        self.clock = clock
        self.logger = logger
    }

    /// The last journal record that a generation on disk contains.
    var containedSequence: Int { state.withLock { $0.contained.sequence } }

    /// Hands over the newest generation; it is written soon.
    func note(_ generation: Generation) {
        state.withLock { state in
            state.pending = generation
            if state.task == nil { state.task = Task { await self.writeUntilNothingIsPending() } }
        }
    }

    /// Writes this last generation now.
    func finish(with generation: Generation) async {
        let task = state.withLock { state in
            state.pending = nil
            return state.task
        }
        task?.cancel()
        await task?.value
        let last = (generation.revision, generation.journalSequence, generation.released)
        if state.withLock({ $0.contained == last }) { return }
        _ = await write(generation)
    }

    private func writeUntilNothingIsPending() async {
        var pause = Self.shortestPause
        while true {
            // Cancellation only shortens the pause.
            try? await clock.sleep(for: pause)
            let next = state.withLock { state in
                defer { state.pending = nil }
                if state.pending == nil { state.task = nil }
                return state.pending
            }
            guard let next else { return }
            let began = ContinuousClock.now
            if await write(next) {
                // A slow disk or a large document gets a tenth of the time at most.
                pause = max(Self.shortestPause, (ContinuousClock.now - began) * 10)
            } else {
                pause = Self.pauseAfterFailure
                state.withLock { if $0.pending == nil, !Task.isCancelled { $0.pending = next } }
            }
        }
    }

    private func write(_ generation: Generation) async -> Bool {
        let archive = archive
        do throws(FileError) {
            try await blocking.run { () throws(FileError) in try archive.write(generation) }
            state.withLock { state in
                state.contained = (generation.revision, generation.journalSequence, generation.released)
            }
            return true
        } catch {
            logger.error(
                "a generation could not be written; it is tried again",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
            return false
        }
    }
}
