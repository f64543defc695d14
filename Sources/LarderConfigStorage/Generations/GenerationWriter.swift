import DequeModule
package import LarderConfigModel
package import Logging
package import LarderPlatform
import Synchronization

/// Writes generations to disk in the background, oldest first, with pauses that limit the load on the disk. If too many
/// generations are pending (``PendingGenerations``), the oldest ones are dropped.
///
/// If the process dies before a write, the changes in the journal are replayed at the next start, and the documents of
/// sources are fetched again. Client changes with relaxed durability are lost.
package final class GenerationWriter: Sendable {
    fileprivate struct State {
        var pending = PendingGenerations()
        /// Three numbers of the newest generation on disk: its revision, its journal sequence number, and the
        /// revision up to which all reservations are settled (`Generation.released`).
        var contained: (revision: Int, sequence: Int, released: Int) = (0, 0, 0)
        var task: Task<Void, Never>?
        /// Why the last generation could not be written; nil if it was written.
        var problem: FileError?
        var problemChanged: @Sendable () -> Void = {}
        /// Whether the next success calls ``problemChanged`` in any case.
        var isConfirmationDue = false
        /// The write of another file to repeat until it succeeds; nil for none.
        var retry: (@Sendable () throws(FileError) -> Void)?

        /// Whether the background task has nothing to do.
        var isIdle: Bool { pending.isEmpty && retry == nil }
    }

    /// The minimum pause before a write. Changes within this time are written together.
    private static let minPause = Duration.milliseconds(50)
    /// The maximum pause after a write, unless the disk is slow.
    private static let maxPause = Duration.milliseconds(800)
    private static let pauseAfterFailure = Duration.seconds(5)

    private let generations: GenerationDirectory
    private let blocking: BlockingThreadPool
    private let clock: any Clock<Duration>
    private let problems: RateLimitedLog<String, FileError>
    /// The store queues generations without waiting for the background task, which takes them.
    private let state = Mutex(State())

    package init(
        _ generations: GenerationDirectory, blocking: BlockingThreadPool, clock: any Clock<Duration>, logger: Logger
    ) {
        self.generations = generations
        self.blocking = blocking
        self.clock = clock
        problems = RateLimitedLog(every: .seconds(60), clock: clock) { [name = generations.namespace] _, error, count in
            logger.error(
                "namespace \(name): cannot write a generation; retrying: \(error)",
                metadata: ["namespace": "\(name)", "error": "\(error)", "before": "\(count - 1)"])
        }
    }

    /// The sequence number of the last journal record that a generation on disk contains.
    package var containedSequence: Int { state.withLock { $0.contained.sequence } }

    /// Whether a generation is pending or being written, or a write is repeated.
    package var isAtWork: Bool { state.withLock { $0.task != nil } }

    /// Why the last generation could not be written; nil if it was written.
    package var problem: FileError? { state.withLock { $0.problem } }

    /// Calls `changed`, on any thread, whenever ``problem`` changes.
    package func observeProblem(_ changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.problemChanged = changed }
    }

    private func note(problem: FileError?) {
        let changed = state.withLock { state -> (@Sendable () -> Void)? in
            let known = state.problem
            if problem?.operation == known?.operation, problem?.errno == known?.errno { return nil }
            state.problem = problem
            return state.problemChanged
        }
        changed?()
    }

    /// Queues the current generation: a new one, or a newer state of the generation that was queued last. A background
    /// task writes it soon.
    package func note(_ generation: Generation) {
        state.withLock { state in
            state.pending.add(generation)
            startTask(&state)
        }
    }

    private func startTask(_ state: inout State) {
        if state.task == nil, !state.isIdle { state.task = Task { await self.writeUntilNothingIsPending() } }
    }

    /// Writes a generation until that succeeds, and then calls the observer of ``problem``. Shows whether the disk accepts
    /// writes again after another write has failed.
    package func confirm(with generation: Generation) {
        state.withLock { $0.isConfirmationDue = true }
        note(generation)
    }

    /// Repeats the failed write of another file every five seconds, after the generations that are pending then, until it
    /// succeeds.
    /// - Parameter body: blocks on disk I/O
    package func retry(_ body: @escaping @Sendable () throws(FileError) -> Void) {
        state.withLock { state in
            state.retry = body
            startTask(&state)
        }
    }

    /// Writes all pending generations and this newest one now, so that the journal can start over. ``note(_:)`` must
    /// not be called until this returns. Generations that cannot be written are queued again.
    package func catchUp(with generation: Generation) async {
        let rest = await takeAll(with: generation)
        let failed = await firstFailure(rest) ?? rest.endIndex
        state.withLock { state in
            for generation in rest[failed...] { state.pending.add(generation) }
            startTask(&state)
        }
    }

    /// Writes all pending generations and this last one now. Failures are logged and not retried.
    package func finish(with generation: Generation) async {
        for generation in await takeAll(with: generation) { _ = await write(generation) }
    }

    /// Removes the pending generations from the queue of the background task and returns them, with the newest one
    /// unless it is on disk.
    private func takeAll(with generation: Generation) async -> [Generation] {
        let task = state.withLock { $0.task }
        task?.cancel()
        await task?.value
        let last = (generation.revision, generation.journalSequence, generation.released)
        return state.withLock { state in
            state.task = nil
            if state.pending.isEmpty, state.contained == last { return [] }
            state.pending.add(generation)
            return state.pending.takeAll()
        }
    }

    private func writeUntilNothingIsPending() async {
        var pause = Self.minPause
        while !Task.isCancelled {
            // Cancellation of this task ends the pause. The task then writes one last batch. The caller that cancelled
            // the task writes the generations that are queued after that batch.
            try? await clock.sleep(for: pause)
            let batch = state.withLock { state -> [Generation]? in
                if state.isIdle { state.task = nil }
                return state.task == nil ? nil : state.pending.takeAll()
            }
            guard let batch else { return }
            let elapsed = clock.stopwatch()
            if let failed = await firstFailure(batch) {
                pause = Self.pauseAfterFailure
                state.withLock { state in
                    let newer = state.pending.takeAll()
                    for generation in batch[failed...] + newer { state.pending.add(generation) }
                }
            } else if await !repeatFailedWrite() {
                pause = Self.pauseAfterFailure
            } else {
                // Writing takes processors and the disk from threads that serve clients, so it gets a hundredth of the
                // time. The pause does not exceed the maximum, except on a slow disk, where writing gets a tenth of the
                // time.
                let elapsed = elapsed()
                pause = max(Self.minPause, min(elapsed * 100, Self.maxPause), elapsed * 10)
            }
        }
    }

    /// Writes generations in order until one cannot be written. Returns the index of that generation; nil if all were
    /// written.
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
            let confirmed = state.withLock { state in
                state.contained = (generation.revision, generation.journalSequence, generation.released)
                defer { state.isConfirmationDue = false }
                return state.isConfirmationDue ? state.problemChanged : nil
            }
            problems.reset()
            note(problem: nil)
            confirmed?()
            return true
        } catch {
            problems.add("\(error.operation) \(error.errno)") { $0 = error }
            note(problem: error)
            return false
        }
    }

    /// Repeats the write that ``retry(_:)`` has passed.
    /// - Returns: false if it failed again
    private func repeatFailedWrite() async -> Bool {
        guard let body = state.withLock({ $0.retry }) else { return true }
        do throws(FileError) {
            try await blocking.run(body)
        } catch {
            return false
        }
        state.withLock { $0.retry = nil }
        return true
    }
}

/// The generations to write, oldest first. Their number and total size are limited, as those of the history are: writing
/// more generations of a large configuration takes longer than their changes did, and few of them would be kept.
struct PendingGenerations {
    /// The maximum total size of the snapshots in bytes. The newest generation is pending in any case.
    static let maxBytes = HistoryLimits().maximumBytes

    private var generations = Deque<Generation>()
    private var bytes = 0

    var isEmpty: Bool { generations.isEmpty }

    /// Adds the newest generation. It replaces a pending one of the same revision. If too many are pending, the oldest
    /// ones are dropped.
    mutating func add(_ generation: Generation) {
        if let last = generations.last, last.revision == generation.revision {
            bytes -= last.bytes ?? 0
            generations.removeLast()
        }
        generations.append(generation)
        bytes += generation.bytes ?? 0
        while generations.count > 1, generations.count > GenerationHistory.capacity || bytes > Self.maxBytes {
            bytes -= generations.removeFirst().bytes ?? 0
        }
    }

    /// Removes all generations.
    mutating func takeAll() -> [Generation] {
        defer { (generations, bytes) = ([], 0) }
        return Array(generations)
    }
}
