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
