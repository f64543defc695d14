import DequeModule
package import LarderConfigModel
package import Logging
package import LarderPlatform
import Synchronization

/// Writes generations behind the publications, oldest first and never more often than the disk bears. As many wait as
/// are kept whatever their age.
///
/// What is lost when the process dies before a write is in the journal (what clients handed over) or is fetched again
/// (what came from a source).
package final class GenerationWriter: Sendable {
    fileprivate struct State {
        var pending = Deque<Generation>()
        /// What the newest generation on disk says of itself.
        var contained: (revision: Int, sequence: Int, released: Int) = (0, 0, 0)
        var task: Task<Void, Never>?
    }

    /// Changes that come within this time are written together.
    private static let shortestPause = Duration.milliseconds(50)
    /// What has come while others were written waits so long, unless the disk is slow.
    private static let moment = Duration.milliseconds(800)
    private static let pauseAfterFailure = Duration.seconds(5)

    private let generations: GenerationDirectory
    private let blocking: BlockingWork
    private let clock: any Clock<Duration>
    private let problems: RateLimitedLog<String, FileError>
    private let state = Mutex(State())

    package init(
        _ generations: GenerationDirectory, blocking: BlockingWork, clock: any Clock<Duration>, logger: Logger
    ) {
        self.generations = generations
        self.blocking = blocking
        self.clock = clock
        problems = RateLimitedLog(every: .seconds(60), clock: clock) { [name = generations.namespace] _, error, count in
            logger.error(
                "namespace \(name): a generation could not be written; it is tried again: \(error)",
                metadata: ["namespace": "\(name)", "error": "\(error)", "before": "\(count - 1)"])
        }
    }

    /// The last journal record that a generation on disk contains.
    package var containedSequence: Int { state.withLock { $0.contained.sequence } }

    /// Whether something waits to be written, or is being written.
    package var isAtWork: Bool { state.withLock { $0.task != nil } }

    /// Hands over the newest generation, or another state of the one before; it is written soon.
    package func note(_ generation: Generation) {
        state.withLock { state in
            state.add(generation)
            if state.task == nil { state.task = Task { await self.writeUntilNothingIsPending() } }
        }
    }

    /// Writes what is pending and this newest generation now, so that the journal can begin again. Nothing may be noted
    /// meanwhile. What cannot be written is tried again later, as ever.
    package func catchUp(with generation: Generation) async {
        let rest = await takeAll(with: generation)
        guard let failed = await firstFailure(rest) else { return }
        for generation in rest[failed...] { note(generation) }
    }

    /// Writes what is pending and this last generation now.
    package func finish(with generation: Generation) async {
        for generation in await takeAll(with: generation) { _ = await write(generation) }
    }

    /// Takes over what is pending from the task that would write it, and adds the newest generation if it is not on disk.
    private func takeAll(with generation: Generation) async -> [Generation] {
        let task = state.withLock { $0.task }
        task?.cancel()
        await task?.value
        let last = (generation.revision, generation.journalSequence, generation.released)
        return state.withLock { state in
            state.task = nil
            if state.pending.isEmpty, state.contained == last { return [] }
            state.add(generation)
            return state.takeAll()
        }
    }

    private func writeUntilNothingIsPending() async {
        var pause = Self.shortestPause
        while !Task.isCancelled {
            // Cancellation ends the pause, and what is pending is written by who cancelled.
            try? await clock.sleep(for: pause)
            let batch = state.withLock { state in
                if state.pending.isEmpty { state.task = nil }
                return state.takeAll()
            }
            if batch.isEmpty { return }
            let elapsed = clock.stopwatch()
            if let failed = await firstFailure(batch) {
                pause = Self.pauseAfterFailure
                state.withLock { state in
                    let newer = state.takeAll()
                    state.pending = Deque(batch[failed...])
                    for generation in newer { state.add(generation) }
                }
            } else {
                // Who writes takes processors and the disk from those who serve: a hundredth of the time, unless that would
                // put off what has come since for more than a moment.
                let elapsed = elapsed()
                pause = max(Self.shortestPause, min(elapsed * 100, Self.moment), elapsed * 10)
            }
        }
    }

    /// Writes some, oldest first, up to one that cannot be written.
    private func firstFailure(_ batch: [Generation]) async -> Int? {
        for (index, generation) in batch.enumerated() {
            if await !write(generation) { return index }
        }
        return nil
    }

    private func write(_ generation: Generation) async -> Bool {
        let generations = generations
        do throws(FileError) {
            try await blocking.run { () throws(FileError) in try generations.write(generation) }
            state.withLock { state in
                state.contained = (generation.revision, generation.journalSequence, generation.released)
            }
            problems.reset()
            return true
        } catch {
            problems.add("\(error.operation) \(error.errno)") { $0 = error }
            return false
        }
    }
}

extension GenerationWriter.State {
    /// Adds what is newest. Another state of the same revision takes the place of the one before.
    fileprivate mutating func add(_ generation: Generation) {
        if pending.last?.revision == generation.revision { pending.removeLast() }
        pending.append(generation)
        if pending.count > GenerationHistory.capacity { pending.removeFirst() }
    }

    fileprivate mutating func takeAll() -> [Generation] {
        defer { pending = [] }
        return Array(pending)
    }
}
