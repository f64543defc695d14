import DequeModule
import LarderConfigModel
import LarderConfigSources

/// A command of a namespace's refresh flow.
enum RefreshCommand: Sendable {
    case refresh
    /// A refresh after the source signalled a change.
    case refreshAfterChange
    /// A long poll.
    case awaitChange
    case forceRefresh
    case push(SourceDocument, force: Bool)

    /// The occasion of the command's fetch; nil for a push, which fetches nothing.
    var occasion: FetchOccasion? {
        switch self {
        case .refresh: .asked
        case .refreshAfterChange: .signalled
        case .awaitChange: .awaiting
        case .forceRefresh: .forced
        case .push: nil
        }
    }

    /// Whether one fetch answers both this command and a waiting one. A refresh and a refresh after a change do not share:
    /// a source that keeps a connection answers the latter without a request, or fails it although the source is reachable.
    fileprivate func shares(with other: RefreshCommand) -> Bool {
        switch (self, other) {
        case (.refresh, .refresh), (.refreshAfterChange, .refreshAfterChange): true
        default: false
        }
    }

    /// Whether the command ends as soon as another one waits.
    fileprivate var givesWay: Bool { occasion == .awaiting }
}

/// The commands of a namespace's refresh flow, with the callers that wait for each: one command runs, the others wait in the
/// order of their arrival.
///
/// The queue decides which callers share a command, which command gives way and which runs again. It has no tasks, no clock
/// and no I/O. ``ConfigRefreshService`` carries out what the methods return.
struct RefreshQueue: Sendable {
    /// Identifies a caller until it is answered.
    typealias WaiterID = Int

    /// The result of ``add(_:for:sharingSince:)``.
    enum Admission: Sendable {
        /// The caller shares a command that waits or runs.
        case shared
        /// The command waits.
        case queued
        /// The command waits, and the running one gives way: its task is to be cancelled.
        case interrupts
        /// The queue was stopped. The caller is to be answered with `stopped`.
        case stopped
    }

    /// The result of ``leave(_:)``.
    enum Departure: Sendable {
        /// The caller was answered before.
        case unknown
        /// The caller is to be answered with `cancelled`. Callers that shared its command are not affected.
        case left
        /// The caller was the last one of the running command, whose task is to be cancelled. The caller is answered when that
        /// task has ended, because it may be too late to stop it.
        case abandoned
    }

    /// The next action of the flow.
    enum Step: Sendable {
        /// Run the command, then call ``attemptEnded(isStopping:)``.
        case run(RefreshCommand)
        /// Answer the callers of a command with `cancelled`. It does not run.
        case end([WaiterID])
    }

    private struct Waiting {
        var command: RefreshCommand
        var waiters: Set<WaiterID>
    }

    private struct Running {
        var command: RefreshCommand
        var waiters: Set<WaiterID>
        /// When the current attempt began, in milliseconds since 1970.
        var beganAt = Int.min
        /// Whether the source has answered the current attempt.
        var hasAnswer = false
        /// Whether another source has replaced the one that the current attempt uses.
        var isOvertaken = false
        /// Whether the last caller left. No other caller joins then.
        var isAbandoned = false

        /// Whether the answer of the current attempt is recent enough for a refresh that is requested now.
        func answersRefresh(since earliest: Int) -> Bool {
            !hasAnswer && !isAbandoned && beganAt >= earliest && command.shares(with: .refresh)
        }
    }

    private var waiting = Deque<Waiting>()
    private var running: Running?
    private var isStopped = false

    /// Whether a command runs or waits.
    var isAtWork: Bool { running != nil || !waiting.isEmpty }

    // MARK: Callers

    /// Adds a caller's command, or lets the caller share one. A waiting command is shared only if it is the last one: a caller
    /// never gets the result of a command that runs before an earlier caller's.
    /// - Parameter earliest: a running refresh is shared if its fetch began then or later, in milliseconds since 1970
    mutating func add(_ command: RefreshCommand, for waiter: WaiterID, sharingSince earliest: Int = .min) -> Admission {
        if isStopped { return .stopped }
        if let last = waiting.indices.last {
            if command.shares(with: waiting[last].command) {
                waiting[last].waiters.insert(waiter)
                return .shared
            }
        } else if case .refresh = command, running?.answersRefresh(since: earliest) == true {
            running?.waiters.insert(waiter)
            return .shared
        }
        waiting.append(Waiting(command: command, waiters: [waiter]))
        return running?.command.givesWay == true ? .interrupts : .queued
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

    /// Takes no more commands.
    /// - Returns: The callers of the waiting commands, which are to be answered with `stopped`.
    mutating func stop() -> [WaiterID] {
        isStopped = true
        defer { waiting.removeAll() }
        return waiting.flatMap { $0.waiters.sorted() }
    }

    // MARK: The flow

    /// The next step of the flow; nil if no command waits. The command before it has ended, or is to run again.
    /// - Parameter now: the beginning of the attempt, in milliseconds since 1970
    mutating func next(at now: Int) -> Step? {
        if running == nil {
            guard let first = waiting.popFirst() else { return nil }
            running = Running(command: first.command, waiters: first.waiters)
        }
        guard var attempt = running else { return nil }
        if attempt.isAbandoned || (attempt.command.givesWay && !waiting.isEmpty) {
            running = nil
            return .end(attempt.waiters.sorted())
        }
        attempt.beganAt = now
        attempt.hasAnswer = false
        attempt.isOvertaken = false
        running = attempt
        return .run(attempt.command)
    }

    /// The source has answered the current attempt. Refreshes that are requested from now on do not share it.
    mutating func sourceAnswered() { running?.hasAnswer = true }

    /// The source was replaced: what the current attempt fetches does not count.
    /// - Returns: Whether the running command fetches. Its task is to be cancelled then.
    mutating func overtakeRunning() -> Bool {
        guard let running, running.command.occasion != nil else { return false }
        self.running?.isOvertaken = true
        return true
    }

    /// The task of the running command has ended.
    /// - Parameter isStopping: whether the flow is being stopped
    /// - Returns: The callers to answer with the task's result, in the order of their arrival; nil if the command was overtaken
    ///   and ``next(at:)`` runs it again.
    mutating func attemptEnded(isStopping: Bool) -> [WaiterID]? {
        guard let running else { return [] }
        if running.isOvertaken && !running.isAbandoned && !isStopping { return nil }
        self.running = nil
        return running.waiters.sorted()
    }
}
