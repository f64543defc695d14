import DequeModule
package import LarderConfigModel
import LarderConfigSources
import LarderHTTPSemantics
import LarderPlatform
import LarderUpstream

/// The ordered flow of one namespace: refreshes, forced refreshes and pushes run strictly one after the other, first
/// come first served, each from its first line to its last, network waits included.
///
/// An actor alone would not give that: actors are re-entrant at each `await`. Here a queue does, which one task
/// empties, ``run()``. The actor only guards the queue.
package actor ConfigRefreshService {
    /// What a refresh brought.
    package struct Outcome: Sendable, Hashable {
        /// The snapshot that carries it.
        package var commit: CommitOutcome
        /// Whether the source said that nothing is new.
        package var notModified: Bool
        /// The namespace's state when it was done; the next refresh may have begun since.
        package var freshness: Freshness
        /// The version of the document held then.
        package var upstreamVersion: String?
    }

    private enum Command {
        case refresh
        /// A refresh whose answer must be younger than the request for it.
        case refreshAfterChange
        /// A refresh that takes as long as the source has nothing new; it gives way to every other command.
        case awaitChange
        case forceRefresh
        case push(SourceDocument, force: Bool)

        /// Why the source is asked; nil for a push, which asks nobody.
        var occasion: FetchOccasion? {
            switch self {
            case .refresh: .asked
            case .refreshAfterChange: .signalled
            case .awaitChange: .awaiting
            case .forceRefresh: .forced
            case .push: nil
            }
        }

        /// Whether one answer does for this command and for another that waits before it. A signalled change and a
        /// refresh do not share: the one may be answered without asking the source, the other fail although the source
        /// has told something.
        func shares(with other: Command) -> Bool {
            switch (self, other) {
            case (.refresh, .refresh), (.refreshAfterChange, .refreshAfterChange): true
            default: false
            }
        }

        /// Whether it gives way to any command behind it.
        var givesWay: Bool { occasion == .awaiting }
    }

    private typealias Waiter = CheckedContinuation<Result<Outcome, ConfigError>, Never>

    /// A command with those who wait for its result. A command that nobody waits for any more is given up.
    private struct Entry {
        var id: Int
        var command: Command
        var waiters: [Int: Waiter]
        /// When it began, in milliseconds since 1970; nil as long as it waits.
        var beganAt: Int?
        /// Whether the source has answered. Who comes now would get what was known before it asked.
        var hasAnswer = false
        /// Whether the last waiter cancelled while it ran; nobody joins it any more.
        var isAbandoned = false
    }

    private let store: ConfigStore
    private let wallClock: WallClock
    private var source: (any ConfigSource)?
    private var queue = Deque<Entry>()
    private var running: Entry?
    private var runningTask: Task<Outcome, any Error>?
    /// Whether the command that runs asks a source that is no longer the one to ask.
    private var isOvertaken = false
    private var nextID = 0
    private var isStopped = false
    private nonisolated let wakeups: AsyncStream<Void>
    private nonisolated let wake: AsyncStream<Void>.Continuation

    init(store: ConfigStore, source: (any ConfigSource)?, wallClock: WallClock) {
        self.store = store
        self.wallClock = wallClock
        self.source = source
        (wakeups, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    // MARK: Commands

    /// Asks the source, with the validator of what is held. Callers that wait for the same answer share it: whoever
    /// comes while the last command in the queue is a plain refresh that waits, or runs and has no answer yet, joins that one.
    /// - Throws: `upstreamFailed`, `rejected`, `storageFailed`, `cancelled`, `stopped`; the last good snapshot stays.
    package func refreshIfNeeded() async throws(ConfigError) -> Outcome { try await submit(.refresh) }

    /// Asks the source, as ``refreshIfNeeded()``, but does not settle for an answer that was asked for before a time.
    /// - Parameter earliest: in milliseconds since 1970
    package func refresh(begunSince earliest: Int) async throws(ConfigError) -> Outcome {
        try await submit(.refresh, joiningSince: earliest)
    }

    /// Asks the source after it signalled a change: an answer that was under way before the signal does not do.
    func refreshAfterChange() async throws(ConfigError) -> Outcome { try await submit(.refreshAfterChange) }

    /// Asks the source and leaves it the time until it has something new.
    /// - Throws: as ``refreshIfNeeded()``; `cancelled` also when another command came, which is carried out first.
    func awaitChange() async throws(ConfigError) -> Outcome { try await submit(.awaitChange) }

    /// Asks the source for the whole document and takes what it says, even an older upstream version.
    /// - Throws: as ``refreshIfNeeded()``.
    package func forceRefresh() async throws(ConfigError) -> Outcome { try await submit(.forceRefresh) }

    /// Takes a document from a local process as the remote layer.
    /// - Throws: `rejected` where its version is older than the one held and `force` is not said; `storageFailed`,
    ///   `cancelled`, `stopped`.
    package func applyPushedConfig(_ document: SourceDocument, force: Bool) async throws(ConfigError) -> Outcome {
        try await submit(.push(document, force: force))
    }

    /// Asks another source from now on. A refresh that runs begins anew with that one, for the same waiters; when this
    /// returns, nothing of the former source will be written any more.
    func use(_ newSource: (any ConfigSource)?) async {
        source = newSource
        guard let runningTask, running?.command.occasion != nil else { return }
        isOvertaken = true
        runningTask.cancel()
        _ = await runningTask.result
    }

    /// - Parameter earliest: what runs is joined if it began then or later
    private func submit(
        _ command: Command, joiningSince earliest: Int = .min
    ) async throws(ConfigError) -> Outcome {
        nextID += 1
        let waiterID = nextID
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: Waiter) in
                if Task.isCancelled { return waiter.resume(returning: .failure(Self.cancelled)) }
                if isStopped { return waiter.resume(returning: .failure(Self.stopped)) }
                enqueue(command, joiningSince: earliest, waiterID, waiter)
            }
        } onCancel: {
            Task { await self.leave(waiterID) }
        }
        return try result.get()
    }

    private func enqueue(_ command: Command, joiningSince earliest: Int, _ waiterID: Int, _ waiter: Waiter) {
        if let last = queue.last {
            if command.shares(with: last.command) {
                queue[queue.count - 1].waiters[waiterID] = waiter
                return
            }
        } else if case .refresh = command, let running, command.shares(with: running.command), !running.isAbandoned,
            !running.hasAnswer, running.beganAt ?? .min >= earliest
        {
            self.running?.waiters[waiterID] = waiter
            return
        }
        queue.append(Entry(id: waiterID, command: command, waiters: [waiterID: waiter]))
        if let running, running.command.givesWay { runningTask?.cancel() }
        wake.yield()
    }

    /// One waiter cancels. The others are not touched; a command without waiters is given up. The last one learns how it
    /// ended: it may be too late to stop it.
    private func leave(_ waiterID: Int) {
        if let running, let waiter = running.waiters[waiterID] {
            if running.waiters.count > 1 {
                self.running?.waiters[waiterID] = nil
                return waiter.resume(returning: .failure(Self.cancelled))
            }
            self.running?.isAbandoned = true
            runningTask?.cancel()
            return
        }
        for index in queue.indices {
            guard let waiter = queue[index].waiters.removeValue(forKey: waiterID) else { continue }
            waiter.resume(returning: .failure(Self.cancelled))
            if queue[index].waiters.isEmpty { queue.remove(at: index) }
            return
        }
    }

    private static let cancelled = ConfigError(.cancelled, "the request was cancelled; nothing was changed")
    private static let stopped = ConfigError(.stopped, "the namespace is being stopped; try again later")

    /// Whether a command runs or waits.
    var isAtWork: Bool { running != nil || !queue.isEmpty }

    /// Returns when the actor has come to it, whatever it waits for: for a watchdog.
    package func probe() {}

    // MARK: The flow

    /// Runs the commands until the surrounding task is cancelled; those that wait then fail with `stopped`.
    func run() async {
        // The stream ends when the task is cancelled.
        for await _ in wakeups {
            while let entry = queue.popFirst() { await perform(entry) }
        }
        isStopped = true
        for entry in queue {
            for waiter in entry.waiters.values { waiter.resume(returning: .failure(Self.stopped)) }
        }
        queue.removeAll()
    }

    private func perform(_ entry: Entry) async {
        running = entry
        var result: Result<Outcome, any Error>
        repeat {
            isOvertaken = false
            if entry.command.givesWay, !queue.isEmpty {
                result = .failure(Self.cancelled)
                break
            }
            let (command, source) = (entry.command, source)
            running?.beganAt = wallClock.now
            running?.hasAnswer = false
            // A task of its own, because it ends with its last waiter and not with the flow.
            let task = Task { try await self.execute(command, source) }
            runningTask = task
            result = await withTaskCancellationHandler {
                await task.result
            } onCancel: {
                task.cancel()
            }
        } while isOvertaken && !Task.isCancelled && running?.isAbandoned == false
        let waiters = running?.waiters.sorted { $0.key < $1.key }.map(\.value)
        running = nil
        runningTask = nil
        let answer: Result<Outcome, ConfigError> = result.mapError { error in
            if Task.isCancelled { return Self.stopped }
            return (error as? ConfigError) ?? ConfigError(.upstreamFailed, "\(error)")
        }
        for waiter in waiters ?? [] { waiter.resume(returning: answer) }
    }

    private nonisolated func execute(
        _ command: Command, _ source: (any ConfigSource)?
    ) async throws(ConfigError) -> Outcome {
        if case .push(let document, let force) = command {
            let commit = try await store.replaceRemote(document, origin: SourceOrigin.push, force: force, isPush: true)
            return outcome(commit, notModified: false)
        }
        guard let source, let occasion = command.occasion else {
            // There is nobody to ask, but a rollback may hold something.
            if command.occasion == .forced { return outcome(try await store.release(by: nil), notModified: true) }
            let revision = store.publication.current.snapshot.revision
            return outcome(
                CommitOutcome(revision: revision, changed: false, layerChanged: false), notModified: true)
        }
        return try await ask(source, on: occasion)
    }

    /// What a command brought, told while nothing else happens in the flow.
    private nonisolated func outcome(_ commit: CommitOutcome, notModified: Bool) -> Outcome {
        Outcome(
            commit: commit, notModified: notModified, freshness: store.publication.current.freshness,
            upstreamVersion: store.publication.status.upstreamVersion)
    }

    private nonisolated func ask(
        _ source: any ConfigSource, on occasion: FetchOccasion
    ) async throws(ConfigError) -> Outcome {
        let force = occasion == .forced
        await store.refreshBegan(isLongPoll: occasion == .awaiting)
        do throws(ConfigError) {
            let validator = force ? nil : await store.validator(ofOrigin: source.location)
            let answer = try await fetch(from: source, ifChangedFrom: validator, on: occasion)
            await answered()
            // From here on nothing is written for a caller that went away.
            if Task.isCancelled { throw Self.cancelled }
            switch answer {
            case .notModified:
                await store.refreshConfirmed()
                let revision = store.publication.current.snapshot.revision
                return outcome(
                    CommitOutcome(revision: revision, changed: false, layerChanged: false), notModified: true)
            case .document(let document):
                let commit = try await store.replaceRemote(
                    document, origin: source.location, force: force, isPush: false)
                return outcome(commit, notModified: false)
            }
        } catch {
            if error.code == .cancelled || Task.isCancelled {
                await store.refreshCancelled()
                throw Self.cancelled
            }
            await store.refreshFailed(error)
            throw error
        }
    }

    private func answered() { running?.hasAnswer = true }

    /// Fetches, and has the status show a document that is none. One that can be read is compared with what is held
    /// later, and noted there.
    private nonisolated func fetch(
        from source: any ConfigSource, ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer {
        do throws(ConfigError) {
            return try await source.fetch(ifChangedFrom: validator, on: occasion)
        } catch {
            if error.code == .rejected { await store.documentRefused(error) }
            throw error
        }
    }
}
