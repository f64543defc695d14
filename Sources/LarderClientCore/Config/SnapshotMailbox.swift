import LarderProtocol
import Synchronization

/// Buffers the newest snapshot of a subscription until the consumer of ``deliveries()`` takes it.
///
/// A mailbox outlives a connection: the subscription on the next connection uses the same mailbox.
final class SnapshotMailbox: EventReceiver {
    /// An element of the stream.
    enum Delivery: Sendable {
        case snapshot(LarderSnapshot)
        /// The subscription ended with an error.
        case interruption(LarderClientError)
        /// A change of the settings ended the subscription. The reply to the next attempt shows which settings are in
        /// force.
        case withdrawal
    }

    private typealias Consumer = CheckedContinuation<Delivery?, Never>

    private struct State {
        var receiver: SnapshotReceiver
        /// The end of the subscription, which is delivered after its last snapshot; nil while the subscription is open.
        var end: Delivery?
        var consumer: Consumer?
        var isCancelled = false

        /// Returns the pending snapshot and removes it. Without one, returns the end of the subscription; nil if the
        /// subscription is open.
        mutating func take() -> Delivery? { receiver.take().map(Delivery.snapshot) ?? end }
    }

    private let state: Mutex<State>

    init(mode: ConfigSubscribe.Mode) {
        state = Mutex(State(receiver: SnapshotReceiver(mode: mode)))
    }

    /// Returns the stream of snapshots. Each element is the newest snapshot, or the end of a subscription after its
    /// last snapshot. The stream finishes when the task that awaits it is cancelled. It supports one consumer.
    ///
    /// The mailbox is the buffer of the stream, because the buffer of `AsyncStream` could not count the snapshots that
    /// newer ones replace.
    func deliveries() -> AsyncStream<Delivery> {
        AsyncStream(unfolding: { await self.next() }, onCancel: { self.cancel() })
    }

    private func next() async -> Delivery? {
        await withCheckedContinuation { consumer in
            let (delivery, isReady) = state.withLock { state -> (Delivery?, Bool) in
                if state.isCancelled { return (nil, true) }
                if let delivery = state.take() { return (delivery, true) }
                state.consumer = consumer
                return (nil, false)
            }
            if isReady { consumer.resume(returning: delivery) }
        }
    }

    private func cancel() {
        let consumer = state.withLock { state in
            state.isCancelled = true
            return state.consumer.take()
        }
        consumer?.resume(returning: nil)
    }

    /// Prepares for a new subscription.
    /// - Returns: the position to resume from; nil to request a full snapshot.
    func begin() -> SnapshotReceiver.Position? {
        state.withLock { state in
            state.receiver.begin()
            state.end = nil
            return state.receiver.resumption
        }
    }

    /// Receives an event from the connection.
    /// - Throws: `protocolViolation` if the event does not continue the previous ones. The caller must then close the
    ///   connection.
    func receive(_ event: ConfigEvent) throws(LarderClientError) {
        try change { state throws(LarderClientError) in try state.receiver.receive(event) }
    }

    func interrupt(_ error: LarderClientError) {
        change { $0.end = .interruption(error) }
    }

    func withdraw() {
        change { $0.end = .withdrawal }
    }

    /// Changes the state. Resumes the consumer if a snapshot or the end of the subscription can now be delivered.
    private func change<E: Error>(_ body: (inout State) throws(E) -> Void) throws(E) {
        let (failure, consumer, delivery) = state.withLock { state -> (E?, Consumer?, Delivery?) in
            do throws(E) {
                try body(&state)
            } catch {
                return (error, nil, nil)
            }
            guard state.consumer != nil, let delivery = state.take() else { return (nil, nil, nil) }
            return (nil, state.consumer.take(), delivery)
        }
        if let failure { throw failure }
        consumer?.resume(returning: delivery)
    }
}
