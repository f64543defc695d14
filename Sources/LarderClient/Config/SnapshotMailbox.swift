import LarderProtocol
import Synchronization

/// Where the connection leaves what a subscription brings, and its one consumer picks it up. It holds one snapshot at
/// most, the newest. It outlives a connection: the next subscription goes on with it.
final class SnapshotMailbox: EventReceiver {
    /// What the consumer finds.
    enum Delivery: Sendable {
        case snapshot(ConfigSnapshot)
        /// The subscription is over.
        case interruption(LarderClientError)
        /// The subscription is over by a change of the settings; the agent says what is true now when it is asked again.
        case withdrawal
        /// The consumer's task was cancelled.
        case cancelled
    }

    private struct State {
        var receiver: SnapshotReceiver
        /// How the subscription ended; nil while it goes on.
        var end: Delivery?
        var consumer: CheckedContinuation<Void, Never>?

        var isEmpty: Bool { !receiver.hasSnapshot && end == nil }
    }

    private let state: Mutex<State>

    init(mode: ConfigSubscribe.Mode) {
        state = Mutex(State(receiver: SnapshotReceiver(mode: mode)))
    }

    /// Says that a subscription is about to begin, and from where it resumes.
    func begin() -> SnapshotReceiver.Position? {
        state.withLock { state in
            state.receiver.begin()
            state.end = nil
            return state.receiver.resumption
        }
    }

    /// Takes an event from the connection.
    /// - Throws: `protocolViolation`, after which the connection is of no use.
    func receive(_ event: ConfigEvent) throws(LarderClientError) {
        try change { state throws(LarderClientError) in try state.receiver.receive(event) }
    }

    /// Says that the subscription is over.
    func interrupt(_ error: LarderClientError) {
        change { $0.end = .interruption(error) }
    }

    /// Says that the settings ended the subscription.
    func withdraw() {
        change { $0.end = .withdrawal }
    }

    /// Waits for the newest snapshot, or for the end of the subscription once every snapshot was picked up.
    func next() async -> Delivery {
        while true {
            if Task.isCancelled { return .cancelled }
            if let delivery = take() { return delivery }
            await withTaskCancellationHandler {
                await withCheckedContinuation { consumer in
                    let mustWait = state.withLock { state in
                        if state.isEmpty, !Task.isCancelled { state.consumer = consumer }
                        return state.consumer != nil
                    }
                    if !mustWait { consumer.resume() }
                }
            } onCancel: {
                change { _ in }
            }
        }
    }

    private func take() -> Delivery? {
        state.withLock { state in
            if let snapshot = state.receiver.take() { return .snapshot(snapshot) }
            return state.end
        }
    }

    /// Changes the state and wakes the consumer.
    private func change<E: Error>(_ body: (inout State) throws(E) -> Void) throws(E) {
        // The lock is given back before anybody is woken, also where the change is refused.
        let (failure, consumer) = state.withLock { state -> (E?, CheckedContinuation<Void, Never>?) in
            let consumer = state.consumer.take()
            do throws(E) {
                try body(&state)
                return (nil, consumer)
            } catch {
                return (error, consumer)
            }
        }
        consumer?.resume()
        if let failure { throw failure }
    }
}
