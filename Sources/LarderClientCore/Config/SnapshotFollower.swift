import LarderJSON
import LarderProtocol

/// The parameters of the subscription of a stream of snapshots.
struct SnapshotSubscription: Sendable {
    let client: LarderClient
    /// The path; an error if the caller's path is malformed.
    let path: Result<JSONPath, LarderClientError>
    let namespace: String
    let mode: ConfigSubscribe.Mode
}

/// Runs one iteration over ``LarderSnapshots``: subscribes, waits for snapshots, and resubscribes after an
/// interruption. It runs only in the consumer's task, while that task awaits the next snapshot.
final class SnapshotFollower: SnapshotSteps {
    private let wanted: SnapshotSubscription
    private let mailbox: SnapshotMailbox
    private var deliveries: AsyncStream<SnapshotMailbox.Delivery>.Iterator
    private var subscription: Subscription?
    private var attempts: StreamAttempts
    private var pause: Duration?

    /// A subscription at the agent. It ends when the last reference to it is released, for example when the consumer
    /// leaves its loop.
    private struct Subscription {
        let open: OpenSubscription
        let age: () -> Duration
    }

    init(_ wanted: SnapshotSubscription, failsOnRefusal: Bool) {
        self.wanted = wanted
        attempts = StreamAttempts(backoff: wanted.client.configuration.backoff, failsOnRefusal: failsOnRefusal)
        mailbox = SnapshotMailbox(mode: wanted.mode)
        deliveries = mailbox.deliveries().makeAsyncIterator()
    }

    /// Waits for the next snapshot, interruption or resumption. Returns nil once the task is cancelled.
    /// - Throws: an error that a retry cannot resolve, such as `invalidArgument`.
    func next() async throws(LarderClientError) -> LarderSnapshots.Step? {
        while true {
            if let pause {
                self.pause = nil
                try? await configuration.clock.sleep(for: pause)
            }
            if Task.isCancelled { return nil }
            do throws(LarderClientError) {
                let current: Subscription
                if let subscription { current = subscription } else { current = try await subscribe() }
                subscription = current
                if attempts.resume() { return .resumption }
                switch await deliveries.next(isolation: #isolation) {
                case nil: return nil
                case .snapshot(let snapshot):
                    attempts.restart()
                    return .snapshot(snapshot)
                case .withdrawal:
                    // A change of the settings ended the subscription. This is not an interruption, because the agent
                    // is reachable. The agent's reply to the next attempt shows whether the stream can continue.
                    subscription = nil
                    pause = attempts.nextDelay()
                case .interruption(let error):
                    // A subscription that lasted longer than the maximum delay between attempts resets the number of
                    // failures, even if it delivered no snapshot.
                    if current.age() > configuration.backoff.cap { attempts.restart() }
                    throw error
                }
            } catch {
                subscription = nil
                if Task.isCancelled { return nil }
                let (delay, interruption) = try attempts.fail(error)
                pause = delay
                if let interruption { return .interruption(interruption) }
            }
        }
    }

    private var configuration: LarderClient.Configuration { wanted.client.configuration }

    private func subscribe() async throws(LarderClientError) -> Subscription {
        let position = mailbox.begin()
        let parameters = ConfigSubscribe.Parameters(
            path: try wanted.path.get(), namespace: wanted.namespace, mode: wanted.mode,
            since: position?.revision, epoch: position?.epoch)
        let (result, connection) = try await wanted.client.send(
            ConfigSubscribe.self, parameters, purpose: .subscription(mailbox))
        return Subscription(
            open: OpenSubscription(connection: connection, number: result.subscription),
            age: configuration.clock.stopwatch())
    }
}

/// Counts the failed attempts of a stream, and decides what the stream reports. It performs no I/O.
struct StreamAttempts {
    private let backoff: Backoff
    private let failsOnRefusal: Bool
    private var failures = 0
    /// Whether an attempt has failed and none has succeeded since.
    private var isInterrupted = false
    /// The refusal that was reported last; nil after another error or a success.
    private var refusal: LarderClientError?

    init(backoff: Backoff, failsOnRefusal: Bool) { (self.backoff, self.failsOnRefusal) = (backoff, failsOnRefusal) }

