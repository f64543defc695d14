import DequeModule
import LarderConfigModel
import LarderConfigSources

/// A command for the refreshes of a namespace.
enum RefreshCommand: Sendable {
    case refresh
    /// A long poll.
    case awaitChange
    case forceRefresh
    case push(SourceDocument, force: Bool, terms: ChangeTerms = ChangeTerms())
    /// Applies what the source has delivered.
    case delivery(SourceDelivery)

    /// The reason for the command's fetch; nil for a push and a delivery, which fetch nothing.
    var reason: FetchReason? {
        switch self {
        case .refresh: .requested
        case .awaitChange: .longPoll
        case .forceRefresh: .forced
        case .push, .delivery: nil
        }
    }

    /// Whether callers of the command share one fetch.
    fileprivate var isShared: Bool { reason == .requested }

    fileprivate var isDelivery: Bool { if case .delivery = self { true } else { false } }

    fileprivate var deliveredOrder: Int? { if case .delivery(let delivery) = self { delivery.order } else { nil } }

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
    enum WaiterRemoval: Sendable {
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
        /// The last attempt that had begun when the command arrived; see ``RefreshQueue/attempts``.
        var lastAttempt = 0
        /// How many responses of the source were discarded for a delivery.
        var discarded = 0
    }

    private struct Running {
        var command: RefreshCommand
        var waiters: Set<WaiterID>
        var discarded: Int
        /// When the current attempt began, in milliseconds of uptime.
        var beganAt = Int.min
        /// Whether the source has responded to the current attempt.
        var hasResponse = false
        /// The order of the fetch; nil if it is unknown, and before the fetch has ended.
        var order: Int?
        /// Whether the response must be discarded, and the command runs again after the delivery that follows.
        var yieldsToDelivery = false
        /// Whether another source has replaced the one that the current attempt uses.
        var isSuperseded = false
        /// Whether the last caller has left. No other caller can join then.
        var isAbandoned = false

        /// Whether a refresh that is requested now can share the current attempt.
        /// - Parameter earliest: the attempt must have begun at this time or later, in milliseconds of uptime
        func satisfiesRefresh(since earliest: Int) -> Bool {
            !hasResponse && !isAbandoned && beganAt >= earliest && command.isShared
        }
    }

    private var waiting = Deque<Waiting>()
    private var running: Running?
    private var isStopped = false
    /// The number of attempts that have begun.
    private var attempts = 0
    /// The order of the last fetch; nil for none, for an unknown order, and after a push. An older delivery, which was on
    /// its way to the queue during the fetch, does not run.
    private var fetchedOrder: Int?

