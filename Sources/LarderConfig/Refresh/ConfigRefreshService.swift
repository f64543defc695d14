package import LarderConfigModel
import LarderConfigSources
import LarderEncoding
import LarderPlatform

/// Runs the refreshes, forced refreshes and pushes of one namespace, and applies what its source delivers, one at a time
/// in the order of their arrival. Each of these commands ends, including its network waits, before the next one begins.
///
/// An actor alone does not run commands one at a time, because every actor is reentrant at each `await`. A
/// ``RefreshQueue`` holds the commands, and one task runs them: ``run()``. The actor only guards the queue.
package actor ConfigRefreshService {
    /// The result of a command.
    package struct Outcome: Sendable, Hashable {
        /// The outcome of the commit of the command's change. The revision in this outcome contains the change.
        package var commit: CommitOutcome
        /// Whether no new document was obtained: the source reported that its document has not changed, or there is no
        /// source.
        package var notModified: Bool
        /// Whether a long poll ended without a response; see ``SourceResponse/waitEnded``.
        package var hasOnlyWaited = false
        /// The namespace's freshness when the command ended. The next refresh may have begun since.
        package var freshness: Freshness
        /// The version of the remote document when the command ended; nil for none.
        package var upstreamVersion: String?
    }

    private typealias Answer = Result<Outcome, ConfigError>

    private let store: ConfigStore
    /// The time since the creation of the service.
    private let uptime: @Sendable () -> Duration
    private let durations: RequestDurations
    private var source: (any ConfigSource)?
    private var queue = RefreshQueue()
    /// The callers that wait for the result of a command.
    private var waiters: [RefreshQueue.WaiterID: CheckedContinuation<Answer, Never>] = [:]
    private var lastWaiterID = 0
    /// The task of the running command; nil if none runs.
    private var runningTask: Task<Answer, Never>?
    private nonisolated let wakeups: AsyncStream<Void>
    private nonisolated let wake: AsyncStream<Void>.Continuation

    init(
        store: ConfigStore, source: (any ConfigSource)?, clock: any Clock<Duration>,
        durations: RequestDurations = RequestDurations()
    ) {
        self.store = store
        self.durations = durations
        uptime = clock.stopwatch()
        self.source = source
        (wakeups, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    // MARK: Commands

    /// Polls the source with the validator of the current document. Calls that arrive before the source has responded
    /// share one request.
    /// - Throws: `upstreamFailed`, `rejected`, `storageFailed`, `cancelled`, `stopped`; the last good snapshot stays.
    package func refreshIfNeeded() async throws(ConfigError) -> Outcome { try await submit(.refresh) }

    /// Polls the source like ``refreshIfNeeded()``, but does not share a request that began longer ago than `age`.
    /// - Parameter isDone: whether a request that has ended by now was recent enough
    package func refresh(
        begunWithin age: Duration, unless isDone: @Sendable () -> Bool = { false }
    ) async throws(ConfigError) -> Outcome {
        if isDone() { return unchanged }
        return try await submit(.refresh, sharingSince: (uptime() - age).milliseconds)
    }

    /// Sends the source a long poll.
    /// - Throws: The errors of ``refreshIfNeeded()``. `cancelled` is also thrown if another command arrives, which then
    ///   runs instead.
    func awaitChange() async throws(ConfigError) -> Outcome { try await submit(.awaitChange) }

    /// Fetches the whole document and applies it without checking its version and the number of members that it
    /// removes. Ends the hold of a rollback.
    /// - Throws: The errors of ``refreshIfNeeded()``.
    package func forceRefresh() async throws(ConfigError) -> Outcome { try await submit(.forceRefresh) }

    /// Replaces the remote document with one that a local process has pushed.
    /// - Parameter force: whether to skip the checks of the version and of the number of removed members, and to end
    ///   the hold of a rollback
    /// - Throws: `conflict`, `rejected`, `storageFailed`, `cancelled`, `stopped`; nothing has changed then.
    package func applyPushedConfig(
        _ document: SourceDocument, force: Bool, terms: ChangeTerms = ChangeTerms()
    ) async throws(ConfigError) -> Outcome {
        try await submit(.push(document, force: force, terms: terms))
    }

    /// Applies what a source delivers, in order with the other commands and without a request, until the task is
    /// cancelled.
    func follow(_ documents: SourceDocuments) async {
        for await delivery in documents {
            // An error is ignored here, because the status and the log already report it.
            _ = try? await apply(delivery)
            await store.watching(.remote, problem: delivery.watchProblem)
        }
    }

    /// Applies what the source has delivered.
    /// - Throws: the delivered error, and the errors of ``applyPushedConfig(_:force:terms:)``
    func apply(_ delivery: SourceDelivery) async throws(ConfigError) -> Outcome {
        try await submit(.delivery(delivery))
    }

    /// Replaces the source. A running refresh starts again with the new source, for the same callers. After this
    /// returns, the previous source causes no more writes.
    func use(_ newSource: (any ConfigSource)?) async {
        source = newSource
        let (cancelsRunning, dropped) = queue.replaceSource()
        resume(dropped, with: .failure(Self.cancelled))
        guard cancelsRunning, let runningTask else { return }
        runningTask.cancel()
        _ = await runningTask.value
    }

    /// - Parameter earliest: a running refresh is shared only if it began at this time or later, in milliseconds of
    ///   ``uptime``
    private func submit(
        _ command: RefreshCommand, sharingSince earliest: Int = .min
    ) async throws(ConfigError) -> Outcome {
        lastWaiterID += 1
        let id = lastWaiterID
        let answer = await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: CheckedContinuation<Answer, Never>) in
                if Task.isCancelled { return waiter.resume(returning: .failure(Self.cancelled)) }
                waiters[id] = waiter
                switch queue.add(command, for: id, sharingSince: earliest) {
                case .shared: break
                case .queued: wake.yield()
                case .interrupts:
                    runningTask?.cancel()
                    wake.yield()
                case .stopped: resume([id], with: .failure(Self.stopped))
                }
            }
        } onCancel: {
            Task { await self.leave(id) }
        }
        return try answer.get()
    }

    private func leave(_ id: RefreshQueue.WaiterID) {
        switch queue.leave(id) {
        case .unknown: break
        case .left: resume([id], with: .failure(Self.cancelled))
        case .abandoned: runningTask?.cancel()
        }
    }

    private func resume(_ ids: [RefreshQueue.WaiterID], with answer: Answer) {
        for id in ids { waiters.removeValue(forKey: id)?.resume(returning: answer) }
    }

    private static let cancelled = ConfigError(
        .cancelled, "the request was cancelled; a refresh that other requests share continues")
    private static let stopped = ConfigError(.stopped, "the namespace is stopping; retry later")

    /// Whether a command runs or waits.
    var isAtWork: Bool { queue.isAtWork }

    /// Does nothing. The watchdog calls this method to measure how long the actor takes to execute a call.
    package func probe() {}

    // MARK: Execution

    /// Runs the commands until the surrounding task is cancelled. The remaining commands fail with `stopped`.
    func run() async {
        // The stream ends when the task is cancelled.
        for await _ in wakeups {
            while let step = queue.next(at: uptime().milliseconds) {
                switch step {
                case .run(let command): await run(command)
                case .end(let ids): resume(ids, with: .failure(Task.isCancelled ? Self.stopped : Self.cancelled))
                }
            }
        }
        resume(queue.stop(), with: .failure(Self.stopped))
    }

    private func run(_ command: RefreshCommand) async {
        let source = source
        // The command runs in a task of its own, so that it can be cancelled when no caller waits for it any more.
        let task = Task { await self.answer(command, source) }
        runningTask = task
        let answer = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        runningTask = nil
        let isStopping = Task.isCancelled
        guard let ids = queue.attemptEnded(isStopping: isStopping) else { return }
        resume(ids, with: isStopping ? answer.mapError { _ in Self.stopped } : answer)
    }

    private nonisolated func answer(_ command: RefreshCommand, _ source: (any ConfigSource)?) async -> Answer {
        do throws(ConfigError) {
            return .success(try await execute(command, source))
        } catch {
            return .failure(error)
        }
    }

    private nonisolated func execute(
        _ command: RefreshCommand, _ source: (any ConfigSource)?
    ) async throws(ConfigError) -> Outcome {
        if case .push(let document, let force, let terms) = command {
            let commit = try await store.replaceRemote(
                document, origin: SourceOrigin.push, force: force, isPush: true, terms: terms)
            return outcome(commit, notModified: false)
        }
        if let source { return try await execute(command, with: source) }
        // Without a source, a forced refresh still ends the hold of a rollback.
        if command.reason == .forced { return outcome(try await store.commit(.release(by: nil)), notModified: true) }
        return unchanged
    }

    /// Returns the outcome of the command whose commit returned `commit`. Must be called before the next command
    /// begins, because this method reads the current freshness and version.
    private nonisolated func outcome(_ commit: CommitOutcome, notModified: Bool) -> Outcome {
        Outcome(
            commit: commit, notModified: notModified, freshness: store.publication.current.freshness,
            upstreamVersion: store.publication.status.upstreamVersion)
    }

    private nonisolated var unchanged: Outcome {
        let revision = store.publication.current.snapshot.revision
        return outcome(CommitOutcome(revision: revision, changed: false, layerChanged: false), notModified: true)
    }

    /// Applies the response of the source: fetched, or delivered. A delivery does not make the namespace `refreshing`.
    private nonisolated func execute(
        _ command: RefreshCommand, with source: any ConfigSource
    ) async throws(ConfigError) -> Outcome {
        await store.refreshBegan(isLongPoll: command.reason == nil || command.reason == .longPoll)
        do throws(ConfigError) {
            let response = try await response(to: command, from: source)
            // The task is cancelled when no caller waits for the command any more, when the source is replaced, and
            // when the service stops. The response is then discarded.
            if Task.isCancelled { throw Self.cancelled }
            if source.reconnects { await store.follows(source.following) }
            switch response {
            case .notModified:
                await store.refreshConfirmed()
                return unchanged
            case .waitEnded:
                await store.refreshCancelled()
                var outcome = unchanged
                outcome.hasOnlyWaited = true
                return outcome
            case .document(var document):
                document.source = source.identity
                let commit = try await store.replaceRemote(
                    document, origin: source.location, force: command.reason == .forced, isPush: false)
                return outcome(commit, notModified: false)
            }
        } catch {
            if error.code == .cancelled || Task.isCancelled {
                await store.refreshCancelled()
                throw Self.cancelled
            }
            if source.reconnects { await store.follows(source.following) }
            await store.refreshFailed(error)
            throw error
        }
    }

    /// Returns what the source has delivered, or sends it a request. If the response is not a valid document, this method
    /// records that in the status. A valid document may still be rejected by the store, which records its own
    /// rejections.
    /// - Throws: the errors of the source; `cancelled` if a delivery arrived that counts instead of the response
    private nonisolated func response(
        to command: RefreshCommand, from source: any ConfigSource
    ) async throws(ConfigError) -> SourceResponse {
        do throws(ConfigError) {
            if case .delivery(let delivery) = command { return try await response(to: delivery, from: source) }
            let reason = command.reason ?? .requested
            let validator = reason == .forced ? nil : await store.validator(ofSource: source.identity)
            let begin = uptime()
            // The duration of a long poll depends on when the document changes.
            defer { if reason != .longPoll, !Task.isCancelled { durations.add(uptime() - begin) } }
            do throws(ConfigError) {
                let response = try await source.fetch(ifChangedFrom: validator, reason: reason)
                guard await fetchEnded(response, source) else { throw Self.cancelled }
                return response
            } catch {
                if error.code != .cancelled { _ = await fetchEnded(nil, source) }
                throw error
            }
        } catch {
            if error.code == .rejected { await store.documentRejected(error) }
            throw error
        }
    }

    /// Returns what the source has delivered. If that confirms a document of the source that another one has replaced since,
    /// the source is asked again, because its document may be the earlier one.
    private nonisolated func response(
        to delivery: SourceDelivery, from source: any ConfigSource
    ) async throws(ConfigError) -> SourceResponse {
        let response = try delivery.result.get()
        guard case .notModified = response, let confirmed = delivery.validator,
            let current = await store.validator(ofSource: source.identity), current != confirmed
        else { return response }
        return try await source.fetch(ifChangedFrom: current, reason: .requested)
    }

    /// - Returns: false if the response must be discarded
    private func fetchEnded(_ response: SourceResponse?, _ source: any ConfigSource) -> Bool {
        queue.fetchEnded(response, order: source.fetchOrder)
    }
}
