import LarderConfigModel
import LarderUpstream

/// The state machine of an etcd source: the known keys, the current failure, and the next step. It performs no I/O. Its
/// methods take events and return what the source has to do. The "refresh flow", which runs the fetches of the
/// namespace, reads the keys, too.
///
/// First all keys are read at one revision. Then a watch reports every later change. When a watch ends for any reason,
/// all keys are read again, for two reasons: etcd may have compacted (discarded) the changes since then, and a cluster
/// restored from a backup may have reached the known revision with other keys. With several watches, each change ends them,
/// and all keys are read again.
struct EtcdFollower: Sendable {
    /// The current task of the source, until it ends or another step replaces it.
    struct Step: Sendable, Equatable {
        enum Task: Sendable, Equatable {
            /// Wait, then read. A read by the refresh flow ends the pause.
            case pause(Duration)
            /// Read all keys.
            case read
            /// Watch for changes after a revision.
            case watch(after: Int)
        }

        let task: Task
        /// Distinguishes steps that have the same task.
        let number: Int
    }

    /// The consequences of an event that the source has to handle.
    struct Effects: OptionSet, Sendable {
        let rawValue: Int
        /// The document or the failure may have changed. The source must deliver it.
        static let signal = Effects(rawValue: 1)
        /// A new step has replaced the previous one. The source must end the task of the replaced step.
        static let newStep = Effects(rawValue: 2)
        /// The watch may be dead. The source must end it if it stays silent.
        static let suspicion = Effects(rawValue: 4)
    }

    /// The cluster and the revision of ``known`` when a read began.
    struct ReadStart: Sendable {
        fileprivate let cluster: String?
        fileprivate let revision: Int
    }

    private(set) var step = Step(task: .read, number: 0)
    /// The keys; nil before the first read.
    private(set) var known: EtcdKeyspace?
    /// The failure of the watch, or of the read before it; nil while both work.
    private(set) var failure: EtcdError?
    /// Why the last watch failed; nil once another one has begun. A read does not clear it, unlike ``failure``.
    private(set) var watchFailure: EtcdError?
    /// Whether a watch has begun or failed.
    private(set) var hasWatched = false
    /// Whether the last watch ended before it had begun, without a failure.
    private var hasEndedEarly = false
    /// Whether the watch is suspected to be dead.
    private(set) var isSuspect = false
    /// Whether the current watch has begun.
    private var hasBegun = false
    private var plan: ReconnectPlan
    /// The events of an incomplete message.
    private var fragments: [EtcdEvent] = []
    /// The memory of ``fragments`` in bytes.
    private var fragmentBytes = 0

    /// The maximum size of a document, in bytes.
    private let maximumBytes: Int
    /// Whether an event makes the source read all keys, and is not applied itself. Required for several watches, because
    /// the events of one revision may arrive in several messages, between which the keys have no consistent state.
    private let readsAfterEvents: Bool

    init(maximumBytes: Int, plan: ReconnectPlan, readsAfterEvents: Bool = false) {
        self.maximumBytes = maximumBytes
        self.readsAfterEvents = readsAfterEvents
        self.plan = plan
    }

    /// Starts to follow the keys, with a pause as the first step. The refresh flow usually reads the keys during this
    /// pause, so that no second read is necessary.
    /// - Parameter delay: added to the pause
    mutating func begin(after delay: Duration, using generator: inout some RandomNumberGenerator) -> Effects {
        go(to: .pause(delay + .random(from: Self.minStartDelay, to: Self.maxStartDelay, using: &generator)))
    }

    private static let minStartDelay = Duration.milliseconds(500)
    private static let maxStartDelay = Duration.seconds(2)

    private mutating func go(to task: Step.Task) -> Effects {
        step = Step(task: task, number: step.number + 1)
        (fragments, fragmentBytes) = ([], 0)
        isSuspect = false
        hasBegun = false
        return .newStep
    }

    private mutating func fail(_ error: EtcdError) -> Effects {
        defer { failure = error }
        return failure == error ? [] : .signal
    }

    // MARK: Reads

    /// Called when a read begins, by a step or by the refresh flow.
    func readBegins() -> ReadStart { ReadStart(cluster: known?.cluster, revision: known?.revision ?? 0) }

    /// Called when a read has returned all keys.
    /// - Parameter isElsewhere: whether the endpoint of the watch did not respond, and another one returned the keys
    mutating func readCompleted(
        _ reading: EtcdKeyspace, began start: ReadStart, isElsewhere: Bool = false
    ) -> Effects {
        let previous = known
        // A read returns at least the revision of the cluster that was known when the read began. A lower revision
        // shows that the cluster was restored from a backup.
        let lowest = start.cluster == reading.cluster ? start.revision : 0
        let isOtherPast = previous.map { $0.cluster != reading.cluster } ?? true || reading.revision < lowest
        if isOtherPast || reading.revision >= previous?.revision ?? 0 {
            known = reading.replacing(previous)
        }  // else the watch has reported changes since the response
        let hasChanged = known?.cluster != previous?.cluster || known?.changedAt != previous?.changedAt
        failure = nil
        guard case .watch = step.task else { return [.signal, watchOn()] }
        let signal: Effects = hasChanged ? .signal : []
        if isOtherPast || isElsewhere { return signal.union(watchOn()) }
        return hasChanged ? signal.union(suspect()) : signal
    }

