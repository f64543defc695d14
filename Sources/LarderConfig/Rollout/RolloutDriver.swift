package import LarderConfigModel
import LarderPlatform
import Logging
import Synchronization

/// Ends the rollouts of one namespace: when the required clients have accepted the candidate, when a client rejects it,
/// at the timeout, or when a client requests it.
package final class RolloutDriver: Sendable {
    private struct State {
        /// Nil if the settings do not ask for rollouts.
        var settings: RolloutSettings?
        var progress: RolloutProgress?
        var last: RolloutReport.Ended?
        /// The ends that are being committed, the oldest first.
        var ending: [RolloutReport.Ended] = []
        /// Waits for the deadline.
        var timer: Task<Void, Never>?
        /// The rollout whose beginning was logged last.
        var logged: CurrentRollout?

        /// Continues with the current state of the rollout. The caller reads that state while it holds the lock, so
        /// that an older state never replaces a newer one.
        mutating func update(_ rollout: CurrentRollout?) {
            guard let settings, let rollout else {
                progress = nil
                return
            }
            if progress == nil { progress = RolloutProgress(rollout, settings) }
            progress?.settings = settings
            progress?.update(rollout)
        }
    }

    private static let pauseAfterFailure = Duration.seconds(60)

    private let store: ConfigStore
    private let clocks: StoreClocks
    private let time: ExpiryTime
    private let namespace: String
    private let logger: Logger
    private let state: Mutex<State>

    init(_ store: ConfigStore, _ settings: RolloutSettings?, clocks: StoreClocks, logger: Logger) {
        self.store = store
        self.clocks = clocks
        time = ExpiryTime(clocks)
        namespace = store.publication.namespace
        self.logger = logger
        state = Mutex(State(settings: settings))
    }

    /// The rollout in progress and the last one that has ended.
    package var report: RolloutReport {
        state.withLock { state in
            state.update(store.canaries.rollout)
            let progress = state.progress.map { progress in
                RolloutReport.Progress(
                    revision: progress.revision, version: progress.rollout.document.version?.text,
                    since: progress.rollout.since, deadline: progress.deadline,
                    requirement: progress.settings.requirement, accepted: progress.accepted)
            }
            return RolloutReport(progress: progress, last: state.ending.last ?? state.last)
        }
    }

    /// Uses new settings from the next ``run()`` on.
    func use(_ settings: RolloutSettings?) { state.withLock { $0.settings = settings } }

    /// Continues a rollout from before the start, and watches the deadlines of rollouts until the task is cancelled. If
    /// the settings do not ask for rollouts, publishes the document of a rollout in progress.
    func run() async {
        guard state.withLock({ $0.settings }) != nil else {
            if await store.isRollingOut {
                await carryOut(RolloutEnd(.published, reason: "the settings no longer ask for rollouts"))
            }
            return
        }
        await store.resumeRollout()
        for await _ in store.canaries.changes() { watchDeadline() }
        state.withLock { $0.timer.take() }?.cancel()
    }

    private func watchDeadline() {
        let (begun, deadline, end) = state.withLock { state in
            let rollout = store.canaries.rollout
            state.update(rollout)
            let isNew = state.logged?.document != rollout?.document || state.logged?.since != rollout?.since
            state.logged = rollout
            return (isNew ? state.progress : nil, state.progress?.deadline, state.progress?.endIfAccepted())
        }
        if let begun { logBegin(begun) }
        if let end { Task { await self.carryOut(end) } }
        let timer = deadline.map { deadline in
            let now = time.now
            let uptime = now.uptime + max(0, deadline - now.timeOfDay)
            return Task { await self.wait(until: deadline, uptime: uptime) }
        }
        let previous = state.withLock { state in
            defer { state.timer = timer }
            return state.timer
        }
        previous?.cancel()
    }

    /// Waits for the deadline, by the time of day or the monotonic time.
    private func wait(until deadline: Int, uptime: Int) async {
        guard await time.sleep(until: ExpiryQueue.Moment(timeOfDay: deadline, uptime: uptime)) else { return }
        let end = state.withLock { state in
            state.update(store.canaries.rollout)
            return state.progress?.deadline == deadline ? state.progress?.timedOut() : nil
        }
        // The end is carried out by another task, because it ends the rollout, which cancels this one.
        if let end { Task { await self.carryOut(end) } }
    }

    /// Records an acknowledgement, and ends the rollout if it decides about the candidate.
    package func note(_ acknowledgement: RolloutAcknowledgement) {
        if store.canaries.rollout == nil { return }
        let end = state.withLock { state in
            state.update(store.canaries.rollout)
            return state.progress?.note(acknowledgement)
        }
        if let end { Task { await self.carryOut(end) } }
    }

    /// Ends the rollout in progress on behalf of a client.
    /// - Parameter isApproved: whether the document is published; otherwise the previous one stays
    /// - Throws: `notFound` if no rollout is in progress; the errors of a commit.
    package func end(
        isApproved: Bool, reason: String?, by peer: Peer
    ) async throws(ConfigError) -> CommitOutcome {
        let end = RolloutEnd(
            isApproved ? .published : .rolledBack, of: store.canaries.rollout?.document,
            reason: reason ?? (isApproved ? nil : "\(peer.command) aborted it"), peer: peer, isRequested: true)
        return try await commit(end)
    }

    /// Ends a rollout. If the schema refuses the document, the previous one stays. If the disk cannot store the end,
    /// retries until it can.
    private func carryOut(_ end: RolloutEnd) async {
        var end = end
        while true {
            do throws(ConfigError) {
                _ = try await commit(end)
                return
            } catch {
                switch error.code {
                case .schemaViolation where end.outcome != .rolledBack:
                    end.outcome = .rolledBack
                    end.reason = error.message
                case .storageFailed:
                    logger.error(
                        "namespace \(namespace): cannot end a rollout; retrying in 60 s: \(error)",
                        metadata: ["namespace": "\(namespace)", "error": "\(error)"])
                    do { try await clocks.clock.sleep(for: Self.pauseAfterFailure) } catch { return }
                default: return
                }
            }
        }
    }

    /// Commits the end of a rollout, and logs it. The report includes the end before clients get the new snapshot.
    private func commit(_ end: RolloutEnd) async throws(ConfigError) -> CommitOutcome {
        let ended = RolloutReport.Ended(end: end, at: clocks.wallClock.now)
        state.withLock { $0.ending.append(ended) }
        var hasEnded = false
        defer {
            state.withLock { state in
                if let index = state.ending.firstIndex(of: ended) { state.ending.remove(at: index) }
                if hasEnded { state.last = ended }
            }
        }
        let outcome = try await store.commit(.endRollout(end))
        hasEnded = outcome.layerChanged
        if hasEnded { log(ended, at: outcome.revision) }
        return outcome
    }

    private func log(_ ended: RolloutReport.Ended, at revision: Int) {
        let end = ended.end
        let version = ended.version.map { "version \($0)" } ?? "a document"
        let what =
            switch end.outcome {
            case .published: "was published"
            case .publishedAnyway: "was published although its rollout failed"
            case .rolledBack: "was rolled back"
            }
        let by = end.peer.map { " by \($0.command) (pid \($0.pid))" } ?? ""
        let reason = end.reason.map { ": \($0)" } ?? ""
        logger.log(
            level: end.outcome == .published ? .notice : .warning,
            "namespace \(namespace): \(version) \(what) as revision \(revision)\(by)\(reason)",
            metadata: ["namespace": "\(namespace)", "revision": "\(revision)"])
    }

    private func logBegin(_ progress: RolloutProgress) {
        let version = progress.rollout.document.version.map { "version \($0)" } ?? "a document"
        let revision = progress.revision.map { " as revision \($0)" } ?? ""
        let requirement =
            switch progress.settings.requirement {
            case .names(let names): names.joined(separator: ", ")
            case .count(let count): count == 1 ? "1 client" : "\(count) clients"
            }
        logger.notice(
            "namespace \(namespace): a rollout shows \(version) to canaries\(revision); it waits for \(requirement)",
            metadata: ["namespace": "\(namespace)"])
    }
}