    /// How many responses of a fetch are discarded at most because deliveries arrive that have no known order. After that,
    /// the response counts, and the delivery follows.
    private static let maxDiscarded = 2

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
            if command.isShared, waiting[last].command.isShared {
                waiting[last].waiters.insert(waiter)
                return .shared
            }
        } else if case .refresh = command, running?.satisfiesRefresh(since: earliest) == true {
            running?.waiters.insert(waiter)
            return .shared
        }
        waiting.append(Waiting(command: command, waiters: [waiter], lastAttempt: attempts))
        return running?.command.yields == true ? .interrupts : .queued
    }

    /// Removes a caller that no longer waits for its result. A waiting command without callers is dropped.
    mutating func leave(_ waiter: WaiterID) -> WaiterRemoval {
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
            if let fetchedOrder, let order = first.command.deliveredOrder, order < fetchedOrder {
                return .end(first.waiters.sorted())
            }
            running = Running(command: first.command, waiters: first.waiters, discarded: first.discarded)
        }
        guard var attempt = running else { return nil }
        if attempt.isAbandoned || (attempt.command.yields && !waiting.isEmpty) {
            running = nil
            return .end(attempt.waiters.sorted())
        }
        attempt.beganAt = now
        (attempt.hasResponse, attempt.order) = (false, nil)
        attempt.isSuperseded = false
        attempt.yieldsToDelivery = false
        running = attempt
        attempts += 1
        return .run(attempt.command)
    }

    /// Records that the fetch of the current attempt has ended. After a response, later refreshes do not share it.
    ///
    /// If a delivery follows, the newer one of the two documents counts: a response that is older is applied before the
    /// delivery, and a delivery that is not newer is dropped, and its caller gets the result of the fetch. If neither is
    /// known to be newer because the delivery arrived during the attempt, the response is discarded, and the command
    /// runs again after the delivery. The response to a forced refresh is never discarded.
    /// - Parameters:
    ///   - response: nil if the fetch failed
    ///   - order: the order of the fetch; nil if it is unknown
    /// - Returns: false if the service must discard the response and end the attempt
    mutating func fetchEnded(_ response: SourceResponse?, order: Int?) -> Bool {
        if response != nil { running?.hasResponse = true }
        // A delivery has interrupted a long poll, whose response is not used then.
        guard let attempt = running, !attempt.isAbandoned, !attempt.isSuperseded, !attempt.command.yields else {
            return true
        }
        running?.order = order
        guard let response, let next = waiting.first, case .delivery(let delivery) = next.command else { return true }
        let arrivedBefore = next.lastAttempt < attempts
        switch Self.isOlder(response, order, than: delivery) {
        case true?: return true
        case nil where !arrivedBefore:
            if attempt.command.reason == .forced || attempt.discarded == Self.maxDiscarded { return true }
            running?.yieldsToDelivery = true
            return false
        case false?, nil:
            running?.waiters.formUnion(next.waiters)
            waiting.removeFirst()
            return true
        }
    }

    /// Records that the source was replaced. Deliveries of the previous source do not run any more, and the result of a
    /// running fetch is discarded.
    /// - Returns: whether the service must cancel the running task, and the callers of dropped deliveries, which the
    ///   service must answer with `cancelled`
    mutating func replaceSource() -> (cancelsRunning: Bool, dropped: [WaiterID]) {
        fetchedOrder = nil
        let dropped = waiting.filter(\.command.isDelivery).flatMap { $0.waiters.sorted() }
        waiting.removeAll(where: \.command.isDelivery)
        switch running?.command {
        case nil, .push: return (false, dropped)
        case .delivery: running?.isAbandoned = true
        case .refresh, .awaitChange, .forceRefresh: running?.isSuperseded = true
        }
        return (true, dropped)
    }

    /// Records that the task of the running command has ended.
    /// - Parameter isStopping: whether the service is stopping
    /// - Returns: The callers to answer with the task's result, in the order of their arrival; nil if the command runs
    ///   again, because the source was replaced during the attempt or the response was discarded.
    mutating func attemptEnded(isStopping: Bool) -> [WaiterID]? {
        guard let running else { return [] }
        if !running.isAbandoned, !isStopping {
            if running.isSuperseded { return nil }
            if running.yieldsToDelivery {
                self.running = nil
                let again = Waiting(
                    command: running.command, waiters: running.waiters, discarded: running.discarded + 1)
                // The caller of the delivery may have left.
                waiting.insert(again, at: waiting.first?.command.isDelivery ?? false ? 1 : 0)
                return nil
            }
        }
        self.running = nil
        if case .push = running.command { fetchedOrder = nil }
        if let order = running.order, !running.isAbandoned { fetchedOrder = order }
        return running.waiters.sorted()
    }

    /// Whether a response is certainly older than a delivery of the same source, or certainly not older; nil if neither
    /// is known.
    private static func isOlder(_ response: SourceResponse, _ order: Int?, than delivery: SourceDelivery) -> Bool? {
        if let order, let other = delivery.order {
            // A delivery that confirms the current document must not confirm an older response.
            if order < other, case .document = response, case .success(.notModified) = delivery.result { return nil }
            // A failure follows the document with the same order.
            if case .failure = delivery.result { return order <= other }
            return order < other
        }
        switch (response, delivery.result) {
        case (.document(let document), .success(.document(let other))): return document.isOlder(than: other)
        case (.notModified, .success(.notModified)): return false
        default: return nil
        }
    }
}