    /// Called when a read by the refresh flow has failed. The refresh flow handles the error, but the watch may be
    /// dead, too.
    mutating func refreshReadFailed() -> Effects {
        if case .watch = step.task { suspect() } else { [] }
    }

    private mutating func suspect() -> Effects {
        defer { isSuspect = true }
        return isSuspect ? [] : .suspicion
    }

    /// Called when a read by a step, and not by the refresh flow, has failed.
    mutating func readFailed(
        _ error: EtcdError, number: Int, using generator: inout some RandomNumberGenerator
    ) -> Effects {
        guard number == step.number else { return [] }
        return fail(error).union(go(to: .pause(plan.delay(after: .failed, using: &generator))))
    }

    private mutating func watchOn() -> Effects { go(to: .watch(after: known?.revision ?? 0)) }

    // MARK: Steps

    /// Called when the pause of a step has ended.
    mutating func pauseEnded(_ number: Int) -> Effects { number == step.number ? go(to: .read) : [] }

    /// Called when the watch has received a message.
    /// - Throws: the error that ends the watch. The caller must then call ``watchEnded(_:number:using:)``.
    mutating func watchReceived(_ message: EtcdWatchMessage, number: Int) throws(EtcdError) -> Effects {
        guard number == step.number, case .watch(let after) = step.task, let cluster = known?.cluster else { return [] }
        if message.compactRevision > 0 {
            throw EtcdError(.compacted, "etcd has compacted the revisions after \(known?.revision ?? 0)")
        }
        if let reason = message.cancelReason {
            throw EtcdErrorResponse(cancelReason: reason.isEmpty ? "the watch was cancelled" : reason)
                .error(from: "the watched endpoint")
        }
        guard message.header.cluster == cluster else {
            throw EtcdError(
                .compacted, "the watch is connected to a different cluster from the one that the keys were read from")
        }
        if message.isCreated {
            // On a member that lags behind, the watch could wait for a revision that the member never reaches.
            guard message.header.revision >= after else {
                throw EtcdError(.compacted, "the watch begins at a revision before \(after)")
            }
            return watchBegan()
        }
        isSuspect = false
        let began = watchBegan()
        if readsAfterEvents {
            // A progress notification concerns only one of the watches.
            let isNews = message.events.contains { $0.pair.modified > known?.revision ?? 0 }
            return isNews ? began.union(go(to: .read)) : began
        }
        fragments += message.events
        if message.isFragment {
            fragmentBytes += message.events.reduce(0) {
                $0 + Self.bytesOfEvent + $1.pair.key.count + $1.pair.value.count
            }
            // Without a limit, an endpoint that never sends the last fragment would exhaust the memory.
            if fragmentBytes > Self.minFragmentBytes + 4 * maximumBytes {
                throw EtcdError(.compacted, "etcd has sent more changes at once than the agent stores")
            }
            return began
        }
        let events = fragments
        (fragments, fragmentBytes) = ([], 0)
        if known?.exceeds(maximumBytes, after: events) == true {
            throw EtcdError(.rejected, EtcdDocument.tooLarge(maximumBytes).message)
        }
        // The events are applied in place, so that the keys are not copied for each event.
        let hasChanged = known?.apply(events) ?? false
        if message.isProgress { known?.advance(to: message.header.revision) }
        return hasChanged ? .signal : began
    }

    /// The memory of an event without its key and value, in bytes.
    private static let bytesOfEvent = 100
    /// The memory that the fragments of a message may always take, in bytes. Those of larger documents may take more.
    private static let minFragmentBytes = 64 * 1024

    private mutating func watchBegan() -> Effects {
        let isNews = watchFailure != nil || !hasWatched
        (hasBegun, hasWatched, hasEndedEarly, watchFailure) = (true, true, false, nil)
        return isNews ? .signal : []
    }

    /// Called when the watch has ended. If the watch had begun, the next attempt is delayed as after a success and not
    /// as after a failure, because a complete read preceded the watch.
    /// - Parameter error: why it ended; nil if the endpoint closed it properly or was silent for too long. Neither these
    ///   ends nor a compaction are failures, unless two watches in a row end before they have begun.
    mutating func watchEnded(
        _ error: EtcdError?, number: Int, using generator: inout some RandomNumberGenerator
    ) -> Effects {
        guard number == step.number else { return [] }
        let hadBegun = hasBegun
        let pause = go(to: .pause(plan.delay(after: hadBegun ? .delivered : .failed, using: &generator)))
        var failure = error
        // After a compaction, all keys are read again.
        if error == nil || error?.kind == .compacted {
            failure = nil
            if !hadBegun, hasEndedEarly {
                failure = error ?? EtcdError(.unavailable, "etcd ended two watches in a row before they began")
            }
            hasEndedEarly = !hadBegun
        }
        guard let failure else { return pause }
        (watchFailure, hasWatched) = (failure, true)
        return fail(failure).union(pause)
    }
}
