import LarderJSON
import LarderProtocol

/// The parameters of the subscription of a stream of snapshots.
struct SnapshotSubscription: Sendable {
    let client: LarderClient
    /// The path; an error if the caller's path is malformed.
    let path: Result<JSONPath, LarderClientError>
    /// The path as the caller wrote it.
    let text: String
    let namespace: String
    let mode: ConfigSubscribe.Mode
}

/// Runs one iteration over ``LarderSnapshots``: joins a subscription, waits for snapshots, and joins again after an
/// interruption. It runs only in the consumer's task, while that task awaits the next snapshot.
final class SnapshotFollower: SnapshotSteps {
    private let wanted: SnapshotSubscription
    private let mailbox = SnapshotMailbox()
    private var deliveries: AsyncStream<SnapshotMailbox.Delivery>.Iterator
    private var attempts: StreamAttempts
    private var pause: Duration?
    /// The subscription that this stream shares with others; nil before the first attempt.
    private var shared: SharedSubscription?
    /// Whether the mailbox is attached to ``shared``.
    private var isAttached = false
    /// Returns the time since the agent accepted the subscription; nil without a subscription.
    private var age: (() -> Duration)?

    init(_ wanted: SnapshotSubscription, failsOnRefusal: Bool) {
        self.wanted = wanted
        attempts = StreamAttempts(backoff: wanted.client.configuration.backoff, failsOnRefusal: failsOnRefusal)
        deliveries = mailbox.deliveries().makeAsyncIterator()
    }

    deinit {
        detach()
        if let shared { wanted.client.subscriptions.leave(shared) }
    }

    /// Waits for the next snapshot, interruption or resumption. Returns nil once the task is cancelled.
    /// - Throws: an error that a retry cannot resolve, such as `invalidArgument`.
    func next() async throws(LarderClientError) -> LarderSnapshots.Step? {
        while true {
            if let pause {
                self.pause = nil
                try? await configuration.clock.sleep(for: pause)
            }
            if Task.isCancelled { return finish() }
            do throws(LarderClientError) {
                let shared = try attached()
                switch await deliveries.next(isolation: #isolation) {
                case nil: return finish()
                case .turn:
                    let client = wanted.client
                    await shared.subscribe { parameters, receiver throws(LarderClientError) in
                        try await client.subscribe(parameters, receiver)
                    }
                case .subscribed:
                    age = configuration.clock.stopwatch()
                    if attempts.resume() {
                        wanted.client.slot.monitor.succeeded()
                        return .resumption
                    }
                case .snapshot(let snapshot):
                    attempts.restart()
                    if snapshot.skipped > 0, let path = try? wanted.path.get() {
                        configuration.onEvent?(
                            .skippedSnapshots(
                                count: snapshot.skipped, path: path.pointer, namespace: wanted.namespace))
                    }
                    return .snapshot(snapshot.named(wanted.text))
                case .withdrawal:
                    // A change of the settings ended the subscription. This is not an interruption, because the agent
                    // is reachable. The agent's reply to the next attempt shows whether the stream can continue.
                    detach()
                    pause = attempts.delayAfterWithdrawal()
                case .interruption(let error):
                    // A subscription that lasted longer than the maximum delay between attempts resets the number of
                    // failures, even if it delivered no snapshot.
                    if let age, age() > configuration.backoff.cap { attempts.restart() }
                    throw error
                }
            } catch {
                detach()
                if Task.isCancelled { return nil }
                let (delay, interruption) = try attempts.fail(error)
                pause = delay
                if let interruption {
                    wanted.client.slot.monitor.failed(ConfigSubscribe.name, error, retryAfter: delay)
                    return .interruption(interruption)
                }
            }
        }
    }

    private var configuration: LarderClient.Configuration { wanted.client.configuration }

    /// Returns the shared subscription, after attaching the mailbox if necessary.
    private func attached() throws(LarderClientError) -> SharedSubscription {
        let shared: SharedSubscription
        if let joined = self.shared {
            shared = joined
        } else {
            shared = wanted.client.subscriptions.join(
                SharedSubscription.Key(
                    path: try wanted.path.get(), namespace: ExactText(wanted.namespace), mode: wanted.mode))
            self.shared = shared
        }
        if !isAttached {
            isAttached = true
            shared.attach(mailbox)
        }
        return shared
    }

    private func detach() {
        age = nil
        guard isAttached, let shared else { return }
        isAttached = false
        shared.detach(mailbox)
    }

    private func finish() -> LarderSnapshots.Step? {
        detach()
        return nil
    }
}

/// Counts the failed attempts of a stream, and decides what the stream reports. It performs no I/O.
struct StreamAttempts {
    private let backoff: LarderBackoff
    private let failsOnRefusal: Bool
    private var failures = 0
    /// The error of the last attempt; nil if it has succeeded.
    private var last: LarderClientError?

    init(backoff: LarderBackoff, failsOnRefusal: Bool) {
        (self.backoff, self.failsOnRefusal) = (backoff, failsOnRefusal)
    }

    /// Counts a failed attempt.
    /// - Returns: the delay before the next attempt, and what to report; nil if the same refusal was reported before
    /// - Throws: the error, if the stream does not try again
    mutating func fail(
        _ error: LarderClientError
    ) throws(LarderClientError) -> (delay: Duration, interruption: ConfigInterruption?) {
        let isRefusal = error.isRefusal
        // A retry after a protocol violation may succeed, because the agent may behave correctly after a restart.
        guard isRefusal ? !failsOnRefusal : error.isRetryable || error.code == .protocolViolation else { throw error }
        let delay = nextDelay()
        let isRepeated = last == error
        last = error
        if isRefusal, isRepeated { return (delay, nil) }
        return (delay, ConfigInterruption(error: error, attempt: failures, delay: delay, isRepeated: isRepeated))
    }

    /// Counts an attempt. Returns the delay before the next one.
    private mutating func nextDelay() -> Duration {
        defer { failures += 1 }
        return backoff.delay(beforeAttempt: failures)
    }

    /// Counts the end of a subscription by the agent. Returns the delay before the next attempt: nil for the first one, so
    /// that the stream reports the loss of a right at once.
    mutating func delayAfterWithdrawal() -> Duration? {
        if failures > 0 { return nextDelay() }
        failures = 1
        return nil
    }

    /// Notes that an attempt has succeeded.
    /// - Returns: whether the stream has resumed after an interruption
    mutating func resume() -> Bool {
        defer { last = nil }
        return last != nil
    }

    /// Starts the count of failures again.
    mutating func restart() { failures = 0 }
}