    /// Counts a failed attempt.
    /// - Returns: the delay before the next attempt, and what to report; nil if the same refusal was reported before
    /// - Throws: the error, if the stream does not try again
    mutating func fail(
        _ error: LarderClientError
    ) throws(LarderClientError) -> (delay: Duration, interruption: ConfigInterruption?) {
        let isRefusal = error.isRefusal
        // A retry after a protocol violation may succeed, because the agent may behave correctly after a restart.
        guard isRefusal ? !failsOnRefusal : error.isRetryable || error.code == .protocolViolation else { throw error }
        isInterrupted = true
        let delay = nextDelay()
        let isReported = isRefusal && refusal == error
        refusal = isRefusal ? error : nil
        if isReported { return (delay, nil) }
        return (delay, ConfigInterruption(error: error, attempt: failures, delay: delay))
    }

    /// Counts an attempt without an error. Returns the delay before the next one.
    mutating func nextDelay() -> Duration {
        defer { failures += 1 }
        return backoff.delay(beforeAttempt: failures)
    }

    /// Notes that an attempt has succeeded.
    /// - Returns: whether the stream has resumed after an interruption
    mutating func resume() -> Bool {
        defer { (isInterrupted, refusal) = (false, nil) }
        return isInterrupted
    }

    /// Starts the count of failures again.
    mutating func restart() { failures = 0 }
}

/// Turns the events of consecutive subscriptions to the same path into snapshots. It performs no I/O.
///
/// It implements the guarantees of ``LarderSnapshots``: revisions only increase within an epoch, no snapshot is
/// delivered twice, and a slow consumer gets only the newest one.
package struct SnapshotReceiver {
    /// A revision and its epoch.
    package struct Position: Sendable, Equatable {
        package var revision: Int
        package var epoch: String

        package init(revision: Int, epoch: String) {
            self.revision = revision
            self.epoch = epoch
        }

        func isNewer(than other: Position?) -> Bool {
            guard let other, other.epoch == epoch else { return true }
            return revision > other.revision
        }
    }

    /// The value that this client last received. The agent's next patch applies to it.
    private struct Base {
        var position: Position
        var value: JSONValue?
    }

    private let mode: ConfigSubscribe.Mode
    private var base: Base?
    /// The position of the newest snapshot that was delivered or is pending; nil before the first one.
    private var newest: Position?
    private var undelivered: LarderSnapshot?
    private var nextSequence = 1

    init(mode: ConfigSubscribe.Mode) {
        self.mode = mode
    }

    /// The `since` and `epoch` of the next `config.subscribe`; nil to request a full snapshot.
    var resumption: Position? {
        mode == .patch ? base?.position : newest
    }

    /// Starts a new subscription, whose events are numbered from 1.
    mutating func begin() {
        nextSequence = 1
    }

    /// Returns the pending snapshot and removes it.
    mutating func take() -> LarderSnapshot? {
        defer { undelivered = nil }
        return undelivered
    }

    /// Receives an event.
    /// - Throws: `protocolViolation` if an event is missing before this one or a patch does not apply. The receiver
    ///   then forgets the value that patches apply to, so in the mode `patch` the next subscription requests a full
    ///   snapshot.
    mutating func receive(_ event: ConfigEvent) throws(LarderClientError) {
        guard event.sequence == nextSequence else {
            base = nil
            throw LarderClientError(
                .protocolViolation,
                "expected event \(nextSequence) of the subscription, but received event \(event.sequence)")
        }
        nextSequence += 1
        let position = Position(revision: event.revision, epoch: event.epoch)
        switch event.content {
        case .end, .unknown: break
        case .snapshot(let value, _): offer(value, position, event)
        case .revision: offer(nil, position, event)
        case .patch(let patch, let from):
            guard let current = base, current.position == Position(revision: from, epoch: event.epoch) else {
                let current = base.map { "revision \($0.position.revision)" } ?? "no revision"
                base = nil
                throw LarderClientError(
                    .protocolViolation, "received a patch for revision \(from), but the client has \(current)")
            }
            offer(MergePatch.apply(patch, to: current.value), position, event)
        }
    }

    /// Makes a value the pending snapshot if its position is newer than ``newest``. A snapshot that was already pending
    /// is replaced and counts as skipped.
    private mutating func offer(_ value: JSONValue?, _ position: Position, _ event: ConfigEvent) {
        if mode == .patch { base = Base(position: position, value: value) }
        guard position.isNewer(than: newest) else { return }
        newest = position
        undelivered = LarderSnapshot(
            value: value, revision: event.revision, epoch: event.epoch, state: event.state,
            skipped: event.skipped + (undelivered.map { $0.skipped + 1 } ?? 0), namespace: event.namespace)
    }
}
