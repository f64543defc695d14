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
    /// Whether an interruption was returned and no subscription has succeeded since.
    private var isInterrupted = false
    private var failures = 0
    private var pause: Duration?

    /// A subscription at the agent. It ends when the last reference to it is released, for example when the consumer
    /// leaves its loop.
    private struct Subscription {
        let open: OpenSubscription
        let age: () -> Duration
    }

    init(_ wanted: SnapshotSubscription) {
        self.wanted = wanted
        mailbox = SnapshotMailbox(mode: wanted.mode)
        deliveries = mailbox.deliveries().makeAsyncIterator()
    }

    /// Waits for the next snapshot or interruption. Returns nil once the task is cancelled.
    /// - Throws: an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
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
                if isInterrupted {
                    isInterrupted = false
                    return .resumption
                }
                switch await deliveries.next(isolation: #isolation) {
                case nil: return nil
                case .snapshot(let snapshot):
                    failures = 0
                    return .snapshot(snapshot)
                case .withdrawal:
                    // A change of the settings ended the subscription. This is not an interruption, because the agent
                    // is reachable. The agent's reply to the next attempt shows whether the stream can continue.
                    subscription = nil
                    _ = planNextAttempt()
                case .interruption(let error):
                    // A subscription that lasted longer than the maximum delay between attempts resets the number of
                    // failures, even if it delivered no snapshot.
                    if current.age() > configuration.backoff.cap { failures = 0 }
                    throw error
                }
            } catch {
                subscription = nil
                if Task.isCancelled { return nil }
                guard error.isWorthRetrying else { throw error }
                isInterrupted = true
                let delay = planNextAttempt()
                return .interruption(ConfigInterruption(error: error, attempt: failures, delay: delay))
            }
        }
    }

    private var configuration: LarderClient.Configuration { wanted.client.configuration }

    /// Counts a failure. Returns the delay that ``next()`` waits before the next attempt.
    private func planNextAttempt() -> Duration {
        let delay = configuration.backoff.delay(beforeAttempt: failures)
        failures += 1
        pause = delay
        return delay
    }

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

extension LarderClientError {
    /// Whether the stream retries after this error. A protocol violation is included, because the agent may behave
    /// correctly after a restart.
    fileprivate var isWorthRetrying: Bool { isRetryable || code == .protocolViolation }
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
