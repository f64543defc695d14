import DequeModule
import LarderConfigModel
import LarderConfigSources

/// A command for the refreshes of a namespace.
enum RefreshCommand: Sendable {
    case refresh
    /// A refresh after the source signaled a change.
    case refreshAfterChange
    /// A long poll.
    case awaitChange
    case forceRefresh
    case push(SourceDocument, force: Bool, terms: ChangeTerms = ChangeTerms())

    /// The reason for the command's fetch; nil for a push, which fetches nothing.
    var reason: FetchReason? {
        switch self {
        case .refresh: .requested
        case .refreshAfterChange: .signaled
        case .awaitChange: .longPoll
        case .forceRefresh: .forced
        case .push: nil
        }
    }

    /// Whether one fetch serves both commands. A refresh does not share the fetch of a ``refreshAfterChange``. A source
    /// that keeps a connection sends no request for the latter, so that fetch may fail although the source is
    /// reachable.
    fileprivate func shares(with other: RefreshCommand) -> Bool {
        switch (self, other) {
        case (.refresh, .refresh), (.refreshAfterChange, .refreshAfterChange): true
        default: false
        }
    }

    /// Whether the command is cancelled as soon as another command waits. This is true only of a long poll.
    fileprivate var yields: Bool { reason == .longPoll }
}

/// The commands for the refreshes of a namespace, and the callers that wait for each. One command runs, and the others
/// wait in the order of their arrival.
///
/// The queue decides which callers share a command, which command gives way and which runs again. It has no tasks, no
/// clock and no I/O. ``ConfigRefreshService`` carries out what the methods return.
struct RefreshQueue: Sendable {
    /// Identifies a caller until the service has answered that caller.
    typealias WaiterID = Int

    /// The result of ``add(_:for:sharingSince:)``.
    enum Admission: Sendable {
        /// The caller shares a command that waits or runs.
        case shared
        /// The command waits.
        case queued
        /// The command waits, and the running command gives way to it. The service must cancel the running task.
        case interrupts
        /// The queue was stopped. The service must answer the caller with `stopped`.
        case stopped
    }

    /// The result of ``leave(_:)``.
    enum Departure: Sendable {
        /// The caller has already been answered.
        case unknown
        /// The caller was removed, and the service must answer it with `cancelled`. Callers that share its command are
        /// not affected.
        case left
        /// The caller was the last one of the running command. The service must cancel the command's task. It answers
        /// the caller when that task has ended, because the command may still succeed.
        case abandoned
    }

    /// The next action of the service.
    enum Step: Sendable {
        /// Run the command, then call ``attemptEnded(isStopping:)``.
        case run(RefreshCommand)
        /// Answer the callers of a command with `cancelled`. The command does not run again.
        case end([WaiterID])
    }

    private struct Waiting {
        var command: RefreshCommand
        var waiters: Set<WaiterID>
    }

    private struct Running {
        var command: RefreshCommand
        var waiters: Set<WaiterID>
        /// When the current attempt began, in milliseconds of uptime.
        var beganAt = Int.min
        /// Whether the source has responded to the current attempt.
        var hasAnswer = false
        /// Whether another source has replaced the one that the current attempt uses.
        var isSuperseded = false
        /// Whether the last caller has left. No other caller can join then.
        var isAbandoned = false

        /// Whether a refresh that is requested now can share the current attempt.
        /// - Parameter earliest: the attempt must have begun at this time or later, in milliseconds of uptime
        func satisfiesRefresh(since earliest: Int) -> Bool {
            !hasAnswer && !isAbandoned && beganAt >= earliest && command.shares(with: .refresh)
        }
    }

    private var waiting = Deque<Waiting>()
    private var running: Running?
    private var isStopped = false

    /// Whether a command runs or waits.
    var isAtWork: Bool { running != nil || !waiting.isEmpty }

    // MARK: Callers

    /// Adds a caller's command, or lets the caller share one. A waiting command is shared only if it is the last in the
    /// queue, so that commands run in the order of their callers.
    /// - Parameter earliest: a running refresh is shared only if its fetch began at this time or later, in milliseconds
    ///   of uptime
    mutating func add(_ command: RefreshCommand, for waiter: WaiterID, sharingSince earliest: Int = .min) -> Admission {
        if isStopped { return .stopped }
        if let last = waiting.indices.last {
            if command.shares(with: waiting[last].command) {
                waiting[last].waiters.insert(waiter)
                return .shared
            }
        } else if case .refresh = command, running?.satisfiesRefresh(since: earliest) == true {
            running?.waiters.insert(waiter)
            return .shared
        }
        waiting.append(Waiting(command: command, waiters: [waiter]))
        return running?.command.yields == true ? .interrupts : .queued
    }

    /// Removes a caller that no longer waits for its result. A waiting command without callers is dropped.
    mutating func leave(_ waiter: WaiterID) -> Departure {
        if let running, running.waiters.contains(waiter) {
            if running.waiters.count > 1 {
                self.running?.waiters.remove(waiter)
                return .left
            }
            self.running?.isAbandoned = true
            return .abandoned
        }
        for index in waiting.indices where waiting[index].waiters.remove(waiter) != nil {
            if waiting[index].waiters.isEmpty { waiting.remove(at: index) }
            return .left
        }
        return .unknown
    }

    /// Refuses further commands.
    /// - Returns: The callers of the waiting commands. Answer them with `stopped`.
    mutating func stop() -> [WaiterID] {
        isStopped = true
        defer { waiting.removeAll() }
        return waiting.flatMap { $0.waiters.sorted() }
    }

    // MARK: Execution

    /// The next step; nil if no command is left. Must be called when no attempt is running.
    /// - Parameter now: the beginning of the attempt, in milliseconds of uptime
    mutating func next(at now: Int) -> Step? {
        if running == nil {
            guard let first = waiting.popFirst() else { return nil }
            running = Running(command: first.command, waiters: first.waiters)
        }
        guard var attempt = running else { return nil }
        if attempt.isAbandoned || (attempt.command.yields && !waiting.isEmpty) {
            running = nil
            return .end(attempt.waiters.sorted())
        }
        attempt.beganAt = now
        attempt.hasAnswer = false
        attempt.isSuperseded = false
        running = attempt
        return .run(attempt.command)
    }

    /// Records that the source has responded to the current attempt. Later refreshes do not share it.
    mutating func sourceAnswered() { running?.hasAnswer = true }

    /// Records that the source was replaced. The result of the current attempt is then discarded.
    /// - Returns: Whether the running command fetches from the source. If so, the service must cancel its task.
    mutating func supersedeRunning() -> Bool {
        guard let running, running.command.reason != nil else { return false }
        self.running?.isSuperseded = true
        return true
    }

    /// Records that the task of the running command has ended.
    /// - Parameter isStopping: whether the service is stopping
    /// - Returns: The callers to answer with the task's result, in the order of their arrival; nil if the source was
    ///   replaced during the attempt, so that ``next(at:)`` runs the command again.
    mutating func attemptEnded(isStopping: Bool) -> [WaiterID]? {
        guard let running else { return [] }
        if running.isSuperseded && !running.isAbandoned && !isStopping { return nil }
        self.running = nil
        return running.waiters.sorted()
    }
}
