import LarderConfigModel
import LarderUpstream

/// How a source follows its keys: what is known, what is wrong, and what to do next. It does nothing itself: it is told
/// what happened and says what is to be done.
///
/// All keys are read first, as of one revision; a watch then tells every change after it. A watch that ends, for whatever
/// reason, is followed by a new reading: what happened meanwhile may be compacted, and a cluster that was restored from a
/// backup may have passed the revision that is known with other keys.
struct EtcdFollower: Sendable {
    /// What is to be done now, until it is done or another step takes its place.
    struct Step: Sendable, Equatable {
        enum Task: Sendable, Equatable {
            /// Wait, then read. Somebody else's reading does as well.
            case pause(Duration)
            /// Read all keys.
            case read
            /// Watch for changes after a revision.
            case watch(after: Int)
        }

        let task: Task
        /// Tells one step from another that has the same task.
        let number: Int
    }

    /// What must be done beside the step because of something that happened.
    struct Effects: OptionSet, Sendable {
        let rawValue: Int
        /// What the source would answer is another than before.
        static let signal = Effects(rawValue: 1)
        /// The step was replaced.
        static let newStep = Effects(rawValue: 2)
        /// There is reason to think that the watch is dead. It is, if it goes on to be silent.
        static let suspicion = Effects(rawValue: 4)
    }

    /// What was known when a reading began.
    struct ReadingStart: Sendable {
        fileprivate let cluster: String?
        fileprivate let revision: Int
    }

    private(set) var step = Step(task: .read, number: 0)
    /// The keys; nil before the first reading.
    private(set) var known: EtcdKeyspace?
    /// What is wrong with the watch, or with the reading that must come before it; nil while all is well.
    private(set) var failure: EtcdError?
    /// Whether the watch is suspected to be dead.
    private(set) var isSuspect = false
    /// Whether the watch under way has begun.
    private var hasBegun = false
    private var plan: ReconnectPlan
    /// Events whose rest has not come yet.
    private var fragments: [EtcdEvent] = []

    /// The most bytes that a document may have.
    private let maximumBytes: Int

    init(maximumBytes: Int, plan: ReconnectPlan) {
        self.maximumBytes = maximumBytes
        self.plan = plan
    }

    /// Begins to follow the keys. The flow reads them at about the same time; the pause usually saves a second reading.
    mutating func begin(using generator: inout some RandomNumberGenerator) -> Effects {
        go(to: .pause(.random(from: Self.shortestStart, to: Self.longestStart, using: &generator)))
    }

    private static let shortestStart = Duration.milliseconds(500)
    private static let longestStart = Duration.seconds(2)

    private mutating func go(to task: Step.Task) -> Effects {
        step = Step(task: task, number: step.number + 1)
        fragments = []
        isSuspect = false
        hasBegun = false
        return .newStep
    }

    private mutating func fail(_ error: EtcdError) -> Effects {
        defer { failure = error }
        return failure == error ? [] : .signal
    }

    // MARK: Readings

    /// A reading begins, by whomever.
    func readingBegins() -> ReadingStart { ReadingStart(cluster: known?.cluster, revision: known?.revision ?? 0) }

    /// A reading has come.
    /// - Parameter isElsewhere: whether another endpoint than that of the watch gave it, because that one did not answer.
    mutating func readingCame(
        _ reading: EtcdKeyspace, began start: ReadingStart, isElsewhere: Bool = false
    ) -> Effects {
        let former = known
        // A reading is never older than what was known in its cluster when it began, unless the cluster was set back.
        let lowest = start.cluster == reading.cluster ? start.revision : 0
        let isOtherPast = former.map { $0.cluster != reading.cluster } ?? true || reading.revision < lowest
        if isOtherPast || reading.revision >= former?.revision ?? 0 {
            known = reading.replacing(former)
        }  // else the watch has told more since the cluster answered
        let hasChanged = known?.cluster != former?.cluster || known?.changedAt != former?.changedAt
        failure = nil
        guard case .watch = step.task else { return [.signal, watchOn()] }
        let signal: Effects = hasChanged ? .signal : []
        if isOtherPast || isElsewhere { return signal.union(watchOn()) }
        return hasChanged ? signal.union(suspect()) : signal
    }

    /// A reading that the flow asked for has failed, which the flow knows. A watch that is as silent may be as dead.
    mutating func flowsReadingFailed() -> Effects {
        if case .watch = step.task { suspect() } else { [] }
    }

    private mutating func suspect() -> Effects {
        defer { isSuspect = true }
        return isSuspect ? [] : .suspicion
    }

    /// Our own reading has failed.
    mutating func readingFailed(
        _ error: EtcdError, number: Int, using generator: inout some RandomNumberGenerator
    ) -> Effects {
        guard number == step.number else { return [] }
        return fail(error).union(go(to: .pause(plan.delay(after: .failed, using: &generator))))
    }

    private mutating func watchOn() -> Effects { go(to: .watch(after: known?.revision ?? 0)) }

    // MARK: Steps

    /// The wait is over.
    mutating func pauseEnded(_ number: Int) -> Effects { number == step.number ? go(to: .read) : [] }

    /// The watch said something.
    /// - Throws: why the watch is of no use any more; ``watchEnded(_:number:using:)`` is to be told.
    mutating func watchSaid(_ message: EtcdWatchMessage, number: Int) throws(EtcdError) -> Effects {
        guard number == step.number, case .watch(let after) = step.task, let cluster = known?.cluster else { return [] }
        if message.compactRevision > 0 {
            throw EtcdError(.compacted, "etcd has compacted the revisions after \(known?.revision ?? 0)")
        }
        if let reason = message.cancelReason {
            throw EtcdComplaint(cancelReason: reason.isEmpty ? "the watch was cancelled" : reason)
                .error(from: "the watch's endpoint")
        }
        guard message.header.cluster == cluster else {
            throw EtcdError(.compacted, "the watch is answered by another cluster than the keys were read from")
        }
        if message.isCreated {
            // A member that is behind would keep the watch waiting for a future that may be another one.
            guard message.header.revision >= after else {
                throw EtcdError(.compacted, "the watch is answered from a revision before \(after)")
            }
            hasBegun = true
            return []
        }
        isSuspect = false
        hasBegun = true
        fragments += message.events
        if message.isFragment { return [] }
        let events = fragments
        fragments = []
        if known?.exceeds(maximumBytes, after: events) == true {
            throw EtcdError(.rejected, EtcdDocument.tooLarge(maximumBytes).message)
        }
        // In place: the keys are not copied for each event.
        let hasChanged = known?.apply(events) ?? false
        if message.isProgress { known?.advance(to: message.header.revision) }
        return hasChanged ? .signal : []
    }

    /// The watch has ended. A watch that had begun followed a complete reading, so the cluster works.
    /// - Parameter error: the reason; nil if the endpoint ended it in order or it was silent for too long, neither of which is
    ///   a failure
    mutating func watchEnded(
        _ error: EtcdError?, number: Int, using generator: inout some RandomNumberGenerator
    ) -> Effects {
        guard number == step.number else { return [] }
        let pause = go(to: .pause(plan.delay(after: hasBegun ? .delivered : .failed, using: &generator)))
        // What was compacted is read again; that is no failure.
        guard let error, error.kind != .compacted else { return pause }
        return fail(error).union(pause)
    }
}
